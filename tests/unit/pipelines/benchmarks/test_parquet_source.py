"""Parquet files that unfold to far more than they hold are refused before they are read."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.benchmarks.parquet_source import MAX_TEXT_BYTES, open_parquet, parquet_rows
from pipelines.errors import SourceError


def parquet(rows: int, cell: int, *, compression: str = "zstd", use_dictionary: bool = True) -> bytes:
    table = pa.table({"id": [str(number) for number in range(rows)], "question": ["x" * cell] * rows})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=compression, use_dictionary=use_dictionary)
    return sink.getvalue()


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_small_file_that_unfolds_to_many_times_its_size_is_refused(*, use_dictionary: bool) -> None:
    content = parquet(3, 40 << 20, use_dictionary=use_dictionary)
    assert len(content) < 20_000
    with pytest.raises(SourceError, match=r"q.parquet: its [\d,]+ bytes unfold to [\d,]+, over 100 times as many"):
        open_parquet(content, "q.parquet")


def test_rows_of_hundreds_of_megabytes_are_refused() -> None:
    content = parquet(2, 150 << 20, compression="snappy")
    with pytest.raises(SourceError, match=r"bytes in 2 rows, over 64 MiB a row; make pictures smaller"):
        open_parquet(content, "q.parquet")


def test_rows_of_a_usual_table_are_read(tmp_path: Path) -> None:
    (tmp_path / "q.parquet").write_bytes(parquet(3000, 500))
    with (tmp_path / "q.parquet").open("rb") as file:
        opened = open_parquet(file, "q.parquet", ["id"])
        rows = list(parquet_rows(opened, ["id", "question"], rows=64, max_bytes=MAX_TEXT_BYTES, where="q.parquet"))
    assert [row["id"] for row in rows] == [str(number) for number in range(3000)]

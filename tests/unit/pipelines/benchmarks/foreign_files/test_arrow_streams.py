"""Arrow files are read a few rows at a time; what is damaged or unfolds without end is refused with a sentence."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from pipelines.benchmarks.foreign_files import arrow_streams
from pipelines.benchmarks.foreign_files.arrow_streams import ArrowStream
from pipelines.errors import SourceError
from tests.support.saved_datasets import arrow

TABLE = pa.table(
    {
        "q": ["a", "b", "c"],
        "image": [{"bytes": b"x", "path": None}, {"bytes": None, "path": "a.png"}, None],
        "l": [[1, 2], [], None],
        "nothing": pa.nulls(3),
        "nested": [[None, None], [], None],
    }
)


def rows(content: bytes, *columns: str) -> list[Any]:
    stream = ArrowStream(io.BytesIO(content), "x.arrow")
    return [*stream.rows(columns or stream.columns)]


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_rows_of_streams_and_files(new: Callable[..., Any]) -> None:
    sink = io.BytesIO()
    with new(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    assert rows(sink.getvalue()) == TABLE.to_pylist()
    assert rows(sink.getvalue(), "q") == [{"q": "a"}, {"q": "b"}, {"q": "c"}]


@pytest.mark.parametrize(
    ("table", "compression", "sentence"),
    [
        (TABLE, "zstd", "is compressed, which is not read; save it with `Dataset.save_to_disk`, or as Parquet"),
        (TABLE, "lz4", "is compressed"),
        (pa.table({"q": pa.array(["a"]).dictionary_encode()}), None, "column 'q' is a dictionary"),
        (
            pa.table({"q": pa.array([["a"]], pa.list_(pa.string_view()))}),
            None,
            "is a string_view of Arrow, which is not read",
        ),
    ],
)
def test_values_that_may_stand_for_more_than_they_take_are_refused(
    table: pa.Table, compression: str | None, sentence: str
) -> None:
    with pytest.raises(SourceError, match=sentence):
        rows(arrow(table, compression=compression))


def test_lists_of_nothing_are_counted() -> None:
    """A list of two billion nulls takes sixteen bytes."""
    offsets = pa.array([0, 2**31 - 1], pa.int32())
    table = pa.table({"q": pa.ListArray.from_arrays(offsets, pa.nulls(2**31 - 1))})
    with pytest.raises(SourceError, match="unfold to more than they hold"):
        rows(arrow(table))


def test_too_many_rows_of_nothing_are_refused() -> None:
    with pytest.raises(SourceError, match="over 2,000,000 rows"):
        rows(arrow(pa.table({"q": pa.nulls(3_000_000)}), rows=3_000_000))


def test_a_row_that_is_too_large_or_has_no_value_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_streams, "MAX_ROW_BYTES", 1000)
    monkeypatch.setattr(arrow_streams, "_AT_ONCE", 1000)
    first, large, last = rows(arrow(pa.table({"q": ["a", "b" * 2000, "c"]})))
    assert (first, last) == ({"q": "a"}, {"q": "c"})
    assert str(large).startswith("2,004 bytes, over 0 MiB a row; give the files of pictures")
    dates = pa.array([0, 10**12], pa.timestamp("s"))
    good, bad = rows(arrow(pa.table({"q": dates})))
    assert good == {"q": datetime.fromisoformat("1970-01-01")}
    assert "a value that cannot be read" in str(bad)


@pytest.mark.parametrize("cut", [9, 300, 700])
def test_a_file_that_was_cut_off_says_so(cut: int) -> None:
    with pytest.raises(SourceError, match=r"x\.arrow: (cannot be read as Arrow|ends after row)"):
        rows(arrow(TABLE, rows=1)[:-cut])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1\x00\x00"])
def test_a_file_that_is_none_says_so(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"x\.arrow: cannot be read as Arrow"):
        rows(content)

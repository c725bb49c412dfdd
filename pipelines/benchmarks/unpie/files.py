"""Files of UNPIE as distributed, and others of the same content: Parquet, JSON, JSON lines, CSV."""

from __future__ import annotations

import csv
import io
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.benchmarks.parquet_source import MOST_PICTURES, batches
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.unpie.column_map import Shape, merged, shape_of
from pipelines.errors import SourceError

SPLITS: Final[Mapping[str, str]] = {"homographic": "Homo", "heterographic": "Hetero"}
"""Split and the category of its puns in tables."""

_FORMS: Final = (".parquet", ".jsonl", ".json", ".csv")
_BATCH: Final = 32
_LONGEST_FIELD: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of rows."""

    path: str
    split: str
    """'' where its rows say themselves to which split they belong."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A file's rows, one at a time, and what a row holds."""

    shape: Shape
    rows: Iterator[Mapping[str, Any] | str]
    """A row, or why it cannot be read."""


def data_files(source: Source) -> list[DataFile]:
    """The files of the source, those of the homographic split first.

    Splits are told by the names of files or folders, in the folder itself or in `data/` below it. Without any such name
    all data files of the first of these folders that has some belong together.

    Raises:
        SourceError: there are none, or one split comes in two forms.
    """
    folders = ("", "data/")
    named = [
        DataFile(path, split)
        for split in SPLITS
        for path in _in_one_form(
            source,
            [
                path
                for folder in folders
                for pattern in (f"{folder}{split}*", f"{folder}{split}/*", f"{folder}{split}/*/*")
                for path in source.glob(pattern)
            ],
        )
    ]
    if named:
        return named
    for folder in folders:
        found = _in_one_form(source, source.glob(f"{folder}*"))
        if found:
            return [DataFile(path, "") for path in found]
    raise SourceError(
        f"{source.uri}: no Parquet, JSON, JSONL or CSV file, here or in data/; give the folder that holds "
        "data/homographic-*.parquet and data/heterographic-*.parquet"
    )


def _in_one_form(source: Source, paths: Sequence[str]) -> list[str]:
    found = [path for path in dict.fromkeys(paths) if posixpath.splitext(path)[1].lower() in _FORMS]
    forms = sorted({posixpath.splitext(path)[1].lower() for path in found})
    if len(forms) > 1:
        raise SourceError(f"{source.uri}: the same data in several forms ({', '.join(found)}); leave one of them")
    return found


def open_file(source: Source, path: str) -> Opened:
    """Open one file.

    Raises:
        SourceError: it is not what its name says.
    """
    content = source.read_bytes(path)
    form = posixpath.splitext(path)[1].lower()
    try:
        if form == ".parquet":
            return _parquet(content, f"{source.uri}/{path}")
        text = content.decode("utf-8-sig")
        rows = {".json": _json, ".jsonl": _json_lines, ".csv": _csv}[form](text)
    except (ValueError, OSError, csv.Error) as error:
        raise SourceError(f"{source.uri}/{path}: cannot be read ({str(error)[:200]}); fetch the file again") from error
    return Opened(merged(shape_of(row) for row in rows if isinstance(row, dict)), iter(rows))


def _parquet(content: bytes, where: str) -> Opened:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def shape(kind: Any) -> Shape:
        if pa.types.is_struct(kind):
            return {kind.field(i).name: shape(kind.field(i).type) for i in range(kind.num_fields)}
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return [shape(kind.value_type)]
        return None

    file = pq.ParquetFile(io.BytesIO(content))
    shapes = {field.name: shape(field.type) for field in file.schema_arrow}
    found = batches(file, list(shapes), rows=_BATCH, most=MOST_PICTURES, where=where)
    return Opened(shapes, (row for batch in found for row in batch.to_pylist()))


def _json(text: str) -> list[dict[str, Any] | str]:
    raw = json.loads(text)
    if not isinstance(raw, list):
        raise ValueError(f"a list of rows was expected, this is {type(raw).__name__}")  # noqa: TRY004 - callers catch one class
    return [_row(one) for one in raw]


def _json_lines(text: str) -> list[dict[str, Any] | str]:
    return [_line(line) for line in text.split("\n") if line.strip()]


def _line(line: str) -> dict[str, Any] | str:
    try:
        return _row(json.loads(line))
    except ValueError as error:
        return f"not JSON: {error}"


def _row(raw: Any) -> dict[str, Any] | str:
    return raw if isinstance(raw, dict) else f"a row must be an object, this is {type(raw).__name__}"


def _csv(text: str) -> list[dict[str, Any] | str]:
    before = csv.field_size_limit(_LONGEST_FIELD)  # pictures may stand in a field as base64
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if not reader.fieldnames:
            raise ValueError("no header")
        return [_csv_row(row) for row in reader]
    finally:
        csv.field_size_limit(before)


def _csv_row(row: dict[str, Any]) -> dict[str, Any] | str:
    if None in row or None in row.values():
        return "it has not as many fields as the header"
    return row

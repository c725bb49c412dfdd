"""Find and open the data files of UNPIE: Parquet as distributed, and JSON, JSON lines or CSV of the same content."""

import csv
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Source
from pipelines.benchmarks.unpie.column_map import Shape, merge_shapes, shape_of
from pipelines.errors import SourceError

SPLITS: Final[Mapping[str, str]] = {"homographic": "Homo", "heterographic": "Hetero"}  # split -> category in the tables

_FORMATS: Final = (".parquet", ".jsonl", ".json", ".csv")
_BATCH_ROWS: Final = 32
_MAX_FIELD_CHARS: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of rows."""

    path: str
    split: str  # '' where each row names its split


@dataclass(frozen=True, slots=True)
class RowFile:
    """An opened file: its rows, one at a time, and their structure."""

    shape: Shape
    rows: Iterator[Mapping[str, Any] | str]  # rows, or the reason why one cannot be read


def data_files(source: Source) -> list[DataFile]:
    """Return the files of the source or its `data/`, those of the homographic split first.

    File or folder names tell the split; without such names rows of the first folder with data files name theirs.

    Raises:
        SourceError: there are no files, or one split comes in two formats.
    """
    folders = ("", "data/")
    files = [
        DataFile(path, split)
        for split in SPLITS
        for path in _in_one_format(
            source,
            [
                path
                for folder in folders
                for pattern in (f"{folder}{split}*", f"{folder}{split}/*", f"{folder}{split}/*/*")
                for path in source.glob(pattern)
            ],
        )
    ]
    if files:
        return files
    for folder in folders:
        paths = _in_one_format(source, source.glob(f"{folder}*"))
        if paths:
            return [DataFile(path, "") for path in paths]
    raise SourceError(
        f"{source.uri}: no Parquet, JSON, JSONL or CSV file, here or in data/; give the folder that holds "
        "data/homographic-*.parquet and data/heterographic-*.parquet"
    )


def _in_one_format(source: Source, paths: Sequence[str]) -> list[str]:
    data_paths = [path for path in dict.fromkeys(paths) if posixpath.splitext(path)[1].lower() in _FORMATS]
    formats = {posixpath.splitext(path)[1].lower() for path in data_paths}
    if len(formats) > 1:
        raise SourceError(f"{source.uri}: the same data in several formats ({', '.join(data_paths)}); keep one of them")
    return data_paths


def open_file(source: Source, path: str) -> RowFile:
    """Open one file; raise SourceError where its content is not of the format that its name tells."""
    content = source.read_bytes(path)
    extension = posixpath.splitext(path)[1].lower()
    try:
        if extension == ".parquet":
            return _parquet(content, f"{source.uri}/{path}")
        text = content.decode("utf-8-sig")
        rows = {".json": _json, ".jsonl": _json_lines, ".csv": _csv}[extension](text)
    except (ValueError, OSError, csv.Error, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: cannot be read ({str(error)[:200]}); fetch the file again") from error
    return RowFile(merge_shapes(shape_of(row) for row in rows if isinstance(row, dict)), iter(rows))


def _parquet(content: bytes, where: str) -> RowFile:
    import pyarrow as pa

    def shape(kind: Any) -> Shape:
        if pa.types.is_struct(kind):
            return {kind.field(i).name: shape(kind.field(i).type) for i in range(kind.num_fields)}
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return [shape(kind.value_type)]
        return None

    file = open_parquet(content, where)
    shapes = {field.name: shape(field.type) for field in file.schema_arrow}
    return RowFile(shapes, parquet_rows(file, list(shapes), rows=_BATCH_ROWS, max_bytes=MAX_PICTURE_BYTES, where=where))


def _json(text: str) -> list[dict[str, Any] | str]:
    raw = json.loads(text)
    if not isinstance(raw, list):
        raise ValueError(f"a list of rows was expected, this is {type(raw).__name__}")  # noqa: TRY004 - callers catch one class
    return [_row(entry) for entry in raw]


def _json_lines(text: str) -> list[dict[str, Any] | str]:
    return [_line(line) for line in text.split("\n") if line.strip()]


def _line(line: str) -> dict[str, Any] | str:
    try:
        return _row(json.loads(line))
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"


def _row(raw: Any) -> dict[str, Any] | str:
    return raw if isinstance(raw, dict) else f"a row must be an object, this is {type(raw).__name__}"


def _csv(text: str) -> list[dict[str, Any] | str]:
    rows = CsvRows(text, max_chars=_MAX_FIELD_CHARS)  # a field may hold a picture as base64
    if not rows.columns:
        raise ValueError("no header")
    return [_csv_row(row) for _, row in rows.read()]


def _csv_row(row: dict[Any, Any] | ValueError) -> dict[str, Any] | str:
    if isinstance(row, ValueError):
        return str(row)
    if None in row or None in row.values():
        return "it has fewer or more fields than the header"
    return row

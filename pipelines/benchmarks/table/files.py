"""The files of a table benchmark, read row by row: TSV, CSV, JSON Lines, JSON and Parquet."""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Source
from pipelines.benchmarks.table.columns import described
from pipelines.benchmarks.table.delimited import DelimitedRows, encoding_of, iter_lines
from pipelines.errors import SourceError

ENDINGS: Final = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
PREFERRED_SPLITS: Final = ("test", "validation", "val", "dev")
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet")
_HUB_INFO: Final = ("dataset_infos.json", "dataset_info.json")
_PARQUET_ROWS: Final = 64  # at a time: each may hold a picture

FileRow: TypeAlias = "tuple[str, Mapping[str, Any] | ValueError]"
"""Where a row stands, such as `line 17`, and the row or what is wrong with it."""


class RepeatedNameError(Exception):
    """Two columns of a table have one name."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one table, relative to the source."""

    paths: tuple[str, ...]
    split: str = ""  # of the files' names


def find_files(source: Source, file: str, split: str) -> TableFiles:
    """Return the files of a source: the one named, the only one at the top of a folder, or the shards of a split."""
    if file:
        return TableFiles((file,))
    shards = source.glob("data/*.parquet") or source.glob("*-of-*.parquet")
    if shards:
        return _of_split(source, shards, split)
    tables = [path for ending in ENDINGS for path in source.glob(f"*{ending}") if path not in _HUB_INFO]
    if len(tables) == 1:
        return TableFiles(tuple(tables))
    problem = (
        f"no table: give a file that ends with {', '.join(ENDINGS)}, or a folder with one or with data/SPLIT-*.parquet"
    )
    if tables:
        problem = f"several tables: {', '.join(tables[:8])}; name one as the source"
    raise SourceError(f"{source.uri}: {problem}")


def _of_split(source: Source, shards: Sequence[str], split: str) -> TableFiles:
    by_split: dict[str, list[str]] = {}
    for path in shards:
        name = posixpath.basename(path)
        match = _SHARD.fullmatch(name)
        by_split.setdefault(match["split"] if match else re.split(r"[-.]", name)[0], []).append(path)
    names = ", ".join(by_split)
    if split and split not in by_split:
        raise SourceError(f"--split {split}: {source.uri} has the splits {names}")
    chosen = split or next((name for name in PREFERRED_SPLITS if name in by_split), "")
    if not chosen and len(by_split) == 1:
        chosen = next(iter(by_split))
    if not chosen:
        raise SourceError(f"{source.uri}: several splits: {names}; name one by --split")
    return TableFiles(tuple(by_split[chosen]), chosen)


class TableFile:
    """One file: its columns, and its rows from the first on as often as they are asked for."""

    def __init__(self, source: Source, path: str) -> None:
        ending = posixpath.splitext(path)[1].lower()
        if ending not in _READERS:
            raise SourceError(f"{path}: give a file that ends with {', '.join(ENDINGS)}")
        self._source, self.path = source, path
        self._read = _READERS[ending]

    def rows(self, columns: Sequence[str] = ()) -> Iterator[FileRow]:
        """Yield the rows; of Parquet only these columns are read, where some are named."""
        try:
            yield from self._read(self._source, self.path, columns)
        except RepeatedNameError as error:
            raise SourceError(f"{self.path}: {error}") from error


def is_ansi(source: Source, path: str) -> bool:
    """Return whether a file's text is read as Windows-1252, where another code page may be meant."""
    if _READERS[posixpath.splitext(path)[1].lower()] not in (_delimited, _json_lines):
        return False
    with source.open(path) as file:
        return encoding_of(file) == "cp1252"


def _delimited(source: Source, path: str, _columns: Sequence[str]) -> Iterator[FileRow]:
    with source.open(path) as file, closing(iter_lines(file, encoding_of(file))) as lines:
        rows = DelimitedRows(lines, is_tsv=path.lower().endswith(".tsv"))
        named = [name for name in rows.columns if name]
        _check_distinct(named)
        if len(named) < 2:
            raise SourceError(f"{path}: no header with the names of columns; it has {described(rows.columns)}")
        number = 0
        for number, row in rows.rows():
            yield f"line {number}", row
        if not number:
            raise SourceError(f"{path}: no row below the header; it has the columns {described(rows.columns)}")


def _json_lines(source: Source, path: str, _columns: Sequence[str]) -> Iterator[FileRow]:
    with source.open(path) as file, closing(iter_lines(file, encoding_of(file))) as lines:
        for number, line in enumerate(lines, start=1):
            where = f"line {number}"
            text = "" if line is None else line.strip().removesuffix(",").rstrip()
            if line is None:
                yield where, ValueError("a line that is too long")
            elif text and text not in ("[", "]"):
                yield where, _object(text)


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; RepeatedNameError where two fields have one name, of which a dict has the last."""
    fields = dict(pairs)
    _check_distinct([name for name, _ in pairs])
    return fields


def _check_distinct(names: Sequence[str]) -> None:
    if repeated := next((name for name, count in Counter(names).items() if name and count > 1), ""):
        raise RepeatedNameError(f"two columns are named {repeated!r}; rename one")


def _object(text: str) -> Mapping[str, Any] | ValueError:
    try:
        row = json.loads(text, object_pairs_hook=_fields)
    except (ValueError, RecursionError) as error:
        return ValueError(f"not JSON ({error})")
    return row if isinstance(row, dict) else ValueError(f"not an object of named fields: {text[:60]}")


def _json(source: Source, path: str, _columns: Sequence[str]) -> Iterator[FileRow]:
    try:
        content = json.loads(source.read_bytes(path).decode("utf-8-sig"), object_pairs_hook=_fields)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not JSON ({error}); JSON Lines end with .jsonl") from error
    rows = content
    if isinstance(content, dict):
        lists = [
            value for value in content.values() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        rows = lists[0] if len(lists) == 1 else None
    if not isinstance(rows, list):
        raise SourceError(f"{path}: give a list of objects, one a row, or an object with one such list")
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row if isinstance(row, dict) else ValueError("not an object of named fields")


def _parquet(source: Source, path: str, columns: Sequence[str]) -> Iterator[FileRow]:
    with source.open(path) as content:
        file = open_parquet(content, path)
        _check_distinct(file.schema_arrow.names)
        names = [name for name in file.schema_arrow.names if not columns or name in columns]
        rows = parquet_rows(file, names, rows=_PARQUET_ROWS, max_bytes=MAX_PICTURE_BYTES, where=path)
        for number, row in enumerate(rows, start=1):
            yield f"row {number}", row


_READERS: Final[Mapping[str, Callable[[Source, str, Sequence[str]], Iterator[FileRow]]]] = {
    ".tsv": _delimited,
    ".csv": _delimited,
    ".jsonl": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
}

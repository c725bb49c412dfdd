"""The files of a table benchmark, read row by row: TSV, CSV, JSON Lines, JSON, Parquet, Arrow and workbooks."""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pipelines.benchmarks.foreign_files.arrow_streams import ArrowStream
from pipelines.benchmarks.foreign_files.workbooks import Workbook, column_letters
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Source
from pipelines.benchmarks.table.columns import described
from pipelines.benchmarks.table.conversations import Conversations
from pipelines.benchmarks.table.delimited import DelimitedRows, encoding_of, iter_lines
from pipelines.errors import SourceError

ENDINGS: Final = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".arrow", ".xlsx")
PREFERRED_SPLITS: Final = ("test", "validation", "val", "dev")
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet")
_HUB_INFO: Final = ("dataset_infos.json", "dataset_info.json")
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"  # of `save_to_disk`: of one split, and of several
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
    conversations: Conversations | None = None  # if its rows are such


def find_files(source: Source, file: str, split: str) -> TableFiles:
    """Return the files of a source: the one named, the only one at the top of a folder, or the shards of a split."""
    if file:
        return TableFiles((file,))
    if source.exists(_SAVED_SPLITS):
        return _saved_split_files(source, split)
    if source.exists(_SAVED) and any(
        source.exists(name) or source.glob(name) for name in ("dataset_info.json", "*.arrow")
    ):
        return _saved_files(source, "", split)
    shards = source.glob("data/*.parquet") or source.glob("*-of-*.parquet")
    if shards:
        return _split_files(source, shards, split)
    tables = [path for ending in ENDINGS for path in source.glob(f"*{ending}") if path not in _HUB_INFO]
    if len(tables) == 1:
        return TableFiles(tuple(tables))
    problem = (
        f"no table: give a file that ends with {', '.join(ENDINGS)}, a folder with one or with data/SPLIT-*.parquet, "
        "or a folder of save_to_disk"
    )
    if tables:
        problem = f"several tables: {', '.join(tables[:8])}; name one as the source"
    raise SourceError(f"{source.uri}: {problem}")


def _split_files(source: Source, shards: Sequence[str], split: str) -> TableFiles:
    by_split: dict[str, list[str]] = {}
    for path in shards:
        name = posixpath.basename(path)
        match = _SHARD.fullmatch(name)
        by_split.setdefault(match["split"] if match else re.split(r"[-.]", name)[0], []).append(path)
    chosen = _chosen(source, [*by_split], split)
    return TableFiles(tuple(by_split[chosen]), chosen)


def _chosen(source: Source, splits: Sequence[str], split: str) -> str:
    """Return the split that is read: the one asked for, else a preferred one, else the only one."""
    names = described(splits)
    if split and split not in splits:
        raise SourceError(f"--split {split}: {source.uri} has the splits {names}")
    chosen = split or next((name for name in PREFERRED_SPLITS if name in splits), "")
    if not chosen and len(splits) == 1:
        chosen = splits[0]
    if not chosen:
        raise SourceError(f"{source.uri}: several splits: {names}; name one by --split")
    return chosen


def _saved_split_files(source: Source, split: str) -> TableFiles:
    """Return the files of a split of a `DatasetDict` that was saved with `save_to_disk`."""
    content = _saved_json(source, _SAVED_SPLITS)
    splits = content.get("splits")
    if not isinstance(splits, list) or not splits or not all(isinstance(name, str) for name in splits):
        raise SourceError(f"{source.uri}/{_SAVED_SPLITS}: no list `splits` of names; save the data set again")
    chosen = _chosen(source, splits, split)
    return _saved_files(source, f"{chosen}/", chosen)


def _saved_files(source: Source, folder: str, split: str) -> TableFiles:
    """Return the files of a `Dataset` that was saved with `save_to_disk`, in the order of its `state.json`."""
    state = f"{folder}{_SAVED}"
    content = _saved_json(source, state)
    entries, name = content.get("_data_files"), content.get("_split")
    entries = entries if isinstance(entries, list) else []
    files = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    if not files or not all(isinstance(file, str) and file for file in files):
        raise SourceError(f"{source.uri}/{state}: no list `_data_files` of file names; save the data set again")
    if content.get("_indices_data_files"):
        raise SourceError(f"{source.uri}/{state}: rows are chosen by indices; call `flatten_indices()` before saving")
    paths = tuple(f"{folder}{file}" for file in files)
    if absent := [path for path in paths if not source.exists(path)]:
        raise SourceError(f"{source.uri}/{absent[0]}: no such file, though {state} names it; copy the whole folder")
    name = name if isinstance(name, str) else ""
    if split and name and not folder and split != name:
        raise SourceError(f"--split {split}: {source.uri} has the split {name}")
    return TableFiles(paths, split if folder else name)


def _saved_json(source: Source, path: str) -> Mapping[str, Any]:
    try:
        content = json.loads(source.read_bytes(path))
    except FileNotFoundError:
        raise SourceError(f"{source.uri}/{path}: no such file; copy the whole folder of save_to_disk") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: not JSON ({error}); save the data set again") from error
    if not isinstance(content, dict):
        raise SourceError(f"{source.uri}/{path}: not an object of named fields; save the data set again")
    return content


class TableFile:
    """One file: its columns, and its rows from the first on as often as they are asked for."""

    def __init__(self, source: Source, path: str, conversations: Conversations | None = None) -> None:
        ending = posixpath.splitext(path)[1].lower()
        if ending not in _READERS:
            raise SourceError(f"{path}: give a file that ends with {', '.join(ENDINGS)}")
        self._source, self.path, self._conversations = source, path, conversations
        self._read = _READERS[ending]

    def rows(self, columns: Sequence[str] = ()) -> Iterator[FileRow]:
        """Yield the rows; of Parquet and Arrow only these columns are read, if some are named."""
        talk = self._conversations
        if columns and talk is not None:
            columns = (talk.column, *talk.media, *columns)
        try:
            rows = self._read(self._source, self.path, columns)
            yield from rows if talk is None else ((where, _flattened(row, talk)) for where, row in rows)
        except RepeatedNameError as error:
            raise SourceError(f"{self.path}: {error}") from error


def _flattened(row: Mapping[str, Any] | ValueError, conversations: Conversations) -> Mapping[str, Any] | ValueError:
    try:
        return row if isinstance(row, ValueError) else conversations.flattened(row)
    except ValueError as error:
        return error


def remarks(source: Source, path: str) -> Iterator[str]:
    """Yield what a file leaves open, or holds and nothing reads: an unnamed encoding, further sheets, pictures."""
    read = _READERS[posixpath.splitext(path)[1].lower()]
    if read not in (_delimited, _json_lines, _workbook):
        return
    with source.open(path) as file:
        if read is not _workbook:
            if encoding_of(file) == "cp1252":
                yield f"{path}: not UTF-8, read as Windows-1252; if letters are wrong, save it as UTF-8"
            return
        workbook = Workbook(file, path)
        if workbook.sheets > 1:
            yield f"{path}: the first of {workbook.sheets} sheets is read; save another one as a file of its own"
        if workbook.pictures:
            yield f"{path}: {workbook.pictures} pictures in the sheets are not read; give their files in a column"


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
        if rows is None and content and all(isinstance(value, dict) for value in content.values()):
            rows = [{**value, "@key": key} for key, value in content.items()]
    if not isinstance(rows, list):
        raise SourceError(
            f"{path}: give a list of objects, an object with one such list, or an object of objects by id"
        )
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row if isinstance(row, dict) else ValueError("not an object of named fields")


def _parquet(source: Source, path: str, columns: Sequence[str]) -> Iterator[FileRow]:
    with source.open(path) as content:
        file = open_parquet(content, path)
        _check_distinct(file.schema_arrow.names)
        names = [name for name in file.schema_arrow.names if not columns or name in columns]
        rows = parquet_rows(file, names, rows=_PARQUET_ROWS, max_bytes=MAX_PICTURE_BYTES, where=path)
        labels = _label_names(file.schema_arrow.metadata)
        for number, row in enumerate(rows, start=1):
            yield f"row {number}", _labelled(row, labels)


def _label_names(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Sequence[str]]:
    """Return the names of numbered labels by column, as `datasets` writes them into a schema; none if it has none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        labels = {name: of["names"] for name, of in features.items() if of.get("_type") == "ClassLabel"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # another program's, or damaged
        return {}
    return {name: names for name, names in labels.items() if isinstance(names, list)}


def _labelled(row: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    """Return a row with the names of its labels; -1 stands for no label."""
    named: dict[str, Any] = {}
    for column in labels.keys() & row.keys():
        names, number = labels[column], row[column]
        if isinstance(number, int) and -1 <= number < len(names):
            named[column] = names[number] if number >= 0 else None
    return {**row, **named} if named else row


def _arrow(source: Source, path: str, columns: Sequence[str]) -> Iterator[FileRow]:
    with source.open(path) as content:
        stream = ArrowStream(content, path)
        _check_distinct(stream.columns)
        names = [name for name in stream.columns if not columns or name in columns]
        labels = _label_names(stream.metadata)
        for number, row in enumerate(stream.rows(names), start=1):
            yield f"row {number}", row if isinstance(row, ValueError) else _labelled(row, labels)


def _workbook(source: Source, path: str, _columns: Sequence[str]) -> Iterator[FileRow]:
    heads: dict[int, str] = {}
    number = 0
    with source.open(path) as content:
        for number, cells in Workbook(content, path).rows():
            texts = {column: value for column, value in cells.items() if value.strip()}
            if not heads:
                heads = {column: value.strip() for column, value in texts.items()}
                _check_distinct([*heads.values()])
            elif texts.keys() <= heads.keys():
                if texts:
                    yield f"row {number}", {head: cells.get(column, "") for column, head in heads.items()}
            else:
                column = column_letters(min(texts.keys() - heads.keys()))
                yield f"row {number}", ValueError(f"cell {column}{number} is filled, and its column has no name")
    if len(heads) < 2:
        raise SourceError(f"{path}: no header with the names of columns; it has {described([*heads.values()])}")


_READERS: Final[Mapping[str, Callable[[Source, str, Sequence[str]], Iterator[FileRow]]]] = {
    ".tsv": _delimited,
    ".csv": _delimited,
    ".jsonl": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".xlsx": _workbook,
}

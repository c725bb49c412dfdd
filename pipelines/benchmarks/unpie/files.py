"""Find and open the data files of UNPIE: Parquet as distributed, and JSON, JSON lines or CSV of the same content."""

import csv
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from models.errors import suggest
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Source
from pipelines.errors import SourceError

LANGUAGES: Final[Mapping[str, str]] = {"de": "German", "fr": "French", "ko": "Korean"}

_DEFAULTS: Final[Mapping[str, str]] = {
    "sample_id": "",
    "category": "category",
    "sentence": "pun_sentence",
    "phrase": "pun_phrase",
    "alt_sentence": "alter_sentence",
    "alt_phrase": "alter_phrase",
    "gloss[0]": "meaning1",
    "gloss[1]": "meaning2",
    "exp_image": "pun_exp_image",
    "disamb_image[0]": "disamb_image1",
    "disamb_image[1]": "disamb_image2",
    "freq_rank": "freq_rank",
    **{f"translation[{i}].{lang}": f"translation{i + 1}.{lang}" for i in range(2) for lang in LANGUAGES},
}
"""Field -> its path in the data as distributed; '' for none."""
_GROUPS: Final = ("gloss", "disamb_image", "translation", "translation[0]", "translation[1]")
"""Names that map several fields at once."""

MAP_NAMES: Final = (*_DEFAULTS, *_GROUPS)  # names that `--column-map` may give paths for

Shape = dict[str, Any] | list[Any] | None  # fields by name, shape of a list's items, or None for a value

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ABSENT: Final = object()
_MAX_LISTED: Final = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """The path of each field in one source."""

    paths: Mapping[str, str]  # field -> path in the source; '' for none
    mapped: frozenset[str]  # fields that the user's column map names

    @classmethod
    def from_map(cls, column_map: Mapping[str, str] | None) -> Self:
        """Lay the user's paths over the default ones, the more specific wins; ValueError for an unknown name."""
        user_paths = dict(column_map or {})
        for name in user_paths:
            if name not in MAP_NAMES:
                raise ValueError(f"column map: unknown name {name!r}; names: {', '.join(MAP_NAMES)}")
        paths, mapped = dict(_DEFAULTS), set[str]()
        for group in sorted(user_paths, key=len):
            for field in _DEFAULTS:
                if field == group or (group in _GROUPS and field.startswith((f"{group}[", f"{group}."))):
                    paths[field] = user_paths[group] + field.removeprefix(group)
                    mapped.add(field)
        return cls(paths, frozenset(mapped))

    def check(self, shape: Shape, where: str) -> frozenset[str]:
        """Return the fields that a file of this shape lacks.

        Raises:
            ValueError: the user's map names one of them; lists the columns, and suggests the nearest.
        """
        absent = frozenset(
            field for field, path in self.paths.items() if not path or _walk(shape, path, is_shape=True) is _ABSENT
        )
        for field in self.paths:
            if field in self.mapped & absent:
                raise ValueError(f"column map: {self.describe_missing(field, shape, where)}")
        return absent

    def describe_missing(self, field: str, shape: Shape, where: str) -> str:
        """Return the message for a field that a file lacks, with the file's columns and the nearest of them."""
        columns, path = list(_column_paths(shape)), self.paths[field]
        hint = suggest(path, columns).partition("; known:")[0]
        return (
            f"{where} has no {path!r} for {field!r}{hint}; columns found: {', '.join(columns[:_MAX_LISTED]) or 'none'}"
        )

    def get(self, row: Mapping[str, Any], field: str) -> Any:
        """Return a field's value, None where the row has none."""
        path = self.paths[field]
        value = _walk(row, path) if path else _ABSENT
        return None if value is _ABSENT else value


def shape_of(value: Any) -> Shape:
    """Return the structure of a value; JSON text counts as its content."""
    value = _parsed(value)
    if isinstance(value, Mapping):
        return {str(name): shape_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [merge_shapes(shape_of(inner) for inner in value)]
    return None


def merge_shapes(shapes: Iterable[Shape]) -> Shape:
    """Return the union of shapes."""
    union: Shape = None
    for shape in shapes:
        if isinstance(union, dict) and isinstance(shape, dict):
            for name, inner in shape.items():
                union[name] = merge_shapes([union.get(name), inner])
        elif isinstance(union, list) and isinstance(shape, list):
            union = [merge_shapes([*union, *shape])]
        elif union is None:
            union = shape
    return union


def _parsed(value: Any) -> Any:
    """Parse a struct or list that a table without such types holds as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _walk(value: Any, path: str, *, is_shape: bool = False) -> Any:
    """Return what stands at a path of a row, or of a shape, whose lists have one item for all."""
    while path:
        value = _parsed(value)
        if isinstance(value, Mapping) and path in value:
            return value[path]
        step = _STEP.match(path)
        if not step:
            return _ABSENT
        path = path[step.end() :].removeprefix(".")
        if step[2] is not None:
            index = 0 if is_shape else int(step[2])
            if not isinstance(value, list) or index >= len(value):
                return _ABSENT
            value = value[index]
        elif isinstance(value, Mapping) and step[1] in value:
            value = value[step[1]]
        else:
            return _ABSENT
    return value


def _column_paths(shape: Shape, parent: str = "") -> Iterator[str]:
    if isinstance(shape, dict):
        for name, inner in shape.items():
            path = f"{parent}.{name}" if parent else name
            yield path
            yield from _column_paths(inner, path)
    elif isinstance(shape, list):
        yield from _column_paths(shape[0], f"{parent}[0]")


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
        raise SourceError(
            f"{source.uri}: has the same data in several formats ({', '.join(data_paths)}); keep one of them"
        )
    return data_paths


def open_file(source: Source, path: str) -> RowFile:
    """Open one file; raise SourceError where its content is not of the format that its name tells."""
    content = source.read_bytes(path)
    extension = posixpath.splitext(path)[1].lower()
    try:
        if extension == ".parquet":
            return _parquet(content, f"{source.uri}/{path}")
        text = content.decode("utf-8-sig")
        if extension == ".jsonl":
            rows = [_line(line) for line in text.split("\n") if line.strip()]
        elif extension == ".csv":
            rows = _csv(text)
        elif isinstance(raw := json.loads(text), list):
            rows = [_row(entry) for entry in raw]
        else:
            raise ValueError(f"a list of rows was expected, this is {type(raw).__name__}")  # noqa: TRY301
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
    whole = "it has fewer or more fields than the header"
    fits = ((row, isinstance(row, dict) and None not in {*row, *row.values()}) for _, row in rows.read())
    return [str(row) if isinstance(row, ValueError) else row if is_whole else whole for row, is_whole in fits]

"""The rows of a table's files as its definition shapes them: joined, exploded, chosen, with columns made of others."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from pipelines.benchmarks.records import Source
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.conversations import Conversations
from pipelines.benchmarks.table.files import TableFile, TableFiles
from pipelines.benchmarks.table.lists import listed
from pipelines.benchmarks.table.media import VIDEO_ENDINGS, is_empty, media_values
from pipelines.benchmarks.table.templates import as_text, derived_value, sources
from pipelines.errors import SourceError

MAX_REFERENCE: Final = 64  # signs of a cell that names the row with the picture


class PlacedRow(NamedTuple):
    """A row, or what is wrong with it, and its place."""

    file: str
    where: str  # in the file, such as `line 17`
    row: Mapping[str, Any] | ValueError


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, from the first on as often as they are asked for."""

    source: Source
    files: TableFiles
    given: ColumnsFile

    def with_conversations(self, conversations: Conversations) -> "TableRows":
        """Return the rows of a table of conversations."""
        return replace(self, files=replace(self.files, conversations=conversations))

    def rows(self, columns: Sequence[str] = ()) -> Iterator[PlacedRow]:
        """Yield the rows; of Parquet and Arrow only what these columns need is read, if some are named."""
        needed = [*dict.fromkeys(each for name in (*columns, *self._always) for each in sources(name))]
        number, is_shaped = 0, self._is_shaped
        for path in self.files.paths:
            file, within = TableFile(self.source, path, self.files.conversations), 0
            for where, row in file.rows(needed if columns else ()):
                number, within = number + 1, within + 1
                if not is_shaped or isinstance(row, ValueError):
                    yield PlacedRow(path, where, row)
                    continue
                try:
                    facts = {**_file_facts(path), "@row": within, "@number": number}
                    shaped = [*self._shaped({**row, **facts}, posixpath.splitext(posixpath.basename(path))[0])]
                except ValueError as error:
                    yield PlacedRow(path, where, error)
                    continue
                yield from (PlacedRow(path, where, each) for each in shaped)

    @cached_property
    def _is_shaped(self) -> bool:
        given = self.given
        return bool(
            given.derived or given.where or given.missing or given.explode or given.join or given.media_of
            or given.roots or given.after or given.for_each
        )  # fmt: skip

    @cached_property
    def _always(self) -> tuple[str, ...]:
        """The columns that every reading needs."""
        given = self.given
        keys = [given.join.on[0]] if given.join else []
        return (*given.where, *([given.explode] if given.explode else []), *keys)

    def _shaped(self, row: dict[str, Any], file: str) -> Iterator[Mapping[str, Any]]:
        given = self.given
        if given.join:
            row = {**self._joined(row), **row}
        if given.missing:
            row = {name: _without(value, given.missing) for name, value in row.items()}
        parts = (
            _one_medium_each(row, given.columns.get("media", ())) if given.for_each else _exploded(row, given.explode)
        )
        for part in parts:
            if not all(self._is_one_of(part, column, values) for column, values in given.where.items()):
                continue
            part |= {name: derived_value(name, part) for name in given.derived}
            for role in ("media", "subtitles"):
                for column in given.columns.get(role, ()):
                    if part.get(column) is not None:
                        part[column] = self._placed(part[column], file, is_template="{" in column)
            yield part

    @staticmethod
    def _is_one_of(row: Mapping[str, Any], column: str, values: Sequence[str]) -> bool:
        cell = derived_value(column, row)
        return ("" if is_empty(cell) else as_text(cell, column)) in values

    def _joined(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        join = self.given.join
        if join is None:
            return {}
        cell = row.get(join.on[0])
        key = "" if is_empty(cell) else as_text(cell, join.on[0])
        if key not in self._further_rows:
            raise ValueError(f"no row of {join.files} has {join.on[1]} {key[:80]!r}")
        return self._further_rows[key]

    @cached_property
    def _further_rows(self) -> Mapping[str, Mapping[str, Any]]:
        join = self.given.join
        paths = self.source.glob(join.files) if join else []
        if not join or not paths:
            raise SourceError(
                f"{self.source.uri}: no file is {join and join.files}, whose rows `join` adds; copy it there"
            )
        rows: dict[str, Mapping[str, Any]] = {}
        for path in paths:
            for where, row in TableFile(self.source, path).rows():
                if isinstance(row, ValueError) or join.on[1] not in row:
                    raise SourceError(f"{path}, {where}: no column {join.on[1]!r}, by which `join` adds rows")
                rows[as_text(row[join.on[1]], join.on[1])] = row
        return rows

    # ------------------------------------------------------------------------------------------- media

    def _placed(self, cell: Any, file: str, *, is_template: bool) -> Any:
        """Return a cell of media with each path where its file is, and a cell that names a row with that row's."""
        if self.given.media_of and isinstance(cell, str) and len(cell.strip()) <= MAX_REFERENCE:
            return self._pictures.get(cell.strip(), cell)
        if not (self.given.roots or self.given.after or is_template):
            return cell
        values = [self._path(value, file, is_template=is_template) if isinstance(value, str) else value
                  for value in media_values(cell)]  # fmt: skip
        return values if isinstance(cell, list) else values[0] if values else None

    def _path(self, path: str, file: str, *, is_template: bool) -> str:
        after, roots = self.given.after, self.given.roots
        path = path.partition(after)[2] or path if after else path
        folders = (
            [roots[file]] if isinstance(roots, dict) and file in roots else [] if isinstance(roots, dict) else roots
        )
        places = [posixpath.join(folder, path) for folder in folders] or [path]
        stems = [posixpath.splitext(place)[0] for place in places] if is_template else []
        endings = (*VIDEO_ENDINGS, *(ending.upper() for ending in VIDEO_ENDINGS))
        others = (f"{stem}{ending}" for stem in stems for ending in endings)
        is_clip = path.lower().endswith(VIDEO_ENDINGS)
        candidates = (*places, *(others if is_clip else ()))
        return next((place for place in candidates if self.source.exists(place)), places[0])

    @cached_property
    def _pictures(self) -> Mapping[str, str]:
        """The pictures that cells of other rows name, by the value of the column `media_of`."""
        (media,), key = self.given.columns.get("media", ("image",))[:1], self.given.media_of
        pairs = dict[str, str]()
        for path in self.files.paths:
            for _, row in TableFile(self.source, path).rows((media, key)):
                if not isinstance(row, ValueError) and isinstance(row.get(media), str) and not is_empty(row.get(key)):
                    pairs[as_text(row[key], key)] = row[media].strip()
        named = {cell for cell in pairs.values() if len(cell) <= MAX_REFERENCE}
        return {name: pairs[name] for name in named & pairs.keys() if len(pairs[name]) > MAX_REFERENCE}


def _file_facts(path: str) -> dict[str, str]:
    folder, name = posixpath.split(path)
    return {"@file": posixpath.splitext(name)[0], "@folder": posixpath.basename(folder)}


def _exploded(row: dict[str, Any], column: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each value of a column of lists, with its number; the row itself if no column is named."""
    if not column:
        yield row
        return
    cell = row.get(column)
    values = listed(cell) if isinstance(cell, str) else cell
    for number, value in enumerate(values if isinstance(values, list) else [cell], start=1):
        yield {**row, column: value, "@n": number}


def _one_medium_each(row: dict[str, Any], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each picture or clip of a row, with its number."""
    media = [(column, value) for column in columns for value in media_values(row.get(column))]
    for number, (column, value) in enumerate(media, start=1):
        yield {**row, **dict.fromkeys(columns), column: value, "@n": number}


def _without(value: Any, missing: Sequence[str]) -> Any:
    """Return a value, None if it is one of the texts that mean an empty cell; of lists and objects each value."""
    if isinstance(value, str):
        return None if value.strip() in missing else value
    if isinstance(value, float) and str(value) in missing:
        return None
    if isinstance(value, list):
        return [_without(each, missing) for each in value]
    return {name: _without(each, missing) for name, each in value.items()} if isinstance(value, dict) else value

"""V-FLUTE's rows in the hub's form: `data/SPLIT-*.parquet` with the pictures inside, and exemplars for few-shot."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.benchmarks.parquet_source import MOST_PICTURES, MOST_WORDS, batches
from pipelines.benchmarks.records import Rejection
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.vflute.source_text import TextRow, validated
from pipelines.errors import DecodeError, SourceError

EXEMPLARS: Final[tuple[tuple[str, str], ...]] = (
    ("vismet", "contradiction"),
    ("irfl", "entailment"),
    ("muse", "contradiction"),
    ("memecap", "entailment"),
    ("nycartoons", "entailment"),
    ("vismet", "entailment"),
    ("irfl", "contradiction"),
    ("muse", "entailment"),
    ("memecap", "contradiction"),
    ("nycartoons", "entailment"),
)
"""Source and label of each exemplar, in the order shown; five shots are the first five."""

_TEXT: Final = ("claim", "label", "explanation", "phenomenon", "source_dataset")
_SHARD = re.compile(r".*-(\d+)-of-(\d+)\.parquet")
_BATCH = 16
_MOST_GROUP = 2 << 30  # decoded bytes of the pictures of one row group, which are held together
_SEED = 42  # part of the digests that choose exemplars


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRow:
    """One row of a split."""

    index: int
    """Its place in the split, over all files."""
    file: str
    row: TextRow
    picture: bytes
    name: str
    """File name of the picture as distributed; may be ''."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """A solved training row."""

    digest: str
    """SHA-256 of seed, split and row, hex; the smallest is taken."""
    row: HubRow

    @property
    def id(self) -> str:
        """As ids of the test split are made."""
        return f"{self.row.row.source_dataset}-train-{self.row.index}"

    def template(self, templates: Sequence[str]) -> str:
        """Its instruction among the sorted distinct ones of the test file."""
        return templates[int(self.digest, 16) % len(templates)] if templates else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """The exemplars that could be had, in the order shown, and what was found wrong on the way."""

    exemplars: tuple[Exemplar, ...] = ()
    problems: tuple[str, ...] = ()


def hub_files(source: Source, split: str) -> list[str]:
    """The split's files in their order.

    Raises:
        SourceError: some of them are not there, so that places of rows in the split cannot be told.
    """
    files = source.glob(f"data/{split}-*.parquet")
    numbers = [match for file in files if (match := _SHARD.fullmatch(file))]
    totals = {int(match[2]) for match in numbers}
    if totals and {int(match[1]) for match in numbers} != set(range(max(totals))):
        raise SourceError(
            f"{source.uri}/data: {len(numbers)} of {max(totals)} files of the {split} split; fetch the others, "
            "ids are places in the whole split"
        )
    return files


def hub_claims(source: Source, files: Sequence[str]) -> set[str]:
    """All captions of a split; pictures are not unpacked."""
    found: set[str] = set()
    for path in files:
        for batch in _batches(_opened(source, path), ["claim"], MOST_WORDS, f"{source.uri}/{path}"):
            found.update(claim for claim in batch.column(0).to_pylist() if isinstance(claim, str))
    return found


def hub_rows(source: Source, files: Sequence[str], split: str) -> Iterator[HubRow | Rejection]:
    """Rows with their pictures, a few at a time.

    Raises:
        SourceError: a file cannot be read; what follows it has no known place in the split.
    """
    index = 0
    for path in files:
        for batch in _batches(_opened(source, path), [*_TEXT, "image"], MOST_PICTURES, f"{source.uri}/{path}"):
            for fields in batch.to_pylist():
                yield _row(fields, index, split, path)
                index += 1


def pick_exemplars(source: Source, files: Sequence[str], avoid: set[str]) -> Picked:
    """Choose the ten exemplars from the training split: steady, from train only, no caption of the test split.

    Args:
        source: the folder.
        files: of the training split.
        avoid: captions that must not be shown.

    Raises:
        SourceError: a file cannot be read.
    """
    wanted = {kind: EXEMPLARS.count(kind) for kind in EXEMPLARS}
    race = _Race(wanted=wanted)
    index = 0
    for path in files:
        file = _opened(source, path)
        for group in range(file.num_row_groups):
            found = _batches(file, _TEXT, MOST_WORDS, f"{source.uri}/{path}", group)
            texts = [row for batch in found for row in batch.to_pylist()]
            _enter(race, texts, index, avoid, _Pictures(file, group, source, path))
            index += len(texts)
    left = {kind: list(found) for kind, found in race.best.items()}
    order = [left[kind].pop(0) if left.get(kind) else None for kind in EXEMPLARS]
    missing = [f"{source_name}/{label}" for (source_name, label), one in zip(EXEMPLARS, order, strict=True) if not one]
    if missing:
        race.problems.append(f"no few-shot exemplar of {', '.join(missing)} in the training split")
    # Only a gapless beginning is of use: five shots are the first five places.
    usable = order[: order.index(None)] if None in order else order
    return Picked(exemplars=tuple(one for one in usable if one), problems=tuple(race.problems))


@dataclass(slots=True, kw_only=True)
class _Race:
    """The best candidates so far by source and label."""

    wanted: Mapping[tuple[str, str], int]
    best: dict[tuple[str, str], list[Exemplar]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def beaten(self, kind: tuple[str, str], digest: str) -> bool:
        """Whether a candidate has no chance."""
        best = self.best.get(kind, [])
        return len(best) >= self.wanted.get(kind, 0) and (not best or digest > best[-1].digest)

    def enter(self, kind: tuple[str, str], one: Exemplar) -> None:
        """Let one in that `beaten` did not turn away."""
        best = sorted([*self.best.get(kind, []), one], key=lambda exemplar: exemplar.digest)
        self.best[kind] = best[: self.wanted[kind]]


class _Pictures:
    """The pictures of one row group, unpacked when first asked for."""

    def __init__(self, file: pq.ParquetFile, group: int, source: Source, path: str) -> None:
        self._file, self._group, self.source, self.path = file, group, source, path
        self._table: pa.Table | None = None

    def __getitem__(self, place: int) -> Any:
        if self._table is None:
            where = f"{self.source.uri}/{self.path}"
            found = _batches(self._file, ["image"], _MOST_GROUP, where, self._group)
            self._table = pa.Table.from_batches(found)
        return self._table.column(0)[place].as_py()


def _enter(race: _Race, texts: list[dict[str, Any]], first: int, avoid: set[str], pictures: _Pictures) -> None:
    places = [(digest_of(first + place), place) for place in range(len(texts))]
    for digest, place in sorted(places):
        fields = texts[place]
        kind = (fields["source_dataset"], fields["label"])
        if race.beaten(kind, digest) or fields["claim"] in avoid:
            continue
        row = _row({**fields, "image": pictures[place]}, first + place, "train", pictures.path)
        if isinstance(row, Rejection) or not _is_picture(pictures.source, row.picture):
            reason = row.reason if isinstance(row, Rejection) else "its picture cannot be decoded"
            race.problems.append(f"train row {first + place} is no exemplar: {reason}; the next one is taken")
            continue
        race.enter(kind, Exemplar(digest=digest, row=row))


def digest_of(index: int) -> str:
    """What a training row's place in the split comes to in the choice of exemplars."""
    return hashlib.sha256(f"{_SEED}|train|{index}".encode()).hexdigest()


def _is_picture(source: Source, content: bytes) -> bool:
    try:
        source.pixels(content, 1)
    except DecodeError:
        return False
    return True


def _opened(source: Source, path: str) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(io.BytesIO(source.read_bytes(path)))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(f"{source.uri}/{path}", error) from error
    absent = [name for name in (*_TEXT, "image") if name not in file.schema_arrow.names]
    if absent:
        raise SourceError(f"{source.uri}/{path}: no column {', '.join(absent)}")
    return file


def _unreadable(where: str, error: Exception) -> SourceError:
    return SourceError(f"{where}: cannot be read as Parquet ({str(error)[:200]}); fetch the file again")


def _batches(
    file: pq.ParquetFile, columns: Sequence[str], most: int, where: str, group: int | None = None
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches(file, columns, rows=_BATCH, most=most, where=where, group=group)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(where, error) from error


def _row(fields: Mapping[str, Any], index: int, split: str, path: str) -> HubRow | Rejection:
    named = fields.get("source_dataset")
    item = f"{named}-{split}-{index}" if isinstance(named, str) and named else f"row {index} of the {split} split"
    row = validated({name: fields.get(name) for name in _TEXT} | {"id": item}, item, path)
    if isinstance(row, Rejection):
        return row
    image = fields.get("image")
    content = image.get("bytes") if isinstance(image, Mapping) else image
    if not isinstance(content, bytes) or not content:
        return Rejection(file=path, item=item, reason="the row has no picture")
    name = image.get("path") if isinstance(image, Mapping) else None
    return HubRow(index=index, file=path, row=row, picture=content, name=name if isinstance(name, str) else "")

"""Ingest of V-FLUTE: the authors' file with pictures beside it, the hub's Parquet files, or both joined by id."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.vflute.facts import FULL_TEST
from pipelines.benchmarks.vflute.source_hub import (
    EXEMPLARS,
    Exemplar,
    HubRow,
    Picked,
    hub_claims,
    hub_files,
    hub_rows,
    pick_exemplars,
)
from pipelines.benchmarks.vflute.source_text import FILES, TextRow, label_leaks, rows_of, text_file
from pipelines.errors import SourceError

_FOLDERS: Final = ("", "images/")
"""Where pictures may lie, paths of the file being relative to it."""
_NAMED = 5


def shot_role(place: int) -> str:
    """What an exemplar's picture is to every sample."""
    return f"shot/{place}"


def read_vflute(source: Source) -> Iterator[RawSample | Rejection | Notice]:
    """All rows of the test split.

    Raises:
        SourceError: neither the authors' file nor the hub's files are there, or one cannot be read as a whole.
    """
    path, files = text_file(source), hub_files(source, "test")
    if not path and not files:
        raise SourceError(f"{source.uri}: neither {' nor '.join(FILES)} nor data/test-*.parquet is here")
    rows: dict[str, TextRow] = {}
    for row in rows_of(source, path) if path else ():
        if isinstance(row, Rejection):
            yield row
        elif row.id in rows:
            yield Rejection(file=path, item=row.id, reason="duplicate id; the first row of this id is kept")
        else:
            rows[row.id] = row
    shots = yield from _shots(source, files, rows)
    book = _Book(source=source, path=path, rows=rows, shots=shots)
    if files:
        for one in hub_rows(source, files, "test"):
            yield one if isinstance(one, Rejection) else book.joined(one)
    for row in list(book.rows.values()):
        yield book.with_file(row, hub=bool(files))
    yield from book.notices(hub=bool(files))


@dataclass(slots=True, kw_only=True)
class _Shots:
    """Exemplars as every sample carries them."""

    media: tuple[MediaFile, ...] = ()
    data: tuple[Mapping[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class _Book:
    """Rows of the authors' file that still wait for a picture, and what is worth a notice."""

    source: Source
    path: str
    rows: dict[str, TextRow]
    shots: _Shots
    folder: str = ""
    made: int = 0
    plain: list[str] = field(default_factory=list)
    leaking: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)

    def joined(self, hub: HubRow) -> RawSample | Rejection:
        """A row of the hub with the authors' row of the same id."""
        row = self.rows.pop(hub.row.id, None)
        if row is None:
            self.plain.append(hub.row.id)
            row = hub.row
        elif different := _different(row, hub.row):
            reason = f"{different} is not the same in {self.path} and in {hub.file}; one of them is of other data"
            return Rejection(file=self.path, item=row.id, reason=reason)
        name = hub.name or row.picture or f"{row.id}.png"
        picture = MediaFile(role="picture", kind="image", path=name, content=hub.picture)
        return self._sample(row, picture, hub.file)

    def with_file(self, row: TextRow, *, hub: bool) -> RawSample | Rejection:
        """A row of the authors' file with the picture that it names."""
        for folder in dict.fromkeys((self.folder, *_FOLDERS)):
            if self.source.exists(folder + row.picture):
                self.folder = folder
                picture = MediaFile(role="picture", kind="image", path=folder + row.picture)
                return self._sample(row, picture, self.path)
        wanted = " nor ".join(folder + row.picture for folder in _FOLDERS)
        more = ", and data/test-*.parquet has no such id" if hub else ""
        return Rejection(file=self.path, item=row.id, reason=f"no picture: neither {wanted} is here{more}")

    def notices(self, *, hub: bool) -> Iterator[Notice]:
        """What is odd about the whole."""
        if hub and self.plain:
            lacking = f"{len(self.plain)} rows have no instruction in {self.path}" if self.path else f"no {FILES[0]}"
            yield Notice(f"{lacking}: they are asked in this project's own words, not in the authors'")
        if self.leaking:
            yield Notice(f"captions that begin with a label left from annotation, kept: {_listed(self.leaking)}")
        if self.odd:
            yield Notice(f"phenomenon does not belong to the source, kept: {_listed(self.odd)}")
        if self.made != FULL_TEST:
            yield Notice(f"{self.made} of the {FULL_TEST} test rows: not comparable with published numbers")

    def _sample(self, row: TextRow, picture: MediaFile, file: str) -> RawSample:
        self.made += 1
        subset = row.subset
        if label_leaks(row.claim):
            self.leaking.append(row.id)
        if row.phenomenon not in subset.phenomena:
            self.odd.append(row.id)
        data: dict[str, Any] = {
            "source": row.source_dataset,
            "phenomenon": row.phenomenon,
            "claim": row.claim,
            "label": row.label,
            "explanation": row.explanation,
            "prompt": row.prompt,
            "shots": [dict(shot) for shot in self.shots.data],
        }
        return RawSample(
            sample_id=row.id,
            file=file,
            subset=subset.name,
            category=subset.category,
            media=(picture, *self.shots.media),
            data=data,
        )


def _shots(source: Source, files: list[str], rows: Mapping[str, TextRow]) -> Generator[Notice, None, _Shots]:
    """Choose the exemplars; without a training split there are none, and few-shot is excluded.

    Returns:
        `_Shots`, as the generator's value.
    """
    try:
        train = hub_files(source, "train")
        avoid = {row.claim for row in rows.values()} | (hub_claims(source, files) if train else set())
        picked = pick_exemplars(source, train, avoid) if train else Picked()
    except SourceError as error:
        yield Notice(f"no few-shot exemplars, few-shot settings are excluded: {error}")
        return _Shots()
    if not train:
        yield Notice("no data/train-*.parquet: few-shot settings have no exemplars and are excluded")
        return _Shots()
    for problem in picked.problems:
        yield Notice(problem)
    if picked.exemplars:
        yield Notice(f"few-shot exemplars in their order: {', '.join(one.id for one in picked.exemplars)}")
    if len(picked.exemplars) < len(EXEMPLARS):
        yield Notice(f"{len(picked.exemplars)} of {len(EXEMPLARS)} few-shot exemplars: settings of more are excluded")
    templates = sorted({row.prompt for row in rows.values()})
    media = (_shot_media(place, one) for place, one in enumerate(picked.exemplars))
    return _Shots(media=tuple(media), data=tuple(_shot_data(one, templates) for one in picked.exemplars))


def _shot_media(place: int, one: Exemplar) -> MediaFile:
    name = one.row.name or f"{one.id}.png"
    return MediaFile(role=shot_role(place), kind="image", path=name, content=one.row.picture)


def _shot_data(one: Exemplar, templates: list[str]) -> dict[str, str]:
    row = one.row.row
    return {
        "id": one.id,
        "claim": row.claim,
        "label": row.label,
        "explanation": row.explanation,
        "prompt": one.template(templates),
    }


def _different(a: TextRow, b: TextRow) -> str:
    """The first field in which two rows of one id differ, blanks and line ends aside; '' for none."""
    for name in ("claim", "label", "explanation"):
        if " ".join(getattr(a, name).split()) != " ".join(getattr(b, name).split()):
            return f"`{name}`"
    return ""


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more

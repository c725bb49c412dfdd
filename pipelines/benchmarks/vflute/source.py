"""Read V-FLUTE as distributed: the authors' file with picture files, the hub's Parquet files, or both joined by id."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source, SourceWarning
from pipelines.benchmarks.validation import first_names
from pipelines.benchmarks.vflute.facts import FULL_TEST
from pipelines.benchmarks.vflute.source_hub import (
    EXEMPLARS,
    FILES,
    Exemplar,
    ExemplarSelection,
    HubRow,
    TextRow,
    find_text_file,
    hub_claims,
    hub_files,
    hub_rows,
    label_leaks,
    read_rows,
    select_exemplars,
)
from pipelines.errors import SourceError

_FOLDERS: Final = ("", "images/")  # folders that the picture paths of the file may be relative to


def shot_role(index: int) -> str:
    """Return the media role of an exemplar's picture."""
    return f"shot/{index}"


def read_vflute(source: Source) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read all rows of the test split; SourceError if its files are missing or one is unreadable as a whole."""
    path, files = find_text_file(source), hub_files(source, "test")
    if not path and not files:
        raise SourceError(f"{source.uri}: found neither {' nor '.join(FILES)} nor data/test-*.parquet")
    rows: dict[str, TextRow] = {}
    for row in read_rows(source, path) if path else ():
        if isinstance(row, Rejection):
            yield row
        elif row.id in rows:
            yield Rejection(file=path, item=row.id, reason="duplicate id; the first row of this id is kept")
        else:
            rows[row.id] = row
    shots = yield from _load_shots(source, files, rows)
    assembler = _SampleAssembler(source=source, path=path, rows=rows, shots=shots)
    if files:
        for hub_row in hub_rows(source, files, "test"):
            yield hub_row if isinstance(hub_row, Rejection) else assembler.join(hub_row)
    for row in list(assembler.rows.values()):
        yield assembler.with_picture_file(row, has_hub=bool(files))
    yield from assembler.warnings(has_hub=bool(files))


@dataclass(slots=True, kw_only=True)
class _Shots:
    media: tuple[MediaFile, ...] = ()
    data: tuple[Mapping[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class _SampleAssembler:
    """Combines rows of the authors' file with pictures, and collects what needs a warning."""

    source: Source
    path: str
    rows: dict[str, TextRow]  # rows without a picture so far
    shots: _Shots
    folder: str = ""  # folder in which the last picture was found
    samples: int = 0
    without_instruction: list[str] = field(default_factory=list)
    leaking: list[str] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)

    def join(self, hub: HubRow) -> RawSample | Rejection:
        """Join a row of the hub with the authors' row of the same id."""
        row = self.rows.pop(hub.row.id, None)
        if row is None:
            self.without_instruction.append(hub.row.id)
            row = hub.row
        elif name := _differing_field(row, hub.row):
            reason = f"`{name}` differs between {self.path} and {hub.file}; one of them holds other data"
            return Rejection(file=self.path, item=row.id, reason=reason)
        path = hub.name or row.picture or f"{row.id}.png"
        picture = MediaFile(role="picture", kind="image", path=path, content=hub.picture)
        return self._sample(row, picture, hub.file)

    def with_picture_file(self, row: TextRow, *, has_hub: bool) -> RawSample | Rejection:
        """Combine a row of the authors' file with the picture that it names."""
        for folder in dict.fromkeys((self.folder, *_FOLDERS)):
            if self.source.exists(folder + row.picture):
                self.folder = folder
                picture = MediaFile(role="picture", kind="image", path=folder + row.picture)
                return self._sample(row, picture, self.path)
        paths = " nor ".join(folder + row.picture for folder in _FOLDERS)
        hub = ", and data/test-*.parquet has no such id" if has_hub else ""
        return Rejection(file=self.path, item=row.id, reason=f"no picture: found neither {paths}{hub}")

    def warnings(self, *, has_hub: bool) -> Iterator[SourceWarning]:
        """Yield irregularities of the whole data set."""
        if has_hub and self.without_instruction:
            count = len(self.without_instruction)
            reason = f"{count} rows have no instruction in {self.path}" if self.path else f"no {FILES[0]}"
            yield SourceWarning(f"{reason}: their prompts use this project's own wording, not the authors'")
        if self.leaking:
            yield SourceWarning(
                f"captions that begin with a label left from annotation, kept: {first_names(self.leaking)}"
            )
        if self.mismatched:
            yield SourceWarning(f"phenomenon does not belong to the source, kept: {first_names(self.mismatched)}")
        if self.samples != FULL_TEST:
            yield SourceWarning(f"{self.samples} of the {FULL_TEST} test rows: not comparable with published numbers")

    def _sample(self, row: TextRow, picture: MediaFile, file: str) -> RawSample:
        self.samples += 1
        subset = row.subset
        if label_leaks(row.claim):
            self.leaking.append(row.id)
        if row.phenomenon not in subset.phenomena:
            self.mismatched.append(row.id)
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


def _load_shots(
    source: Source, files: list[str], rows: Mapping[str, TextRow]
) -> Generator[SourceWarning, None, _Shots]:
    """Select and return the exemplars; without a training split there are none, and few-shot settings are excluded."""
    try:
        train = hub_files(source, "train")
        avoid = {row.claim for row in rows.values()} | (hub_claims(source, files) if train else set())
        selection = select_exemplars(source, train, avoid) if train else ExemplarSelection()
    except SourceError as error:
        yield SourceWarning(f"no few-shot exemplars, few-shot settings are excluded: {error}")
        return _Shots()
    if not train:
        yield SourceWarning("no data/train-*.parquet: few-shot settings have no exemplars and are excluded")
        return _Shots()
    for problem in selection.problems:
        yield SourceWarning(problem)
    exemplars = selection.exemplars
    if exemplars:
        yield SourceWarning(f"few-shot exemplars in their order: {', '.join(exemplar.id for exemplar in exemplars)}")
    if len(exemplars) < len(EXEMPLARS):
        yield SourceWarning(f"{len(exemplars)} of {len(EXEMPLARS)} few-shot exemplars: settings with more are excluded")
    templates = sorted({row.prompt for row in rows.values()})
    media = (_shot_media(index, exemplar) for index, exemplar in enumerate(exemplars))
    return _Shots(media=tuple(media), data=tuple(_shot_data(exemplar, templates) for exemplar in exemplars))


def _shot_media(index: int, exemplar: Exemplar) -> MediaFile:
    path = exemplar.row.name or f"{exemplar.id}.png"
    return MediaFile(role=shot_role(index), kind="image", path=path, content=exemplar.row.picture)


def _shot_data(exemplar: Exemplar, templates: list[str]) -> dict[str, str]:
    row = exemplar.row.row
    return {
        "id": exemplar.id,
        "claim": row.claim,
        "label": row.label,
        "explanation": row.explanation,
        "prompt": exemplar.template(templates),
    }


def _differing_field(a: TextRow, b: TextRow) -> str:
    """Return the first field in which two rows of one id differ, ignoring whitespace; '' for none."""
    for name in ("claim", "label", "explanation"):
        if " ".join(getattr(a, name).split()) != " ".join(getattr(b, name).split()):
            return name
    return ""

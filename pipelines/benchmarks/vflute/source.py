"""Read V-FLUTE as distributed: the authors' file with picture files, the hub's Parquet files, or both joined by id.

The hub has `data/SPLIT-*.parquet` with embedded pictures, from whose training split the exemplars are selected.
"""

from __future__ import annotations

import csv
import hashlib
import json
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pipelines.benchmarks import parquet_source
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, MAX_TEXT_BYTES
from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source, SourceWarning
from pipelines.benchmarks.validation import first_names, reason_of
from pipelines.benchmarks.vflute.facts import FACTS, FULL_TEST, Subset, subset_of
from pipelines.errors import DecodeError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FILES: Final = ("vflute-v2-test.json", "vflute-v2-test.csv")  # both hold the same rows; the first that exists is read
CLAIM_TOKEN: Final = "REPLACE_CLAIM"  # noqa: S105 - a placeholder in a template, no secret
EXEMPLARS: Final[tuple[tuple[str, str], ...]] = FACTS["exemplars"]
"""Source and label of each exemplar in prompt order; five shots are the first five."""

_FOLDERS: Final = ("", "images/")  # folders that the picture paths of the file may be relative to
_LEAK = re.compile(r"\s*(?:label|answer)\s*:\s*(?:entailment|contradiction)\b", re.IGNORECASE)
_TEXT_COLUMNS: Final = ("claim", "label", "explanation", "phenomenon", "source_dataset")
_CSV_COLUMNS: Final = ("id", "source_dataset", "phenomenon", "path", "claim", "label", "explanation", "prompt")
_SHARD = re.compile(r".*-(\d+)-of-(\d+)\.parquet")
_BATCH_ROWS: Final = 16
_MAX_GROUP_BYTES: Final = 2 << 30  # of the pictures of one row group, which are held together
_SEED: Final = 42  # part of the digests that select exemplars
_NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
_Kind: TypeAlias = tuple[str, str]  # source and label


class TextRow(BaseModel):
    """The texts of a row in any distributed form, unchanged."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", populate_by_name=True)
    id: _NonBlank = ""
    source_dataset: _NonBlank
    phenomenon: _NonBlank
    claim: _NonBlank
    label: Literal["entailment", "contradiction"]
    explanation: _NonBlank
    prompt: str = ""  # the instruction's template, '' in the hub's form
    picture: str = Field(default="", alias="image")  # path, '' in the hub's form

    @property
    def subset(self) -> Subset:
        """Subset of the row; ValueError if it belongs to none."""
        return subset_of(self.source_dataset, self.phenomenon)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRow:
    """One row of a split."""

    index: int  # index in the split, over all files
    file: str
    row: TextRow
    picture: bytes
    name: str  # file name of the picture as distributed; may be ''


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A training row that is shown with its answer."""

    digest: str  # SHA-256 of seed, split and row, hex; the smallest is selected
    row: HubRow

    @property
    def id(self) -> str:
        """Id in the form of the test split's ids."""
        return f"{self.row.row.source_dataset}-train-{self.row.index}"

    def data(self, templates: Sequence[str]) -> dict[str, str]:
        """Return its texts; its instruction is one of the sorted distinct ones of the test file."""
        template = templates[int(self.digest, 16) % len(templates)] if templates else ""
        row = self.row.row
        texts = {"claim": row.claim, "label": row.label, "explanation": row.explanation}
        return {"id": self.id, **texts, "prompt": template}


def shot_role(index: int) -> str:
    """Return the media role of an exemplar's picture."""
    return f"shot/{index}"


def label_leaks(claim: str) -> bool:
    """Return whether a caption begins with a label left over from annotation."""
    return _LEAK.match(claim) is not None


def read_vflute(source: Source) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read all rows of the test split; SourceError if its files are missing or one is unreadable as a whole."""
    path = next((name for name in FILES if source.exists(name)), "")
    files = hub_files(source, "test")
    if not path and not files:
        raise SourceError(f"{source.uri}: found neither {' nor '.join(FILES)} nor data/test-*.parquet")
    rows: dict[str, TextRow] = {}
    for row in _read_rows(source, path) if path else ():
        if isinstance(row, Rejection):
            yield row
        elif row.id in rows:
            yield Rejection(file=path, item=row.id, reason="duplicate id; the first row of this id is kept")
        else:
            rows[row.id] = row
    exemplars, notices = _load_exemplars(source, files, rows.values())
    yield from map(SourceWarning, notices)
    templates = sorted({row.prompt for row in rows.values()})
    media = tuple(
        MediaFile(
            role=shot_role(index),
            kind="image",
            path=exemplar.row.name or f"{exemplar.id}.png",
            content=exemplar.row.picture,
        )
        for index, exemplar in enumerate(exemplars)
    )
    shots = [exemplar.data(templates) for exemplar in exemplars]
    assembler = _SampleAssembler(source=source, path=path, rows=rows, shots=shots, media=media)
    for hub_row in hub_rows(source, files, "test"):
        yield hub_row if isinstance(hub_row, Rejection) else assembler.join(hub_row)
    for row in list(rows.values()):
        yield assembler.with_picture_file(row, has_hub=bool(files))
    yield from assembler.warnings(has_hub=bool(files))


@dataclass(slots=True, kw_only=True)
class _SampleAssembler:
    """Combines rows of the authors' file with pictures, and collects what needs a warning."""

    source: Source
    path: str
    rows: dict[str, TextRow]  # rows without a picture so far
    shots: Sequence[Mapping[str, str]]
    media: tuple[MediaFile, ...]  # of the shots
    folder: str = ""  # folder in which the last picture was found
    samples: int = 0
    without_instruction: int = 0
    leaking: list[str] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)

    def join(self, hub: HubRow) -> RawSample | Rejection:
        """Join a row of the hub with the authors' row of the same id."""
        row = self.rows.pop(hub.row.id, None)
        if row is None:
            self.without_instruction += 1
            row = hub.row
        for name in ("claim", "label", "explanation"):
            if getattr(row, name).split() != getattr(hub.row, name).split():
                reason = f"`{name}` differs between {self.path} and {hub.file}; one of them holds other data"
                return Rejection(file=self.path, item=row.id, reason=reason)
        return self._sample(row, hub.file, hub.name or row.picture or f"{row.id}.png", hub.picture)

    def with_picture_file(self, row: TextRow, *, has_hub: bool) -> RawSample | Rejection:
        """Combine a row of the authors' file with the picture that it names."""
        for folder in dict.fromkeys((self.folder, *_FOLDERS)):
            if self.source.exists(folder + row.picture):
                self.folder = folder
                return self._sample(row, self.path, folder + row.picture)
        paths = " nor ".join(folder + row.picture for folder in _FOLDERS)
        hub = ", and data/test-*.parquet has no such id" if has_hub else ""
        return Rejection(file=self.path, item=row.id, reason=f"no picture: found neither {paths}{hub}")

    def warnings(self, *, has_hub: bool) -> Iterator[SourceWarning]:
        """Yield irregularities of the whole data set."""
        if has_hub and (count := self.without_instruction):
            reason = f"{count} rows have no instruction in {self.path}" if self.path else f"no {FILES[0]}"
            yield SourceWarning(f"{reason}: their prompts use this project's own wording, not the authors'")
        leaking = f"captions that begin with a label left from annotation, kept: {first_names(self.leaking)}"
        mismatched = f"phenomenon does not belong to the source, kept: {first_names(self.mismatched)}"
        yield from (
            SourceWarning(text) for text, ids in ((leaking, self.leaking), (mismatched, self.mismatched)) if ids
        )
        if self.samples != FULL_TEST:
            yield SourceWarning(f"{self.samples} of the {FULL_TEST} test rows: not comparable with published numbers")

    def _sample(self, row: TextRow, file: str, path: str, content: bytes | None = None) -> RawSample:
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
            "shots": [dict(shot) for shot in self.shots],
        }
        picture = MediaFile(role="picture", kind="image", path=path, content=content)
        return RawSample(
            sample_id=row.id,
            file=file,
            subset=subset.name,
            category=subset.category,
            media=(picture, *self.media),
            data=data,
        )


# ----------------------------------------------------------------------------------------------------- authors' files


def _read_rows(source: Source, path: str) -> Iterator[TextRow | Rejection]:
    """Read and validate the rows of a text file; SourceError if the file as a whole is unreadable."""
    content = source.read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
        raw_rows = list(_json_rows(text, path) if path.endswith(".json") else _csv_rows(text))
    except (ValueError, csv.Error, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: cannot be read ({error}); fetch the file again") from error
    return (validate_row(fields, item, path, check=_check_test_row) for item, fields in raw_rows)


def _json_rows(text: str, path: str) -> Iterator[tuple[str, Any]]:
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError(f"expected a list of rows, found {type(rows).__name__}")  # noqa: TRY004 - the file is wrong
    for number, row in enumerate(rows, start=1):
        row_id = row.get("id") if isinstance(row, dict) else None
        yield row_id if isinstance(row_id, str) and row_id.strip() else f"row {number} of {path}", row


def _csv_rows(text: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    rows = CsvRows(text)
    missing = [name for name in _CSV_COLUMNS if name not in rows.columns]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}; found {', '.join(rows.columns)}")
    for line, row in rows.read():
        if isinstance(row, ValueError):
            yield f"line {line}", row
        else:
            yield row["id"] if (row["id"] or "").strip() else f"line {line}", {**row, "image": row["path"]}


def validate_row(
    fields: Any, item: str, path: str, *, check: Callable[[TextRow], object] = lambda row: row.subset
) -> TextRow | Rejection:
    """Validate one row of any form; `check` raises ValueError for what no single field shows."""
    try:
        if isinstance(fields, ValueError):
            raise fields
        row = TextRow.model_validate(fields)
        check(row)
    except ValueError as error:
        return Rejection(file=path, item=item, reason=reason_of(error))
    return row


def _check_test_row(row: TextRow) -> None:
    path, _ = row.picture, row.subset
    if not row.id:
        raise ValueError("no `id`")
    if CLAIM_TOKEN not in row.prompt:
        raise ValueError(f"`prompt` has no {CLAIM_TOKEN}: the claim would be missing from the prompt")
    if not path.strip():
        raise ValueError("no picture path")
    parts = posixpath.normpath(path).split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0]:
        raise ValueError(f"the picture path {path!r} leaves the folder")


# -------------------------------------------------------------------------------------------------------- hub's files


def hub_files(source: Source, split: str) -> list[str]:
    """Return the split's files in order; SourceError if some are missing, as the rows' indices are unknown then."""
    files = source.glob(f"data/{split}-*.parquet")
    numbers = [match for file in files if (match := _SHARD.fullmatch(file))]
    totals = {int(match[2]) for match in numbers}
    if totals and {int(match[1]) for match in numbers} != set(range(max(totals))):
        raise SourceError(
            f"{source.uri}/data: {len(numbers)} of {max(totals)} files of the {split} split; fetch the others, "
            "because ids are indices in the whole split"
        )
    return files


def hub_claims(source: Source, files: Sequence[str]) -> set[str]:
    """Return all captions of a split without reading pictures."""
    claims = (row["claim"] for path in files for row in _fields(source, path, ["claim"], MAX_TEXT_BYTES))
    return {claim for claim in claims if isinstance(claim, str)}


def hub_rows(source: Source, files: Sequence[str], split: str) -> Iterator[HubRow | Rejection]:
    """Yield rows with their pictures, a few in memory at a time; SourceError for an unreadable file."""
    index = 0
    for path in files:
        for fields in _fields(source, path, [*_TEXT_COLUMNS, "image"], MAX_PICTURE_BYTES):
            yield _hub_row(fields, index, split, path)
            index += 1


def _hub_row(fields: Mapping[str, Any], index: int, split: str, path: str) -> HubRow | Rejection:
    name = fields.get("source_dataset")
    item = f"{name}-{split}-{index}" if isinstance(name, str) and name else f"row {index} of the {split} split"
    row = validate_row({name: fields.get(name) for name in _TEXT_COLUMNS} | {"id": item}, item, path)
    if isinstance(row, Rejection):
        return row
    image = fields.get("image")
    if not (content := parquet_source.picture_bytes(image)):
        return Rejection(file=path, item=item, reason="the row has no picture")
    file_name = image.get("path") if isinstance(image, Mapping) else None
    return HubRow(
        index=index, file=path, row=row, picture=content, name=file_name if isinstance(file_name, str) else ""
    )


def _load_exemplars(
    source: Source, files: Sequence[str], rows: Iterable[TextRow]
) -> tuple[Sequence[Exemplar], Sequence[str]]:
    """Return the exemplars and notices; without a training split none, and few-shot settings are excluded."""
    try:
        train = hub_files(source, "train")
        if not train:
            return (), ["no data/train-*.parquet: few-shot settings have no exemplars and are excluded"]
        avoid = {row.claim for row in rows} | hub_claims(source, files)
        exemplars, notices = _select_exemplars(source, train, avoid)
    except SourceError as error:
        return (), [f"no few-shot exemplars, few-shot settings are excluded: {error}"]
    if exemplars:
        notices.append(f"few-shot exemplars in their order: {', '.join(exemplar.id for exemplar in exemplars)}")
    if len(exemplars) < len(EXEMPLARS):
        notices.append(f"{len(exemplars)} of {len(EXEMPLARS)} few-shot exemplars: settings with more are excluded")
    return exemplars, notices


def _select_exemplars(source: Source, files: Sequence[str], avoid: set[str]) -> tuple[list[Exemplar], list[str]]:
    """Select the ten exemplars from the training split, deterministically and without captions in `avoid`.

    Returns them in prompt order, and the problems found with candidates.
    """
    needed, best, problems = Counter(EXEMPLARS), defaultdict[_Kind, list[Exemplar]](list), list[str]()
    for path, first, texts, pictures in _train_groups(source, files):
        for digest, index in sorted((digest_of(first + index), index) for index in range(len(texts))):
            fields = texts[index]
            kind = (fields["source_dataset"], fields["label"])
            is_full = len(best[kind]) >= needed[kind] and (not best[kind] or digest > best[kind][-1].digest)
            if is_full or fields["claim"] in avoid:
                continue
            row = _hub_row({**fields, "image": pictures()[index].as_py()}, first + index, "train", path)
            if isinstance(row, Rejection) or not _is_picture(source, row.picture):
                reason = row.reason if isinstance(row, Rejection) else "its picture cannot be decoded"
                problems.append(f"train row {first + index} cannot be an exemplar: {reason}; the next one is used")
                continue
            candidates = sorted([*best[kind], Exemplar(digest, row)], key=lambda exemplar: exemplar.digest)
            best[kind] = candidates[: needed[kind]]
    order = [best[kind].pop(0) if best[kind] else None for kind in EXEMPLARS]
    missing = ["/".join(kind) for kind, exemplar in zip(EXEMPLARS, order, strict=True) if not exemplar]
    if missing:
        problems.append(f"no few-shot exemplar of {', '.join(missing)} in the training split")
    # Only a gapless beginning is usable: five shots are the first five entries.
    usable = order[: order.index(None)] if None in order else order
    return [exemplar for exemplar in usable if exemplar], problems


def _train_groups(
    source: Source, files: Sequence[str]
) -> Iterator[tuple[str, int, list[dict[str, Any]], Callable[[], pa.ChunkedArray]]]:
    """Yield, by row group, its file, the index of its first row, its texts, and its pictures, read on first access."""
    first = 0
    for path in files:
        file = _open(source, path)
        read = partial(parquet_source.batches, file, rows=_BATCH_ROWS, where=f"{source.uri}/{path}")
        for group in range(file.num_row_groups):
            text_batches = read(columns=_TEXT_COLUMNS, max_bytes=MAX_TEXT_BYTES, group=group)
            texts = [row for batch in text_batches for row in batch.to_pylist()]
            yield path, first, texts, cache(partial(_pictures, read, group))
            first += len(texts)


def _pictures(read: Callable[..., Iterator[pa.RecordBatch]], group: int) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.Table.from_batches(read(columns=["image"], max_bytes=_MAX_GROUP_BYTES, group=group)).column(0)


def digest_of(index: int) -> str:
    """Return the digest by which a training row competes in the selection of exemplars."""
    return hashlib.sha256(f"{_SEED}|train|{index}".encode()).hexdigest()


def _is_picture(source: Source, content: bytes) -> bool:
    try:
        source.pixels(content, 1)
    except DecodeError:
        return False
    return True


def _open(source: Source, path: str) -> pq.ParquetFile:
    return parquet_source.open_parquet(source.read_bytes(path), f"{source.uri}/{path}", (*_TEXT_COLUMNS, "image"))


def _fields(source: Source, path: str, columns: list[str], max_bytes: int) -> Iterator[dict[str, Any]]:
    where = f"{source.uri}/{path}"
    file = _open(source, path)
    return parquet_source.parquet_rows(file, columns, rows=_BATCH_ROWS, max_bytes=max_bytes, where=where)

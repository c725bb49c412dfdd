"""V-FLUTE in the hub's form: `data/SPLIT-*.parquet` with embedded pictures, and the selection of exemplars."""

from __future__ import annotations

import csv
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.parquet_source import (
    MAX_PICTURE_BYTES,
    MAX_TEXT_BYTES,
    batches,
    open_parquet,
    parquet_rows,
    picture_bytes,
)
from pipelines.benchmarks.records import Rejection, Source
from pipelines.benchmarks.validation import format_validation_error
from pipelines.benchmarks.vflute.facts import FACTS, Subset, subset_of
from pipelines.errors import DecodeError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FILES: Final = ("vflute-v2-test.json", "vflute-v2-test.csv")  # both hold the same rows; the first that exists is read
CLAIM_TOKEN: Final = "REPLACE_CLAIM"  # noqa: S105 - a placeholder in a template, no secret

_LEAK = re.compile(r"\s*(?:label|answer)\s*:\s*(?:entailment|contradiction)\b", re.IGNORECASE)
_NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]


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


def find_text_file(source: Source) -> str:
    """Return the file of rows at the top of the folder; '' if there is none."""
    return next((name for name in FILES if source.exists(name)), "")


def read_rows(source: Source, path: str) -> Iterator[TextRow | Rejection]:
    """Read and validate the rows of a text file; SourceError if the file as a whole is unreadable."""
    content = source.read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
        raw_rows = list(_json_rows(text, path) if path.endswith(".json") else _csv_rows(text))
    except (ValueError, csv.Error, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: cannot be read ({error}); fetch the file again") from error
    for item, fields in raw_rows:
        yield _validate_test_row(fields, item, path)


def _json_rows(text: str, path: str) -> Iterator[tuple[str, Any]]:
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError(f"expected a list of rows, found {type(rows).__name__}")  # noqa: TRY004 - the file is wrong
    for number, row in enumerate(rows, start=1):
        row_id = row.get("id") if isinstance(row, dict) else None
        yield row_id if isinstance(row_id, str) and row_id.strip() else f"row {number} of {path}", row


def _csv_rows(text: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    rows = CsvRows(text)
    columns = ("id", "source_dataset", "phenomenon", "path", "claim", "label", "explanation", "prompt")
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}; found {', '.join(rows.columns)}")
    for line, row in rows.read():
        if isinstance(row, ValueError):
            yield f"line {line}", row
        else:
            yield row["id"] if (row["id"] or "").strip() else f"line {line}", {**row, "image": row["path"]}


def _validate_test_row(fields: Any, item: str, path: str) -> TextRow | Rejection:
    if isinstance(fields, ValueError):
        return Rejection(file=path, item=item, reason=str(fields))
    row = validate_row(fields, item, path)
    if isinstance(row, Rejection):
        return row
    reason = "" if row.id else "no `id`"
    if not reason and CLAIM_TOKEN not in row.prompt:
        reason = f"`prompt` has no {CLAIM_TOKEN}: the claim would be missing from the prompt"
    reason = reason or _path_problem(row.picture)
    return Rejection(file=path, item=item, reason=reason) if reason else row


def validate_row(fields: Any, item: str, path: str) -> TextRow | Rejection:
    """Validate one row of any form."""
    try:
        row = TextRow.model_validate(fields)
        _ = row.subset
    except ValidationError as error:
        return Rejection(file=path, item=item, reason=format_validation_error(error))
    except ValueError as error:
        return Rejection(file=path, item=item, reason=str(error))
    return row


def _path_problem(path: str) -> str:
    if not path.strip():
        return "no picture path"
    parts = posixpath.normpath(path).split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0]:
        return f"the picture path {path!r} leaves the folder"
    return ""


def label_leaks(claim: str) -> bool:
    """Return whether a caption begins with a label left over from annotation."""
    return _LEAK.match(claim) is not None


EXEMPLARS: Final[tuple[tuple[str, str], ...]] = FACTS["exemplars"]
"""Source and label of each exemplar in prompt order; five shots are the first five."""

_TEXT_COLUMNS: Final = ("claim", "label", "explanation", "phenomenon", "source_dataset")
_SHARD = re.compile(r".*-(\d+)-of-(\d+)\.parquet")
_BATCH_ROWS: Final = 16
_MAX_GROUP_BYTES: Final = 2 << 30  # of the pictures of one row group, which are held together
_SEED: Final = 42  # part of the digests that select exemplars


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRow:
    """One row of a split."""

    index: int  # index in the split, over all files
    file: str
    row: TextRow
    picture: bytes
    name: str  # file name of the picture as distributed; may be ''


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """A training row that is shown with its answer."""

    digest: str  # SHA-256 of seed, split and row, hex; the smallest is selected
    row: HubRow

    @property
    def id(self) -> str:
        """Id in the form of the test split's ids."""
        return f"{self.row.row.source_dataset}-train-{self.row.index}"

    def template(self, templates: Sequence[str]) -> str:
        """Return its instruction, one of the sorted distinct ones of the test file."""
        return templates[int(self.digest, 16) % len(templates)] if templates else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExemplarSelection:
    """The available exemplars in prompt order, and the problems found with candidates."""

    exemplars: tuple[Exemplar, ...] = ()
    problems: tuple[str, ...] = ()


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
    claims: set[str] = set()
    for path in files:
        for row in _fields(source, path, ["claim"], MAX_TEXT_BYTES):
            claims |= {row["claim"]} if isinstance(row["claim"], str) else set()
    return claims


def hub_rows(source: Source, files: Sequence[str], split: str) -> Iterator[HubRow | Rejection]:
    """Yield rows with their pictures, a few in memory at a time; SourceError for an unreadable file."""
    index = 0
    for path in files:
        for fields in _fields(source, path, [*_TEXT_COLUMNS, "image"], MAX_PICTURE_BYTES):
            yield _row(fields, index, split, path)
            index += 1


def select_exemplars(source: Source, files: Sequence[str], avoid: set[str]) -> ExemplarSelection:
    """Select the ten exemplars from the training split, deterministically and without captions in `avoid`."""
    best = _BestCandidates(counts={kind: EXEMPLARS.count(kind) for kind in EXEMPLARS})
    index = 0
    for path in files:
        file, where = _open(source, path), f"{source.uri}/{path}"
        for group in range(file.num_row_groups):
            text_batches = batches(
                file, _TEXT_COLUMNS, rows=_BATCH_ROWS, max_bytes=MAX_TEXT_BYTES, where=where, group=group
            )
            texts = [row for batch in text_batches for row in batch.to_pylist()]
            _add_candidates(best, texts, index, avoid, _Pictures(file, group, source, path))
            index += len(texts)
    remaining = {kind: list(candidates) for kind, candidates in best.by_kind.items()}
    order = [remaining[kind].pop(0) if remaining.get(kind) else None for kind in EXEMPLARS]
    missing = ["/".join(kind) for kind, exemplar in zip(EXEMPLARS, order, strict=True) if not exemplar]
    if missing:
        best.problems.append(f"no few-shot exemplar of {', '.join(missing)} in the training split")
    # Only a gapless beginning is usable: five shots are the first five entries.
    usable = order[: order.index(None)] if None in order else order
    return ExemplarSelection(
        exemplars=tuple(exemplar for exemplar in usable if exemplar), problems=tuple(best.problems)
    )


@dataclass(slots=True, kw_only=True)
class _BestCandidates:
    counts: Mapping[tuple[str, str], int]  # how many exemplars of a kind are needed
    by_kind: dict[tuple[str, str], list[Exemplar]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def excludes(self, kind: tuple[str, str], digest: str) -> bool:
        best = self.by_kind.get(kind, [])
        return len(best) >= self.counts.get(kind, 0) and (not best or digest > best[-1].digest)

    def add(self, kind: tuple[str, str], candidate: Exemplar) -> None:
        best = sorted([*self.by_kind.get(kind, []), candidate], key=lambda exemplar: exemplar.digest)
        self.by_kind[kind] = best[: self.counts[kind]]


class _Pictures:
    """The pictures of one row group, read on first access."""

    def __init__(self, file: pq.ParquetFile, group: int, source: Source, path: str) -> None:
        self._file, self._group, self.source, self.path = file, group, source, path
        self._table: pa.Table | None = None

    def __getitem__(self, index: int) -> Any:
        import pyarrow as pa

        if self._table is None:
            uri = f"{self.source.uri}/{self.path}"
            self._table = pa.Table.from_batches(
                batches(
                    self._file, ["image"], rows=_BATCH_ROWS, max_bytes=_MAX_GROUP_BYTES, where=uri, group=self._group
                )
            )
        return self._table.column(0)[index].as_py()


def _add_candidates(
    best: _BestCandidates, texts: list[dict[str, Any]], first: int, avoid: set[str], pictures: _Pictures
) -> None:
    """Add the possible exemplars of a row group; `first` is the index of its first row in the split."""
    for digest, index in sorted((digest_of(first + index), index) for index in range(len(texts))):
        fields = texts[index]
        kind = (fields["source_dataset"], fields["label"])
        if best.excludes(kind, digest) or fields["claim"] in avoid:
            continue
        row = _row({**fields, "image": pictures[index]}, first + index, "train", pictures.path)
        if isinstance(row, Rejection) or not _is_picture(pictures.source, row.picture):
            reason = row.reason if isinstance(row, Rejection) else "its picture cannot be decoded"
            best.problems.append(f"train row {first + index} cannot be an exemplar: {reason}; the next one is used")
            continue
        best.add(kind, Exemplar(digest=digest, row=row))


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
    return open_parquet(source.read_bytes(path), f"{source.uri}/{path}", (*_TEXT_COLUMNS, "image"))


def _fields(source: Source, path: str, columns: list[str], max_bytes: int) -> Iterator[dict[str, Any]]:
    where = f"{source.uri}/{path}"
    return parquet_rows(_open(source, path), columns, rows=_BATCH_ROWS, max_bytes=max_bytes, where=where)


def _row(fields: Mapping[str, Any], index: int, split: str, path: str) -> HubRow | Rejection:
    name = fields.get("source_dataset")
    item = f"{name}-{split}-{index}" if isinstance(name, str) and name else f"row {index} of the {split} split"
    row = validate_row({name: fields.get(name) for name in _TEXT_COLUMNS} | {"id": item}, item, path)
    if isinstance(row, Rejection):
        return row
    image = fields.get("image")
    if not (content := picture_bytes(image)):
        return Rejection(file=path, item=item, reason="the row has no picture")
    file_name = image.get("path") if isinstance(image, Mapping) else None
    file_name = file_name if isinstance(file_name, str) else ""
    return HubRow(index=index, file=path, row=row, picture=content, name=file_name)

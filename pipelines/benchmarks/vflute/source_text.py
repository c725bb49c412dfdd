"""V-FLUTE's rows as text: `vflute-v2-test.json` or `.csv` of the authors' repository, row by row."""

from __future__ import annotations

import csv
import io
import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.benchmarks.records import Rejection
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.validation import format_validation_error
from pipelines.benchmarks.vflute.facts import Subset, subset_of
from pipelines.errors import SourceError

FILES: Final = ("vflute-v2-test.json", "vflute-v2-test.csv")
"""Both hold the same rows; the first that is there is read."""
CLAIM_TOKEN: Final = "REPLACE_CLAIM"  # noqa: S105  a place in a template, no secret

_LEAK = re.compile(r"\s*(?:label|answer)\s*:\s*(?:entailment|contradiction)\b", re.IGNORECASE)
_Words = Annotated[str, StringConstraints(pattern=r"\S")]


class TextRow(BaseModel):
    """What a row of any distributed form says; texts are kept to the letter."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", populate_by_name=True)
    id: _Words = ""
    source_dataset: _Words
    phenomenon: _Words
    claim: _Words
    label: Literal["entailment", "contradiction"]
    explanation: _Words
    prompt: str = ""
    """The instruction's template, '' in the hub's form."""
    picture: str = Field(default="", alias="image")
    """Path, '' in the hub's form."""

    @property
    def subset(self) -> Subset:
        """Where the row counts.

        Raises:
            ValueError: nowhere.
        """
        return subset_of(self.source_dataset, self.phenomenon)


@dataclass(frozen=True, slots=True)
class _Raw:
    item: str
    fields: Any


def text_file(source: Source) -> str:
    """The file of rows at the top of the folder; '' when there is none."""
    return next((name for name in FILES if source.exists(name)), "")


def rows_of(source: Source, path: str) -> Iterator[TextRow | Rejection]:
    """The rows of a text file.

    Raises:
        SourceError: the file as a whole cannot be read.
    """
    content = source.read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
        raw = list(_json(text, path) if path.endswith(".json") else _csv(text))
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: cannot be read ({error}); fetch the file again") from error
    except _FormError as error:
        raise SourceError(f"{source.uri}/{path}: {error}") from error
    for one in raw:
        yield _checked(one, path)


class _FormError(ValueError):
    """Readable, and not what was expected."""


def _json(text: str, path: str) -> Iterator[_Raw]:
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise _FormError(f"a list of rows was expected, this is {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        named = row.get("id") if isinstance(row, dict) else None
        yield _Raw(named if isinstance(named, str) and named.strip() else f"row {number} of {path}", row)


def _csv(text: str) -> Iterator[_Raw]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    wanted = ("id", "source_dataset", "phenomenon", "path", "claim", "label", "explanation", "prompt")
    absent = [name for name in wanted if name not in (reader.fieldnames or ())]
    if absent:
        raise _FormError(f"no column {', '.join(absent)}; there are {', '.join(reader.fieldnames or ())}")
    for row in reader:
        fields = {**row, "image": row["path"]}
        yield _Raw(row["id"] if (row["id"] or "").strip() else f"line {reader.line_num}", fields)


def _checked(raw: _Raw, path: str) -> TextRow | Rejection:
    row = validated(raw.fields, raw.item, path)
    if isinstance(row, Rejection):
        return row
    if not row.id:
        return Rejection(file=path, item=raw.item, reason="no `id`")
    if CLAIM_TOKEN not in row.prompt:
        reason = f"`prompt` has no {CLAIM_TOKEN}: the claim would not be asked about"
        return Rejection(file=path, item=raw.item, reason=reason)
    if problem := _path_problem(row.picture):
        return Rejection(file=path, item=raw.item, reason=problem)
    return row


def validated(fields: Any, item: str, path: str) -> TextRow | Rejection:
    """One row of any form."""
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
        return "no path of a picture"
    parts = posixpath.normpath(path).split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0]:
        return f"the picture's path {path!r} leaves the folder"
    return ""


def label_leaks(claim: str) -> bool:
    """Whether a caption begins with a label of its own, left over from annotation."""
    return _LEAK.match(claim) is not None

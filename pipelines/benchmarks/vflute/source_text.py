"""Read and validate V-FLUTE's text rows, in the authors' form."""

import csv
import json
import posixpath
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.records import Rejection, Source
from pipelines.benchmarks.validation import format_validation_error
from pipelines.benchmarks.vflute.facts import Subset, subset_of
from pipelines.errors import SourceError

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

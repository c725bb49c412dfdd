"""Rows of predictions, and the one table of columns."""

import ast
import csv
import hashlib

import pytest

from models.messages import Answer, Failure, Reply
from pipelines.schemas import COLUMNS, PREDICTIONS, Column, prediction_row
from pipelines.storage.parts import read_parquet, to_parquet
from tests.support.paths import ROOT


def test_answer_becomes_an_ok_row() -> None:
    row = prediction_row({"request_id": "r"}, Reply(request_id="r", outcome=Answer(text="half \ud800"), steps=("a",)))
    assert (row["status"], row["output"], row["error_type"]) == ("ok", "half ?", "")
    assert read_parquet(to_parquet([row], PREDICTIONS))["steps"].to_pylist() == [["a"]]


def test_failure_becomes_an_error_row_without_output() -> None:
    row = prediction_row(
        {"request_id": "r"}, Reply(request_id="r", outcome=Failure(type="timeout", message="x" * 9000))
    )
    assert (row["status"], row["error_type"], len(row["error"])) == ("error", "timeout", 2000)
    assert "output" not in row


def digest(column: Column) -> str:
    return hashlib.sha256(f"{column.type}|{column.unit}|{column.meaning}".encode()).hexdigest()[:12]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.table}-{column.name}")
def test_changed_meaning_has_a_new_version(column: Column) -> None:
    with (ROOT / "tests/golden/column_meanings.csv").open(newline="") as file:
        known = {(row["table"], row["name"], int(row["version"])): row["digest"] for row in csv.DictReader(file)}
    assert known.get((column.table, column.name, column.version)) == digest(column), (
        f"the meaning of {column.name} changed: raise its version in pipelines/columns.csv, look after its readers "
        f"{column.readers or 'everywhere'}, and add {column.table},{column.name},{column.version},{digest(column)}"
    )


FOLDERS = ("decisions", "logged_answers", "report", "samples", "score", "sweep")
READING = ("jobs", *(f"pipelines/{name}" for name in FOLDERS))
OWN_NAMES = ("jobs/cli", "jobs/dry_run", "jobs/finetune", "jobs/serve")  # flags and fields of other records


def test_readers_of_columns_are_declared() -> None:
    """A module that names a column reads it: who changes the meaning finds all of them in the table."""
    read: dict[str, set[str]] = {}
    for path in (path for folder in READING for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        for node in ast.walk(ast.parse(path.read_text())) if not name.startswith(OWN_NAMES) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.setdefault(node.value, set()).add(name.replace("/", "."))
    declared = {column.name: set(column.readers) for column in COLUMNS if column.readers is not None}
    assert declared == {name: read.get(name, set()) for name in declared}

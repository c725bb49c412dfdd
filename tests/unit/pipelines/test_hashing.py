"""Stable ids."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import pytest

from models.messages import Answer, Failure, Reply
from pipelines import registry
from pipelines.errors import UsageError
from pipelines.hashing import stable_id
from pipelines.json_records import MalformedError, dump_checked, dump_json, load_checked, read_record
from pipelines.registry import load, load_all, registered
from pipelines.schemas import COLUMNS, PREDICTIONS, Column, prediction_row
from pipelines.storage.parts import read_parquet, to_parquet
from tests.support.distributions import plant
from tests.support.paths import ROOT


def test_stable_id_is_independent_of_key_order() -> None:
    assert stable_id({"a": 1, "b": "è"}) == stable_id({"b": "è", "a": 1})
    assert stable_id({"a": 1}) != stable_id({"a": "1"})


def test_stable_id_is_a_constant() -> None:
    assert stable_id({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad808"


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str | None
    kind: Literal["line", "area"] = "line"
    points: tuple[Point, ...] = ()
    by_name: Mapping[str, Point] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)


SHAPE = Shape(name=None, kind="area", points=(Point(1), Point(2, 3)), by_name={"a": Point(4)}, other={"any": [1, None]})


def test_record_survives_its_file() -> None:
    assert read_record(Shape, load_checked(dump_checked(asdict(SHAPE)))) == SHAPE


def test_absent_keys_take_defaults_and_arrays_are_in_order() -> None:
    assert read_record(Shape, {"name": "a", "points": [[1], [2, 3]]}) == Shape(name="a", points=(Point(1), Point(2, 3)))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "Shape: not an object"),
        ({}, "no key 'name'"),
        ({"name": "a", "nam": 1}, "unknown key 'nam'"),
        ({"name": 1}, "name: 1 is no str"),
        ({"name": "a", "kind": "dot"}, 'kind: "dot" is no'),
        ({"name": "a", "points": {}}, "points: {} is no tuple"),
        ({"name": "a", "points": [{"x": True}]}, r"points\[0\].x: true is no int"),
        ({"name": "a", "points": [[1, 2, 3]]}, r"points\[0\]: not an object"),
        ({"name": "a", "by_name": {"b": {"x": 1, "y": "2"}}}, 'by_name.b.y: "2" is no float'),
    ],
)
def test_other_content_is_refused_with_its_place(raw: object, problem: str) -> None:
    with pytest.raises(MalformedError, match=problem):
        read_record(Shape, raw)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"a": 1, "checksum": "0"}', dump_checked({"a": 1}).replace(b"1", b"2", 1)]
)
def test_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedError):
        load_checked(content)


def test_file_without_a_checksum_is_damage() -> None:
    with pytest.raises(MalformedError, match="its checksum does not match"):
        load_checked(json.dumps({"a": 1}).encode())


@pytest.mark.parametrize("char", ["\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\u2066", "\udcff", "\uffff"])
def test_json_is_text_for_a_terminal(char: str) -> None:
    text = dump_json({f"a{char}": f"è{char}b"})
    assert char not in text
    assert "è" in text
    assert text.encode()
    assert json.loads(text) == {f"a{char}": f"è{char}b"}


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


GROUP = "vlmsweep.test_group"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plant(
        tmp_path, "alpha", {GROUP: {"size": "alpha:SIZE", "both": "alpha:SIZE", "gone": "alpha:MISSING"}}, "SIZE = 3\n"
    )
    plant(tmp_path, "beta", {GROUP: {"both": "beta:SIZE", "broken": "beta:SIZE"}}, "import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._entries.cache_clear()
    yield
    registry._entries.cache_clear()


@pytest.mark.usefixtures("planted")
def test_what_is_registered_is_loaded_by_name() -> None:
    assert registered(GROUP) == ["both", "broken", "gone", "size"]
    assert load(GROUP, "size") == 3


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", f"no installed package provides 'other' of {GROUP}; install vlmsweep again"),
        ("both", f"alpha and beta both register 'both' in {GROUP}; uninstall one of them"),
        (
            "broken",
            "'broken' of beta: beta:SIZE cannot be imported (ModuleNotFoundError: No module named 'no_such_module')",
        ),
        ("gone", "'gone' of alpha: alpha:MISSING cannot be imported (AttributeError"),
    ],
)
def test_errors_name_the_distribution_and_the_remedy(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        load(GROUP, name)


def test_bug_in_our_own_module_is_no_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_entry: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", broken)
    with pytest.raises(ZeroDivisionError):
        load("vlmsweep.commands", "view")


def test_installed_entry_points_are_those_of_the_project_and_can_be_loaded() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    ours = {name: entries for name, entries in groups.items() if name.startswith("vlmsweep.")}
    assert {"vlmsweep.commands", "vlmsweep.extensions", "vlmsweep.prediction_readers"} <= set(ours)
    for group, entries in ours.items():
        installed = {entry.name: entry.value for entry in entry_points(group=group) if entry.dist.name == "vlmsweep"}
        assert installed == entries, "run `make install` again"
        assert all(value is not None for value in load_all(group).values())

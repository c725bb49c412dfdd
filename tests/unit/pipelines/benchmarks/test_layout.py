"""Tables from definitions: which rows they have, how keys fill each other in, and what notes say."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.benchmarks.layout import (
    BOTH,
    EACH_SETTING,
    Fixed,
    Rows,
    Shown,
    TableDef,
    coverage_notes,
    if_ours,
    if_published,
)
from pipelines.benchmarks.records import Metric, PublishedValue
from pipelines.benchmarks.results import Key, Results, count_of
from pipelines.benchmarks.tables import Table, TableCell, TableValue


def metric(setting: str, value: float | None, name: str = "accuracy", **fields: str) -> Metric:
    return Metric(task="choice", setting=setting, metric=name, value=value, n=4, **fields)


def printed(model: str, setting: str, value: float, table: str = "Table 1") -> PublishedValue:
    fields: dict[str, Any] = dict.fromkeys(PublishedValue.__slots__, "")
    fields |= {"model": model, "table": table, "task": "choice", "setting": setting, "metric": "accuracy"}
    return PublishedValue(**{**fields, "value": value})


RESULTS = Results.of(
    "b",
    {
        "x": [metric("one", 0.5), metric("two", 0.75), metric("two", 0.25, "change"), metric("two", 3.0, "count")],
        "y": [metric("two", None, note="no judge")],
        "z": [metric("two", 1.0, "other")],
    },
    [printed("Human", "", 0.9), printed("P", "one", 0.6), printed("P", "two", 0.7, "Table 2")],
)


def cells(table: Table) -> list[tuple[str, tuple[TableCell, ...]]]:
    return [(row.label, row.cells) for row in table.rows]


def test_rows_are_the_models_with_a_number() -> None:
    table = TableDef(
        id="t", title="T", columns={"Accuracy": Key("accuracy")}, rows=[Rows("Two", [Key("", "choice", "two")])]
    ).lay_out(RESULTS)
    assert cells(table) == [("Two", ()), ("x", (0.75,)), ("y", (TableValue(value=None, note="no judge"),))]


def test_measured_rows_have_a_value() -> None:
    rows = Rows("Two", [Key("", "choice", "two")], measured=True)
    table = TableDef(id="t", title="T", columns={"Accuracy": Key("accuracy")}, rows=[rows]).lay_out(RESULTS)
    assert [row.label for row in table.rows] == ["Two", "x"]


def test_block_without_rows_has_no_heading() -> None:
    rows = Rows("Nothing", [Key("", "choice", "three")])
    assert TableDef(id="t", title="T", columns={"A": Key("accuracy")}, rows=[rows]).lay_out(RESULTS).rows == ()


def test_published_rows_stand_first_and_people_are_human() -> None:
    rows = Rows(keys=[Key("", "choice", ""), Key("", "choice", "one")], sources=BOTH, table="Table 1")
    table = TableDef(id="t", title="T", columns={"Accuracy": Key("accuracy")}, rows=[rows]).lay_out(RESULTS)
    assert [(row.label, row.origin) for row in table.rows] == [("Human", "human"), ("P", "published"), ("x", "ours")]


def test_each_setting_of_a_model_is_a_row() -> None:
    rows = Rows(keys=[Key("", "choice", EACH_SETTING)], label=lambda view: f"{view.key.model}, {view.key.setting}")
    table = TableDef(id="t", title="T", columns={"Accuracy": Key("accuracy")}, rows=[rows]).lay_out(RESULTS)
    assert [row.label for row in table.rows] == ["x, one", "x, two", "y, two"]


def test_parts_stand_under_each_model() -> None:
    rows = Rows(keys=[Key("accuracy", "choice")], parts={"First": Key(setting="one"), "Second": Key(setting="two")})
    table = TableDef(id="t", title="T", columns={"Accuracy": Key()}, rows=[rows], label_head="Setting").lay_out(RESULTS)
    assert [row.label for row in table.rows] == ["x", "First", "Second", "y", "Second"]
    assert table.label_head == "Setting"


def test_keys_of_a_model_follow_each_other_by_model() -> None:
    keys = [Key("accuracy", "choice", setting) for setting in ("two", "one")]
    labels = {}
    for by_model in (False, True):
        rows = Rows(keys=keys, by_model=by_model, label=lambda view: view.key.model + view.key.setting)
        table = TableDef(id="t", title="T", columns={"Accuracy": Key()}, rows=[rows]).lay_out(RESULTS)
        labels[by_model] = [row.label for row in table.rows]
    assert labels == {False: ["xtwo", "ytwo", "xone"], True: ["xtwo", "xone", "ytwo"]}


def test_fixed_rows_name_their_models() -> None:
    parts = {"Line": Key("", "choice", "one", model="P"), "Absent": Key("", "choice", "one", model="Q")}
    table = TableDef(id="t", title="T", columns={"A": Key("accuracy")}, rows=[Fixed(parts, "published")])
    assert cells(table.lay_out(RESULTS)) == [("Line", (0.6,))]


def test_columns_show_changes_counts_text_and_nothing() -> None:
    columns = [
        ("Accuracy", Shown(Key("accuracy"), change="change")),
        ("Count", Shown(Key("count"), count_of)),
        ("Setting", lambda view: view.key.setting),
        ("", None),
    ]
    table = TableDef(id="t", title="T", columns=columns, rows=[Rows(keys=[Key("", "choice", "two")], models=["x"])])
    assert cells(table.lay_out(RESULTS)) == [("x", (TableValue(value=0.75, delta=0.25), 3, "two", None))]


def test_notes_depend_on_rows_and_gaps_unmark_the_best() -> None:
    table = TableDef(
        id="t",
        title="T",
        columns={"A": Key("accuracy")},
        rows=[Rows(keys=[Key("", "choice", "one")])],
        better="higher",
        notes=("Always.", if_ours("Ours."), if_published("Theirs.")),
    )
    assert table.lay_out(RESULTS).notes == ("Always.", "Ours.", "Theirs.")
    assert table.lay_out(RESULTS.without_published()).notes == ("Always.", "Ours.")
    assert table.lay_out(RESULTS).better == ("higher",)
    assert table.lay_out(Results("b")).notes == ("Always.",)


@pytest.mark.parametrize(("sizes", "notes"), [([5, 3], ("3 of 5",)), ([5], ()), ([1, 4], ("1 of 5", "4 of 5"))])
def test_coverage_notes_name_each_smaller_size(sizes: list[int], notes: tuple[str, ...]) -> None:
    assert coverage_notes(sizes, 5, "{size} of {full}") == notes


def test_gaps_are_notes_and_unmark_the_best() -> None:
    table = TableDef(
        id="t",
        title="T",
        columns={"A": Key("accuracy")},
        rows=[],
        better=("lower",),
        coverage=lambda results: coverage_notes(results.sizes(lambda _key: True), 9, "{size} of {full}"),
    ).lay_out(RESULTS)
    assert (table.notes, table.better) == (("4 of 9",), ())

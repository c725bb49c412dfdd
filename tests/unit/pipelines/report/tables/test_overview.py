import math
from dataclasses import replace
from typing import Any

import pytest

from pipelines.benchmarks.figures import Bars, Lines, Points, Radar, Series
from pipelines.benchmarks.tables import Table, TableValue
from pipelines.predict.records import TaskCount
from pipelines.report.model import BenchmarkSection, ReportData
from pipelines.report.tables.overview import (
    counts_table,
    figure_table,
    headline_table,
    notes_table,
    run_facts,
    run_tables,
)
from tests.unit.pipelines.report.cases import figures, metric

PART = BenchmarkSection(
    name="maia", title="MAIA", headline="pool_accuracy", settings=("black-video", "1-frame", "32-frames")
)


def present(table: Table | None) -> Table:
    assert table is not None
    return table


def test_headline_lists_models_by_settings_of_the_whole_with_n_interval_and_note() -> None:
    rows = [metric(setting=name, model=model) for model in ("b", "a") for name in ("32-frames", "other", "black-video")]
    table = present(headline_table(PART, rows))
    assert table.columns == ("black-video", "32-frames", "other")
    assert [row.label for row in table.rows] == ["b", "a"]
    assert table.rows[0].cells[0] == TableValue(value=0.5, low=0.4, high=0.6, n=120, n_failed=1)
    assert table.title == "MAIA: pool accuracy (all eight statement pairs), vsv"
    other_rows = [metric(category="Causal"), metric(subset="half"), metric(benchmark="mate"), metric(metric="bleu")]
    assert headline_table(PART, other_rows) is None
    assert len(present(headline_table(PART, [*other_rows, metric()])).rows) == 1
    table = present(headline_table(PART, [metric(value=math.nan, ci_low=None, ci_high=None, note="no judge")]))
    assert table.rows[0].cells[0] == TableValue(value=None, n=120, n_failed=1, note="no judge")


def test_headline_has_a_block_a_task_and_one_row_for_runs_and_no_person_as_best() -> None:
    table = present(headline_table(PART, [metric(), metric(task="oevqa", setting="1-frame")]))
    assert [(row.label, row.origin) for row in table.rows] == [
        ("vsv", "heading"),
        ("small", "ours"),
        ("oevqa", "heading"),
        ("small", "ours"),
    ]
    assert table.rows[1].cells[0] is None
    assert table.best_of == "block"
    rows = [metric(), metric(model="run 0"), metric(model="human:ann", value=0.99)]
    table = present(headline_table(replace(PART, replaced=frozenset({"run 0"})), rows))
    assert [(row.origin, row.baseline) for row in table.rows] == [("ours", False), ("human", True)]


def test_counts_table_lists_requests_by_status_that_add_up() -> None:
    count = TaskCount(
        benchmark="maia", model="m", task="vsv", setting="s", requests=10, ok=4, error=3, excluded=2, missing=1
    )
    table = present(counts_table(PART, [count]))
    assert table.rows[0].cells == ("vsv", "s", 10, 4, 3, 2, 1)
    assert counts_table(BenchmarkSection(name="mate", title="MATE", headline="exact_match"), [count]) is None
    with pytest.raises(ValueError, match="maia/m/vsv/s: ok, error, excluded and missing do not add up to 10"):
        TaskCount(benchmark="maia", model="m", task="vsv", setting="s", requests=10, ok=9)


def test_equal_notes_are_merged() -> None:
    rows = [metric(model=f"m{index}", value=None, note="no judge") for index in range(8)]
    rows += [metric(value=math.nan), metric(note="odd"), metric(benchmark="mate", value=None, note="other")]
    missing = present(notes_table(PART, rows, measured=False))
    assert [(row.label, row.cells) for row in missing.rows] == [
        ("pool_accuracy", ("vsv", "32-frames", "m0, m1, m2, m3, m4, m5 and 2 more", "no judge")),
        ("pool_accuracy", ("vsv", "32-frames", "small", "no reason was given")),
    ]
    remarks = present(notes_table(PART, rows, measured=True))
    assert [row.cells[-1] for row in remarks.rows] == ["odd"]
    assert notes_table(PART, [metric()], measured=True) is None
    assert notes_table(PART, [metric()], measured=False) is None


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.id)
def test_figure_table_exists_for_every_figure(figure: Any) -> None:
    table = figure_table(figure)
    assert (table.id, table.title) == (figure.id, figure.title)
    assert table.rows


def test_figure_table_keeps_gaps_intervals_and_origin() -> None:
    series = (
        Series(label="a", values=(0.1, None, 0.3), low=(0.0, None, 0.2), high=(0.2, None, 0.4)),
        Series(label="b", values=(0.5, 0.5, 0.5), origin="published"),
    )
    radar = figure_table(Radar(id="f", title="t", axes=("x", "y", "z"), series=series))
    assert radar.columns == ("a", "b (published)")
    assert radar.rows[0].cells == (TableValue(value=0.1, low=0.0, high=0.2), 0.5)
    assert radar.rows[1].cells == (TableValue(value=None), 0.5)
    assert radar.style == "percent1"
    assert figure_table(Radar(id="f", title="t", axes=("x", "y", "z"), series=series, maximum=9.0)).style == "plain"
    assert (
        figure_table(Bars(id="f", title="t", categories=("x", "y", "z"), series=series, percent=False)).style == "plain"
    )
    lines = figure_table(Lines(id="f", title="t", x=(0.1, 0.2, 0.3), series=series, x_label="threshold"))
    assert (lines.label_head, [row.label for row in lines.rows]) == ("threshold", ["0.1", "0.2", "0.3"])
    points = figures()[-1]
    assert isinstance(points, Points)
    assert [(row.cells, row.origin) for row in figure_table(points).rows] == [
        ((0.1, 0.2), "ours"),
        ((0.3, 0.4), "published"),
    ]


def test_run_facts_and_tables() -> None:
    run = {
        "seed": 42, "command": "vlmsweep run", "tasks": ["a", "b"], "adapter": None, "empty": {},
        "models": {"m": {"revision": "abc", "limits": {"max_frames": 8}, "adapter": None}, "n": {"revision": "def"}},
        "versions": {"torch": "2.15", "mixed": {"a": 1}},
    }  # fmt: skip
    report = ReportData(run=run)
    assert run_facts(report) == [
        ("Seed", "42"),
        ("Command", "vlmsweep run"),
        ("Tasks", "a, b"),
        ("Adapter", ""),
        ("Empty", "{}"),
    ]
    models, versions = run_tables(report)
    assert models.columns == ("Revision", "Limits")
    assert [row.cells for row in models.rows] == [("abc", '{"max_frames": 8}'), ("def", "")]
    assert [(row.label, row.cells) for row in versions.rows] == [("torch", ("2.15",)), ("mixed", ('{"a": 1}',))]

"""Comparison with humans: lines, gaps, approximate items and the figure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.figures import Bars
from pipelines.benchmarks.human import SAME_ITEMS, HumanLevel, gap_metric, human_metric
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import PublishedValue
from pipelines.benchmarks.tables import TableValue
from pipelines.report.human_comparison import HumanComparison, human_figures, human_tables
from pipelines.report.metrics_file import Measured
from tests.support.measured import measured
from tests.support.report_results import EMPTY, results_of

LEVEL = HumanLevel(
    task="quiz", metric="accuracy", subset="some", settings=("seen",), value=0.9, n=40, chance=0.25,
    items="approximate", tables=("Table 1",), printed_subset="theirs", drawn=("seen",), source="Table 1: one person",
)  # fmt: skip


def metric(model: str, name: str = "accuracy", *, value: float | None = 0.5, **more: object) -> Measured:
    row = {
        "benchmark": "b", "task": "quiz", "model": model, "setting": "seen", "subset": "some", "category": "",
        "metric": name, "value": value, "unit": "fraction", "n": 20, "n_failed": 0, "ci_low": 0.4, "ci_high": 0.7,
        "note": "",
    }  # fmt: skip
    return measured(**row | more)


def printed(model: str, value: float, **changes: str) -> PublishedValue:
    row = PublishedValue(
        table="Table 1", model=model, task="quiz", setting="seen", subset="theirs", category="", metric="accuracy",
        value=value, unit="fraction", note="",
    )  # fmt: skip
    return replace(row, **changes)


def comparison(level: HumanLevel, metrics: list[Measured], papers: list[PublishedValue]) -> HumanComparison:
    return HumanComparison(title="B", levels=(level,), metrics=metrics, published=papers)


def lines(*comparisons: HumanComparison) -> list[tuple[str, str, dict[str, object]]]:
    (table,) = human_tables(comparisons)
    return [
        (row.label, row.origin, dict(zip(table.columns, row.cells, strict=True)))
        for row in table.rows
        if row.origin != "heading"
    ]


def test_comparison_lists_ours_and_published_with_human_and_chance() -> None:
    papers = [printed("Human", 0.9), printed("Random", 0.25), printed("Paper-VLM", 0.6), printed("x", 0.7, table="T9")]
    table_lines = lines(comparison(LEVEL, [metric("m"), metric("m", setting="blind"), metric("human:ann")], papers))
    assert [(label, origin) for label, origin, _ in table_lines] == [("Paper-VLM", "published"), ("m", "ours")]
    (_, _, published), (_, _, ours) = table_lines
    assert published["Measure"] == "accuracy, theirs"
    assert published["Value"] == TableValue(value=0.6, n=40)
    assert (published["Gap to human"].value, published["Gap to human"].low) == (pytest.approx(-0.3), None)
    assert (published["Items"], ours["Items"]) == ("the people's", "approximate")
    assert (ours["Task"], ours["Setting"], ours["Measure"]) == ("quiz", "seen", "accuracy, some")
    assert ours["Value"] == TableValue(value=0.5, low=0.4, high=0.7, n=20)
    assert (ours["Human"], ours["Chance"]) == (TableValue(value=0.9, n=40), 0.25)
    gap = ours["Gap to human"]
    assert (gap.value, gap.low, gap.high) == (pytest.approx(-0.4), pytest.approx(-0.5), pytest.approx(-0.2))


def test_paired_gap_is_shown_on_the_same_items() -> None:
    level = HumanLevel(task="quiz", metric="accuracy", value=0.9, items="approximate")
    metrics = [
        metric("m", subset=SAME_ITEMS, value=0.5),
        metric("m", human_metric("accuracy"), subset=SAME_ITEMS, value=0.8),
        metric("m", gap_metric("accuracy"), subset=SAME_ITEMS, value=-0.3, ci_low=-0.45, ci_high=-0.1),
        metric("alone", subset=SAME_ITEMS),
    ]
    ((label, _, cells),) = lines(comparison(level, metrics, []))
    assert (label, cells["Items"]) == ("m", "same")
    assert cells["Gap to human"] == TableValue(value=-0.3, low=-0.45, high=-0.1, n=20)
    assert cells["Human"] == TableValue(value=0.8, low=0.4, high=0.7, n=20)


def test_best_published_model_stands_without_a_human_value_as_the_mean_of_its_parts() -> None:
    level = HumanLevel(task="quiz", metric="accuracy", items="unpublished", best_of=("Table 1",), chance_metric="guess")
    papers = [
        printed("good", 0.6, subset=""), printed("best", 0.7, subset=""),
        printed("blind", 0.3, subset="", setting="blind"),
        printed("odd", 0.99, subset="", note="misprint: cannot be"),
    ]  # fmt: skip
    table_lines = lines(comparison(level, [metric("m", subset=""), metric("m", "guess", subset="", value=0.1)], papers))
    assert [label for label, _, _ in table_lines] == ["best", "blind", "m"]
    assert table_lines[-1][2]["Chance"] == 0.1
    assert table_lines[-1][2]["Human"] == TableValue(value=None)
    assert table_lines[-1][2]["Gap to human"] == TableValue(value=None)
    level = HumanLevel(
        task="quiz", metric="accuracy", category="All", items="unpublished", best_of=("Table 1",),
        printed_parts=("odd", "even"),
    )  # fmt: skip
    papers = [
        printed("good", 0.6, subset="", category="odd"), printed("good", 0.8, subset="", category="even"),
        printed("half", 0.9, subset="", category="odd"),
    ]  # fmt: skip
    (label, origin, cells), _ = lines(comparison(level, [metric("m", subset="", category="All")], papers))
    assert (label, origin, cells["Value"]) == ("good", "published", TableValue(value=pytest.approx(0.7)))


def test_missing_values_and_counts_have_no_gap() -> None:
    ((_, _, cells),) = lines(
        comparison(LEVEL, [metric("m", value=None, ci_low=None, ci_high=None, note="no judge")], [])
    )
    assert cells["Value"] == TableValue(value=None, n=20, note="no judge")
    assert cells["Gap to human"] == TableValue(value=None)
    level = replace(LEVEL, metric="count", value=12.0)
    ((_, _, cells),) = lines(comparison(level, [metric("m", "count", value=4.0, unit="count")], []))
    assert cells["Value"] == TableValue(value=4, low=0.4, high=0.7, n=20)
    assert isinstance(cells["Value"].value, int)
    assert cells["Gap to human"] == TableValue(value=None)


def test_figure_has_lines_for_people_and_chance_or_a_note() -> None:
    (figure,) = human_figures([comparison(LEVEL, [metric("m"), metric("k", value=0.3)], [printed("p", 0.6)])])
    assert isinstance(figure, Bars)
    assert figure.categories == ("B: quiz, accuracy, some, seen",)
    assert [(series.label, series.origin, series.values) for series in figure.series] == [
        ("m", "ours", (0.5,)),
        ("k", "ours", (0.3,)),
        ("Best published", "published", (0.6,)),
        ("Chance", "ours", (0.25,)),
        ("People", "human", (0.9,)),
    ]
    (figure,) = human_figures([comparison(LEVEL, [metric("m")], [])])
    assert not any("No line" in note for note in figure.notes)
    (figure,) = human_figures([comparison(replace(LEVEL, value=None), [metric("m")], [])])
    assert any(note.endswith("published of B: quiz, accuracy, some, seen.") for note in figure.notes)


def test_no_table_without_a_comparable_measure() -> None:
    assert human_tables([comparison(LEVEL, [metric("m", task="other")], [printed("p", 0.6)])]) == []
    assert human_figures([comparison(LEVEL, [], [printed("p", 0.6)])]) == []


def test_models_of_other_tables_are_not_on_the_peoples_items() -> None:
    level = replace(LEVEL, printed_subset="some", best_of=("Table 2",))
    papers = [printed("same", 0.6, subset="some"), printed("other", 0.7, subset="some", table="Table 2")]
    same, other, _ = (cells for _, _, cells in lines(comparison(level, [metric("m")], papers)))
    assert (same["Items"], same["Value"]) == ("the people's", TableValue(value=0.6, n=40))
    assert (other["Items"], other["Value"]) == ("approximate", TableValue(value=0.7))


def test_benchmarks_compare_with_the_best_published_models() -> None:
    """One number of each paper that only this table has beside ours."""
    expected = {
        ("maia", "pool_accuracy"): ("32-frames", 0.54),
        ("maia", "agg_acc"): ("32-frames", 0.47),
        ("unpie", "exact_match"): ("vlm", pytest.approx((0.976 + 0.94) / 2)),
        ("vflute", "f1_at_0"): ("5-shot", 0.7942),
        ("vflute", "f1_at_60"): ("5-shot", 0.5631),
    }
    highest = {}
    for name in {name for name, _ in expected}:
        for level in benchmark(name).human.reference_values(results_of(name, EMPTY)):
            if not level.subset and (name, level.metric) in expected:
                setting = level.settings[0] if level.settings else "seen"
                ours = metric("m", level.metric, task=level.task, setting=setting, subset="", category=level.category)
                share = HumanComparison(title=name, levels=(level,), metrics=[ours], published=load_published(name))
                printed_lines = [cells for _, origin, cells in lines(share) if origin == "published"]
                values = {(cells["Setting"], cells["Value"].value) for cells in printed_lines}  # type: ignore[attr-defined]
                highest[name, level.metric] = max(values, key=lambda pair: pair[1])
    assert highest == expected

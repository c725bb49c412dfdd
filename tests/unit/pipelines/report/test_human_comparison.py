"""Models beside people: which lines there are, what the gap is, what is approximate, what is drawn."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Bars
from pipelines.benchmarks.human import SAME_ITEMS, HumanLevel, gap_metric, human_metric
from pipelines.benchmarks.tables import TableValue
from pipelines.report.human_comparison import HumanComparison, people_figures, people_tables
from pipelines.report.model import METRIC_KEYS
from pipelines.report.published import COLUMNS

LEVEL = HumanLevel(
    task="quiz",
    metric="accuracy",
    subset="some",
    settings=("seen",),
    value=0.9,
    n=40,
    chance=0.25,
    items="approximate",
    tables=("Table 1",),
    printed_subset="theirs",
    drawn=("seen",),
    source="Table 1: one person",
)


def metric(model: str, name: str = "accuracy", *, value: float | None = 0.5, **more: object) -> dict[str, object]:
    row = {
        "benchmark": "b", "task": "quiz", "model": model, "setting": "seen", "subset": "some", "category": "",
        "metric": name, "value": value, "unit": "fraction", "n": 20, "n_failed": 0, "ci_low": 0.4, "ci_high": 0.7,
        "note": "",
    }  # fmt: skip
    return row | more


def printed(model: str, value: float, **more: str) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    row |= {"benchmark": "b", "table": "Table 1", "model": model, "task": "quiz", "setting": "seen"}
    return row | {"subset": "theirs", "metric": "accuracy", "value": value, "unit": "fraction"} | more


def share(level: HumanLevel, metrics: list[dict[str, object]], papers: list[dict[str, object]]) -> HumanComparison:
    return HumanComparison(
        title="B",
        levels=(level,),
        metrics=pd.DataFrame(metrics, columns=[*METRIC_KEYS, "note"]),
        published=pd.DataFrame(papers, columns=list(COLUMNS)),
    )


def lines(*shares: HumanComparison) -> list[tuple[str, str, dict[str, object]]]:
    (table,) = people_tables(shares)
    return [
        (row.label, row.origin, dict(zip(table.columns, row.cells, strict=True)))
        for row in table.rows
        if row.origin != "heading"
    ]


def test_ours_and_published_beside_people_and_chance() -> None:
    papers = [printed("Human", 0.9), printed("Random", 0.25), printed("Paper-VLM", 0.6), printed("x", 0.7, table="T9")]
    found = lines(share(LEVEL, [metric("m"), metric("m", setting="blind"), metric("human:ann")], papers))
    assert [(label, origin) for label, origin, _ in found] == [("Paper-VLM", "published"), ("m", "ours")]
    (_, _, theirs), (_, _, ours) = found
    assert theirs["Measure"] == "accuracy, theirs"
    assert theirs["Value"] == TableValue(value=0.6, n=40)
    assert isinstance(theirs["Gap to human"], TableValue)
    assert (theirs["Gap to human"].value, theirs["Gap to human"].low) == (pytest.approx(-0.3), None)
    assert (theirs["Items"], ours["Items"]) == ("the people's", "approximate")
    assert (ours["Task"], ours["Setting"], ours["Measure"]) == ("quiz", "seen", "accuracy, some")
    assert ours["Value"] == TableValue(value=0.5, low=0.4, high=0.7, n=20)
    assert (ours["Human"], ours["Chance"]) == (TableValue(value=0.9, n=40), 0.25)
    gap = ours["Gap to human"]
    assert isinstance(gap, TableValue)
    assert (gap.value, gap.low, gap.high) == (pytest.approx(-0.4), pytest.approx(-0.5), pytest.approx(-0.2))


def test_on_the_same_items_the_paired_gap_stands() -> None:
    level = HumanLevel(task="quiz", metric="accuracy", value=0.9, items="approximate")
    own = [
        metric("m", subset=SAME_ITEMS, value=0.5),
        metric("m", human_metric("accuracy"), subset=SAME_ITEMS, value=0.8),
        metric("m", gap_metric("accuracy"), subset=SAME_ITEMS, value=-0.3, ci_low=-0.45, ci_high=-0.1),
        metric("alone", subset=SAME_ITEMS),
    ]
    ((label, _, cells),) = lines(share(level, own, []))
    assert (label, cells["Items"]) == ("m", "same")
    assert cells["Gap to human"] == TableValue(value=-0.3, low=-0.45, high=-0.1, n=20)
    assert cells["Human"] == TableValue(value=0.8, low=0.4, high=0.7, n=20)


def test_without_a_human_figure_the_best_published_of_each_setting() -> None:
    level = HumanLevel(task="quiz", metric="accuracy", items="unpublished", best_of=("Table 1",), chance_metric="guess")
    papers = [
        printed("good", 0.6, subset=""), printed("best", 0.7, subset=""),
        printed("blind", 0.3, subset="", setting="blind"),
        printed("odd", 0.99, subset="", note="misprint: cannot be"),
    ]  # fmt: skip
    found = lines(share(level, [metric("m", subset=""), metric("m", "guess", subset="", value=0.1)], papers))
    assert [label for label, _, _ in found] == ["best", "blind", "m"]
    assert found[-1][2]["Chance"] == 0.1
    assert found[-1][2]["Human"] == TableValue(value=None)
    assert found[-1][2]["Gap to human"] == TableValue(value=None)


def test_a_missing_value_says_why_and_has_no_gap() -> None:
    ((_, _, cells),) = lines(share(LEVEL, [metric("m", value=None, ci_low=None, ci_high=None, note="no judge")], []))
    assert cells["Value"] == TableValue(value=None, n=20, note="no judge")
    assert cells["Gap to human"] == TableValue(value=None)


def test_the_figure_has_lines_for_people_and_chance() -> None:
    (figure,) = people_figures([share(LEVEL, [metric("m"), metric("k", value=0.3)], [printed("p", 0.6)])])
    assert isinstance(figure, Bars)
    assert figure.categories == ("B: quiz, accuracy, some, seen",)
    assert [(one.label, one.origin, one.values) for one in figure.series] == [
        ("m", "ours", (0.5,)),
        ("k", "ours", (0.3,)),
        ("Best published", "published", (0.6,)),
        ("Chance", "reference", (0.25,)),
        ("People", "reference", (0.9,)),
    ]


def test_nothing_to_compare_is_no_table() -> None:
    assert people_tables([share(LEVEL, [metric("m", task="other")], [printed("p", 0.6)])]) == []
    assert people_figures([share(LEVEL, [], [printed("p", 0.6)])]) == []

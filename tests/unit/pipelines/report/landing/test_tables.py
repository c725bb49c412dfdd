import pytest

from pipelines.benchmarks.tables import Table
from pipelines.plan.run_manifest import ModelSpending, Spending
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.report.landing.tables import cost_of, cost_table, matrix_table, standing_figure
from pipelines.report.tables.token_efficiency import Efficiency
from tests.unit.pipelines.report.cases import difference, metric, standing

PRICED = {"api": {"price": {"input_per_million": 2.0, "output_per_million": 10.0}}}
BATCHED = {"api": {**PRICED["api"], "batch": True}}


def usage(model: str = "api", **changes: object) -> Efficiency:
    fields = {"answers": 10, "prompt_tokens": 1_000_000, "computed_tokens": 1_000_000, "output_tokens": 100_000}
    return Efficiency(**{"benchmark": "maia", "model": model, "latency_s": 5.0, **fields, **changes})  # type: ignore[arg-type]


def present(table: Table | None) -> Table:
    assert table is not None
    return table


def test_matrix_marks_a_significant_lead_alone_and_sets_references_and_guesses_apart() -> None:
    led, tied = standing("A"), standing("B", benchmark="mate", lead=difference(p=0.5), people=None)
    table = present(matrix_table([led, tied], cost_table([usage("small")], {}, [])))
    assert table.groups == (("A", 1), ("B", 1), ("All", 2))
    assert [row.label for row in table.rows[:2]] == ["small", "other"]
    first, second, *further = table.rows[0].cells
    assert (first.best, second.best, further) == (True, False, ["0.50", None])
    heading = [row.label for row in table.rows].index("To compare with")
    below = {row.label: row for row in table.rows[heading + 1 :]}
    assert list(below) == ["People", "Chance", "Best published"]
    assert all(row.baseline for row in below.values())
    assert below["Chance"].cells == (0.25, 0.25, "", "")
    assert matrix_table([]) is None
    guess, unmeasured = metric(model="guess", value=0.9), metric(model="none", value=None)
    labels = [row.label for row in present(matrix_table([standing(baselines=(guess,), unmeasured=(unmeasured,))])).rows]
    assert labels[:4] == ["small", "other", "words", "none"]
    assert "guess" not in labels


@pytest.mark.parametrize(("models", "dollars"), [(PRICED, 3.0), (BATCHED, 1.5), ({}, None)])
def test_cost_is_of_tokens_by_the_billed_price(models: dict[str, dict[str, object]], dollars: float | None) -> None:
    assert cost_of([usage()], models) == dollars


def test_cost_table_has_models_and_their_judges() -> None:
    spending = Spending(
        at="", limit=None, dollars=0.5, models={"judge": ModelSpending(input_tokens=9, output_tokens=1, dollars=0.5)}
    )
    table = present(cost_table([usage()], PRICED, [spending]))
    assert [(row.label, row.cells) for row in table.rows] == [
        ("api", (10, 1_000_000, 100_000, "0.50", "$3.00")),
        ("judge (judge or captioner)", (None, 9, 1, None, "$0.50")),
    ]
    assert [row.baseline for row in table.rows] == [False, True]
    assert [row.baseline for row in present(cost_table([usage()], {"api": {"engine": "random"}}, [])).rows] == [True]
    assert cost_table([], {}, []) is None
    (failed,) = present(cost_table([], {}, [spending], {"judge"})).rows
    assert (failed.label, failed.baseline) == ("judge", False)  # a model without an answer is no judge


def test_figure_draws_intervals_and_lines_for_people_and_chance() -> None:
    figure = standing_figure([standing("A"), standing("B", people=None, published=None)])
    assert figure.categories == ("A", "B")
    assert [(series.label, series.baseline) for series in figure.series[-3:]] == [
        ("Chance", True),
        ("People", True),
        ("Best published", False),
    ]
    assert figure.series[0].low == (0.4, 0.4)
    assert figure.title == "Every model with its 95% interval, beside people, chance and the best published model"
    drawing = to_svg_bytes(figure)
    assert b"small" in drawing
    assert b"People" in drawing
    assert standing_figure([standing(ranked=())]) is None


@pytest.mark.parametrize(
    ("absent", "end"), [(("people", "chance", "published"), ""), (("people", "published"), ", beside chance")]
)
def test_titles_name_what_there_is_to_compare_with(absent: tuple[str, ...], end: str) -> None:
    at = standing(**dict.fromkeys(absent))
    assert present(matrix_table([at])).caption == f"The headline of each benchmark by model{end}."
    figure = standing_figure([at])
    assert figure.title == f"Every model with its 95% interval{end}"

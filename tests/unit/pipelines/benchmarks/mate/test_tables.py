"""MATE's tables and figures: ours beside the published ones, in the paper's layout."""

from dataclasses import asdict

import pandas as pd
import pytest

from pipelines.benchmarks.figures import PUBLISHED_ALONE, Bars
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableValue
from pipelines.rendering.formats import html, to_csv, to_latex, to_markdown
from tests.support.published_frames import published
from tests.support.report_results import results_of

PRINTED = published("mate")


def metric(
    task: str, value: float | None, *, setting: str = "2-shot", category: str = "", name: str = "exact_match"
) -> Metric:
    n, low, high = (100, max(0.0, value - 0.1), min(1.0, value + 0.1)) if value is not None else (0, None, None)
    return Metric(
        task=task, setting=setting, category=category, metric=name, value=value, n=n, ci_low=low, ci_high=high
    )


ALL = [
    *(metric(task, value) for task, value in {"img2txt": 0.6, "txt2img": 0.7, "crossmodal": 0.65}.items()),
    *(
        metric(task, value, name="chance")
        for task, value in {"img2txt": 0.25, "txt2img": 0.19, "crossmodal": 0.22}.items()
    ),
    *(metric(task, 0.9) for task in ("img2img", "txt2txt", "unimodal")),
    metric("txt2img", 0.8, category="Shape"),
    metric("crossmodal", 0.04, name="ose"),
    *(metric("crossmodal", value, category=f"{n} objects") for n, value in ((3, 0.9), (10, 0.4))),
    *(metric("crossmodal", value, setting="2-shot-cot", category=f"{n} objects") for n, value in ((3, 0.8), (10, 0.7))),
    metric("crossmodal", 0.1, setting="2-shot-cot", name="cot_delta"),
    metric("crossmodal", 0.3, setting="2-shot-cot", category="10 objects", name="cot_delta"),
    metric("crossmodal", 0.5, category="Material+Size"),
    metric("crossmodal", 0.3, category="3D coords only"),
    *(
        metric("crossmodal", 0.5, category=f"{name} @7 objects")
        for name in ("links=1", "links=2", "links=3", "3D coords only")
    ),
    *(
        metric("crossmodal", value, category=f"overlap={label}", name="share")
        for label, value in zip("43210-", (0.5, 0.3, 0.1, 0.05, 0.0, 0.05), strict=True)
    ),
    metric("img2txt", 0.55, setting="0-shot"),
    metric("txt2img", 0.6, setting="1-shot"),
    metric("txt2img", 0.9, category="shot_shows_target=true"),
    metric("img2txt", 0.4, category="pointer=Color"),
    metric("img2txt", 0.4, category="pointer=Color target=Name"),
    *(metric("img2txt", 0.6, name=name) for name in ("exact_match_lenient", "format_ok", "exact_match_failures_wrong")),
    metric("crossmodal", 0.63, category="3D coords only", name="pct_correct_given_noncoord_match"),
]


def as_frame(metrics: list[Metric], model: str = "ours") -> pd.DataFrame:
    columns = ["benchmark", "model", *Metric.__slots__]
    frame = pd.DataFrame(
        [{"benchmark": "mate", "model": model, **asdict(metric)} for metric in metrics], columns=columns
    )
    for name in ("value", "ci_low", "ci_high"):
        frame[name] = frame[name].astype("float64")
    return frame


def tables(metrics: list[Metric]) -> dict[str, Table]:
    return {table.id: table for table in BENCHMARK.tables(results_of("mate", as_frame(metrics), PRINTED))}


def figures(metrics: list[Metric]) -> dict[str, Bars]:
    drawn = BENCHMARK.figures(results_of("mate", as_frame(metrics), PRINTED))
    assert all(isinstance(figure, Bars) for figure in drawn)
    return {figure.id: figure for figure in drawn if isinstance(figure, Bars)}


def cells(table: Table, label: str) -> list[float | None]:
    (row_cells,) = [row.cells for row in table.rows if row.label == label and row.origin != "heading"]
    return [cell.value if isinstance(cell, TableValue) else cell for cell in row_cells]  # type: ignore[misc]


PAPER = [f"mate_table{number}" for number in (1, 2, 3, 4, 5, 8, 9)]


@pytest.mark.parametrize("metrics", [[], ALL], ids=["none", "all"])
def test_every_table_of_the_paper_is_made_with_published_values(metrics: list[Metric]) -> None:
    tables_by_id = tables(metrics)
    assert [name for name in tables_by_id if name.startswith("mate_table")] == PAPER
    additional = {"mate_reading", "mate_coords_only", "mate_shots", "mate_pointers"}
    assert set(tables_by_id) - set(PAPER) == (additional if metrics else set())
    for table in tables_by_id.values():
        for printed in (to_markdown(table), to_csv(table), to_latex(table), str(html(table))):
            assert printed


def test_table_1_has_people_chance_open_closed_and_ours() -> None:
    table = tables(ALL)["mate_table1"]
    labels = [row.label for row in table.rows]
    assert labels[:4] == ["Human, published", "Random, published", "Random, this data", "Open"]
    assert labels[-6:] == ["Closed", "Gemini 1.5", "GPT-4o", "Claude 3.5", "This sweep", "ours"]
    assert cells(table, "Human, published") == [0.979, 0.979, 0.979]
    assert cells(table, "Random, this data") == [0.25, 0.19, 0.22]
    assert cells(table, "ours") == [0.6, 0.7, 0.65]
    assert {row.origin for row in table.rows} == {"human", "heading", "published", "ours"}
    ours = next(row for row in table.rows if row.label == "ours").cells[0]
    assert isinstance(ours, TableValue)
    assert ours.n == 100
    assert ours.low == pytest.approx(0.5)


def test_bounds_of_the_paper_are_rows() -> None:
    tables_by_id = tables([])
    best = {
        row.label: row.cells[2]
        for row in tables_by_id["mate_table1"].rows
        if row.origin == "published" and isinstance(row.cells[2], float)
    }
    assert max(value for name, value in best.items() if name not in ("GPT-4o", "Gemini 1.5", "Claude 3.5")) == 0.801
    assert max(best.values()) == 0.833
    ten = [
        row.cells[1].value
        for row in tables_by_id["mate_table4"].rows
        if row.origin == "published" and isinstance(row.cells[1], TableValue)
    ]
    assert max(value for value in ten if value is not None) == 0.705


def test_table_2_lower_is_better_for_errors_out_of_scene() -> None:
    table = tables(ALL)["mate_table2"]
    assert table.better == ("higher",) * 6 + ("lower",)
    assert cells(table, "ours") == [0.8, None, None, None, None, None, 0.04]
    assert cells(table, "Random, published")[-1] is None


def test_table_4_is_the_mean_over_counts_with_the_change() -> None:
    table = tables(ALL)["mate_table4"]
    assert cells(table, "ours") == [pytest.approx(0.75), 0.7]
    ours = next(row for row in table.rows if row.label == "ours").cells
    assert [cell.delta for cell in ours if isinstance(cell, TableValue)] == [0.1, 0.3]
    llava = next(row for row in table.rows if row.label == "LLaVA 1.5").cells
    assert [(cell.value, cell.delta) for cell in llava if isinstance(cell, TableValue)] == [
        (0.281, -0.045),
        (0.185, -0.065),
    ]


def test_table_5_marks_attributes_and_doubts_what_is_misprinted() -> None:
    table = tables(ALL)["mate_table5"]
    assert [row.label for row in table.rows] == ["3dc", *"11112222233"]
    row = table.rows[8]
    assert row.cells[:4] == (False, True, False, True)
    assert isinstance(row.cells[4], TableValue)
    assert (row.cells[4].value, row.cells[4].doubtful) == (0.58, True)
    assert isinstance(row.cells[5], TableValue)
    assert row.cells[5].value == 0.5
    assert table.rows[0].cells[4] == 0.487


def test_table_9_has_all_numbers_of_shots() -> None:
    table = tables(ALL)["mate_table9"]
    assert cells(table, "ours") == [0.55, None, 0.6, None, 0.6, 0.7]
    assert sum(row.origin == "published" for row in table.rows) == 17


def test_a_misprint_is_shown_and_never_best() -> None:
    table = tables([])["mate_table8"]
    gemini = next(row for row in table.rows if row.label == "gemini-1.5-flash").cells[2]
    assert isinstance(gemini, TableValue)
    assert gemini.doubtful


def test_generated_data_has_no_published_values_beside_it() -> None:
    generated = Metric(task="", setting="", metric="generated", value=5.0, n=5, unit="count")
    for table in tables([*ALL, generated]).values():
        assert "published" not in {row.origin for row in table.rows}
        assert not [row for row in table.rows if "published" in row.label]
    assert any("Generated data" in note for note in tables([*ALL, generated])["mate_table1"].notes)


def test_small_set_is_noted() -> None:
    assert any("100 of 5,500" in note for note in tables(ALL)["mate_table1"].notes)


def test_another_setting_is_named_with_the_model() -> None:
    tables_by_id = tables([metric("img2txt", 0.5, setting="0-shot")])
    assert cells(tables_by_id["mate_table1"], "ours, 0-shot") == [0.5, None, None]


def test_figures() -> None:
    (printed,) = figures([]).values()
    assert (printed.id, printed.notes[1]) == ("mate_figure4b", PUBLISHED_ALONE)
    assert printed.categories == ("sha", "mat", "col", "siz", "3dc")
    assert [(series.values, series.origin) for series in printed.series] == [
        ((0.921, 0.901, 0.888, 0.769, 0.487), "published")
    ]
    figures_by_id = figures(ALL)
    assert set(figures_by_id) == {"mate_figure2", "mate_figure4b", "mate_figure5"}
    assert figures_by_id["mate_figure2"].categories == ("3", "10")
    human = next(series for series in figures_by_id["mate_figure2"].series if series.label.startswith("Human"))
    assert (human.values, human.origin, human.baseline) == ((None, 0.958), "human", True)
    assert figures_by_id["mate_figure5"].categories == ("4", "3", "2", "1", "0", "-")
    assert figures_by_id["mate_figure5"].series[0].values == (0.5, 0.3, 0.1, 0.05, 0.0, 0.05)
    assert figures_by_id["mate_figure4b"].categories[0] == "3dc"


def test_figure_4a_takes_seven_objects_or_the_count_with_the_fullest_groups() -> None:
    seven = [*ALL, metric("crossmodal", 0.5, category="7 objects")]
    drawn = figures(seven)
    assert "7 objects" in drawn["mate_figure4a"].title
    assert drawn["mate_links_by_count"].series[0].values == (None, 0.25, None)
    names = ("links=1", "links=2", "links=3", "3D coords only")
    other = [
        metric("crossmodal", 0.5, category="12 objects"),
        *(metric("crossmodal", 0.5, category=f"{name} @12 objects") for name in names),
    ]
    figure = figures(other)["mate_figure4a"]
    assert "12 objects" in figure.title
    assert "1: 100, 2: 100, 3: 100, 3dc: 100" in figure.notes[0]


def test_runs_of_the_random_baseline_are_one_row_beside_chance() -> None:
    runs = "random, mean of 10 runs"
    results = Results.of("mate", {"ours": ALL, runs: ALL}, load_published("mate"))
    by_id = {table.id: table for table in BENCHMARK.tables(results)}
    for name in ("mate_table1", "mate_table4", "mate_table9"):
        labels = [row.label for row in by_id[name].rows]
        if runs in labels:
            assert labels.count(runs) == 1
            assert labels.index(runs) < labels.index("Open")
            assert next(row for row in by_id[name].rows if row.label == runs).baseline
        closed = labels.index("Closed") if "Closed" in labels else 0
        assert "Random, this data" not in labels[closed:]
    assert runs in [row.label for row in by_id["mate_table1"].rows]
    assert runs in [row.label for row in by_id["mate_table9"].rows]

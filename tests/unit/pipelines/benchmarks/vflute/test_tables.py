"""V-FLUTE's tables and figures: the paper's layout, ours beside the published, notes on gaps."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Bars, Figure, Lines
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.benchmarks.vflute.facts import SETTINGS
from pipelines.benchmarks.vflute.metrics import reduce_scores
from pipelines.benchmarks.vflute.tables import make_figures, make_tables
from pipelines.schemas import METRIC_KEYS
from tests.support.f1_oracle import f1_at_k
from tests.support.published_frames import published
from tests.support.report_results import results_of
from tests.support.vflute_rows import Scored, frame, samples, whole_split

PUBLISHED = published("vflute")
IDS = [
    "vflute_table1", "vflute_table3", "vflute_table4", "vflute_table6", "vflute_section53", "vflute_table7",
    "vflute_table17", "vflute_table18", "vflute_subsets", "vflute_reading", "vflute_appendix_j", "vflute_significance",
]  # fmt: skip


def metrics_of(rows: Sequence[Scored], *models: str) -> pd.DataFrame:
    metrics = reduce_scores(frame(rows), samples(rows))
    return pd.DataFrame(
        [{"benchmark": "vflute", "model": model, **asdict(metric)} for model in models for metric in metrics]
    )


def sweep() -> list[Scored]:
    rows = whole_split(
        label=lambda gold, index: gold if index % 4 else 1 - gold, es=lambda _, index: 0.4 + index / 2000
    )
    return [replace(row, setting=setting) for setting in SETTINGS for row in rows]


@pytest.fixture(scope="module")
def ours() -> pd.DataFrame:
    return metrics_of(sweep(), "model-a", "model-b")


@pytest.fixture(scope="module")
def tables(ours: pd.DataFrame) -> dict[str, Table]:
    return {table.id: table for table in make_tables(results_of("vflute", ours, PUBLISHED))}


@pytest.fixture(scope="module")
def figures(ours: pd.DataFrame) -> dict[str, Figure]:
    return {figure.id: figure for figure in make_figures(results_of("vflute", ours, PUBLISHED))}


def row_of(table: Table, label: str, block: str = "") -> TableRow:
    heading = ""
    for row in table.rows:
        heading = row.label if row.origin == "heading" else heading
        if row.label == label and block in ("", heading) and row.origin != "heading":
            return row
    raise LookupError(label)


def value(cell: object) -> object:
    return cell.value if isinstance(cell, TableValue) else cell


def test_report_has_all_tables_in_order(tables: dict[str, Table]) -> None:
    assert list(tables) == IDS


def test_tables_1_and_3_show_published_sizes_and_ours(tables: dict[str, Table]) -> None:
    cells = row_of(tables["vflute_table1"], "HAIVMET").cells
    assert cells[:4] == ("Metaphor/Simile", "vismet", "Generated illustration", "Image")
    assert cells[4:] == (857, 450, 407, 44, 57)
    assert row_of(tables["vflute_table3"], "Total").cells == (4578, 726, 723, 723)
    assert row_of(tables["vflute_table3"], "IRFL (idiom)").cells == (170, 100, 100, 100)


def test_table_4_has_the_papers_rows_and_blocks(tables: dict[str, Table]) -> None:
    table = tables["vflute_table4"]
    assert table.columns == ("F1@0", "F1@53", "F1@60")
    assert [row.label for row in table.rows] == [
        "Random",
        "Fine-tuned", "LLaVA-7B-VF", "LLaVA-7B-VF − Image", "LLaVA-7B-eViL", "LLaVA-7B-eViL+VF",
        "Open, off the shelf", "LLaVA-ZS-7B", "LLaVA-ZS-7B + SG", "LLaVA-ZS-34B", "LLaVA-ZS-34B + SG",
        "API", "Gemini-1.5-Pro", "Gemini-1.5-Pro, 5-shot", "Claude-3 Opus", "Claude-3 Opus, 5-shot", "GPT-4",
        "GPT-4, 5-shot",
        "This sweep", "model-a", "model-b", "model-a, 5-shot", "model-b, 5-shot", "model-a, 10-shot",
        "model-b, 10-shot", "model-a + SG", "model-b + SG", "model-a − Image", "model-b − Image",
    ]  # fmt: skip
    assert row_of(table, "GPT-4, 5-shot").cells == (0.6936, 0.6195, 0.4981)
    assert row_of(table, "Random").cells == (0.4982, None, None)
    assert {row.origin for row in table.rows} == {"heading", "published", "ours"}
    assert (table.best_of, table.second) == ("table", "block")
    whole = row_of(table, "model-a").cells[0]
    assert isinstance(whole, TableValue)
    assert whole.low is not None


def test_tables_17_and_18_put_ours_next_to_another_model(tables: dict[str, Table]) -> None:
    assert row_of(tables["vflute_table17"], "InstructBlip-7B + SG").cells == (0.3803, 0.0415, 0.0138)
    assert row_of(tables["vflute_table18"], "GPT-4o, 5-shot").cells == (0.7942, 0.6935, 0.5631)
    assert tables["vflute_table17"].title == "V-FLUTE Table 17: InstructBLIP-7B, zero-shot and with scene graph"
    assert tables["vflute_table18"].title == "V-FLUTE Table 18: GPT-4o, zero-shot and 5-shot"
    assert [row.label for row in tables["vflute_table18"].rows[2:]] == [
        "This sweep, in these settings", "model-a", "model-b", "model-a, 5-shot", "model-b, 5-shot",
    ]  # fmt: skip


def test_table_6_and_section_5_3_equal_the_paper(tables: dict[str, Table]) -> None:
    table = tables["vflute_table6"]
    assert table.columns == ("LLaVA-7B-eViL+VF", "LLaVA-34B + SG", "GPT-4, 5-shot")
    assert row_of(table, "Adequate").cells == (0.3378, 0.2985, 0.5067)
    assert row_of(table, "Preferred").cells == (0.2308, 0.0769, 0.4423)
    assert any("0.47" in note for note in table.notes)
    assert row_of(tables["vflute_section53"], "Published").cells == (0.79, None, 0.77, 0.53, None)


def test_table_7_has_people_and_models_by_subset(tables: dict[str, Table]) -> None:
    table = tables["vflute_table7"]
    assert table.columns == ("Human (published)", "LLaVA-eViL+VF (published)", "model-a", "model-b")
    assert [row.label for row in table.rows] == [
        "HAIVMET", "IRFL (metaphor/simile)", "IRFL (idiom)", "MuSE", "MemeCap", "NYCartoons", "Overall",
    ]  # fmt: skip
    assert row_of(table, "Overall").cells[:2] == (0.8909, 0.7726)
    assert row_of(table, "NYCartoons").cells[:2] == (0.7143, 0.4783)


def test_table_7_says_ours_only_where_we_measured() -> None:
    metrics = metrics_of(sweep(), "model-a")
    lacking = metrics.assign(value=metrics["value"].where(metrics["metric"] != "f1_at_0"))
    for ours, origin in ((metrics, "ours"), (lacking, "published")):
        table = next(
            table for table in make_tables(results_of("vflute", ours, PUBLISHED)) if table.id == "vflute_table7"
        )
        assert {row.origin for row in table.rows} == {origin}


def test_subsets_have_chance_f1_and_reading(tables: dict[str, Table]) -> None:
    table = tables["vflute_subsets"]
    cells = dict(zip(table.columns, row_of(table, "Overall", "model-a").cells, strict=True))
    assert value(cells["All E"]) == pytest.approx(0.3590, abs=1e-4)
    assert value(cells["F1@0"]) == value(row_of(tables["vflute_table4"], "model-a").cells[0])
    assert [row.label for row in table.rows[:3]] == ["model-a", "HAIVMET", "IRFL (metaphor/simile)"]


def test_appendix_j_and_significance_tables(tables: dict[str, Table]) -> None:
    table = tables["vflute_appendix_j"]
    assert row_of(table, "fine-tuned model (not named)").cells == (0.8085, 0.8326, "< 0.1")
    assert [row.label for row in table.rows if row.origin == "ours"] == ["model-a", "model-b"]
    pairs = [(row.label, row.cells[0]) for row in tables["vflute_significance"].rows if row.origin == "ours"]
    assert ("model-a", "model-a − Image") in pairs
    assert ("model-a, 10-shot", "model-a, 5-shot") in pairs


def test_tables_of_a_partial_split_are_noted_and_mark_no_best() -> None:
    tables = {
        table.id: table
        for table in make_tables(results_of("vflute", metrics_of([Scored(), Scored(gold=0, label=0)], "m"), PUBLISHED))
    }
    assert (
        "Ours: 2 of 723 test rows; not comparable with the published full-set values." in tables["vflute_table4"].notes
    )
    assert tables["vflute_table4"].better == ()


def test_missing_number_has_a_note() -> None:
    metrics = metrics_of(whole_split(es=None), "m")
    table = next(
        table for table in make_tables(results_of("vflute", metrics, PUBLISHED)) if table.id == "vflute_table4"
    )
    cell = row_of(table, "m").cells[1]
    assert isinstance(cell, TableValue)
    assert (cell.value, "without BERTScore and BLEURT" in cell.note) == (None, True)
    assert {figure.id for figure in make_figures(results_of("vflute", metrics, PUBLISHED))} == {
        "vflute_figure8",
        "vflute_figure9",
    }


def test_report_without_our_rows_has_the_published_tables() -> None:
    empty = pd.DataFrame(columns=[*METRIC_KEYS, "note"])
    tables = make_tables(results_of("vflute", empty, PUBLISHED))
    assert [table.id for table in tables] == [name for name in IDS if name not in {"vflute_subsets", "vflute_reading"}]
    assert make_figures(results_of("vflute", empty, PUBLISHED)) == []


def test_report_has_all_figures_in_order(figures: dict[str, Figure]) -> None:
    assert list(figures) == [
        "vflute_figure6", "vflute_figure8", "vflute_figure9", "vflute_figure11a_haivmet",
        "vflute_figure11a_irfl-metaphor-simile", "vflute_figure11b_memecap", "vflute_figure11b_nycartoons",
        "vflute_figure11c_irfl-idiom", "vflute_figure11c_muse",
    ]  # fmt: skip


def test_figure_6_shows_the_drop_by_subset(figures: dict[str, Figure], ours: pd.DataFrame) -> None:
    figure = figures["vflute_figure6"]
    assert isinstance(figure, Bars)
    assert figure.categories == ("HAIVMET", "IRFL (metaphor/simile)", "MemeCap", "NYCartoons", "MuSE", "IRFL (idiom)")
    drop = ours[
        ours.metric.eq("percent_drop")
        & ours.subset.eq("MuSE")
        & ours.setting.eq("zero-shot")
        & ours.model.eq("model-a")
    ]
    assert figure.series[0].values[4] == drop["value"].item()
    assert len(figure.series) == 10


def test_figure_8_counts_captions(figures: dict[str, Figure]) -> None:
    figure = figures["vflute_figure8"]
    assert isinstance(figure, Bars)
    assert sum(value or 0 for series in figure.series for value in series.values) == 723
    assert {series.label for series in figure.series} == {"HAIVMET", "IRFL", "MuSE", "MemeCap", "NYCartoons"}
    assert figure.categories[0] == "0"
    assert figure.categories[-1] == "220+"


def test_figure_11_fills_the_thresholds_between_changes(figures: dict[str, Figure]) -> None:
    figure = figures["vflute_figure11b_memecap"]
    assert isinstance(figure, Lines)
    assert (figure.x[0], figure.x[-1], len(figure.x)) == (0.4, 1.0, 61)
    rows = [row for row in sweep() if row.subset == "MemeCap" and row.setting == "zero-shot"]
    gold, labels, scores = [row.gold for row in rows], [row.label for row in rows], [row.es or 0 for row in rows]
    for index, k in enumerate(range(40, 101)):
        assert figure.series[0].values[index] == pytest.approx(f1_at_k(gold, labels, scores, k))


def test_tests_against_people_are_in_the_table_of_significance() -> None:
    metrics = [
        Metric(task="entailment", setting="5-shot", metric=name, value=value, n=21)
        for name, value in (("p_ann_is_better", 0.0123), ("p_is_better", 0.5), ("accuracy", 0.5))
    ]
    table = next(t for t in make_tables(Results.of("vflute", {"m": metrics}, ())) if t.id == "vflute_significance")
    people = [row for row in table.rows if row.label.startswith("Person")]
    assert [(row.label, row.cells, row.origin) for row in people] == [
        ("Person ann", ("m, 5-shot", "0.0123", 21), "human")
    ]

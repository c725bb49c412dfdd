"""UNPIE's tables and figures: the paper's layout, ours next to the published, notes on gaps and misprints."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import pytest

from pipelines.benchmarks.figures import PUBLISHED_ALONE, Bars, Points
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from pipelines.schemas import METRIC_KEYS
from tests.support.published_frames import published
from tests.support.report_results import results_of
from tests.support.unpie_rows import cell, judged, reduced, samples, similar

PUBLISHED = published("unpie")
FEW = samples(3)
STATIC = (
    "unpie_table1", "unpie_table2", "unpie_table2_ordering", "unpie_table3", "unpie_table7", "unpie_table8",
    "unpie_table9", "unpie_human_validity",
)  # fmt: skip


def sweep(of: Mapping[str, Sample] = FEW, *, lost: int = 0) -> list[Metric]:
    """Reduce all cells; the first `lost` puns of each kind have no pictures."""

    def pictured(pun: Sample, setting: str) -> bool:
        return setting == "lm" or int(pun.sample_id[-4:]) >= lost

    def say(setting: str, how: Mapping[str, Any]) -> Any:
        return lambda pun, _: how if pictured(pun, setting) else {"status": "excluded", "output": None}

    rows: list[dict[str, Any]] = []
    for setting in ("lm", "sm", "vlm"):
        rows += cell(of, "grounding", setting, say(setting, {"output": "bread" if setting == "lm" else "kneaded"}))
        rows += cell(
            of, "reconstruction", setting, say(setting, {"output": "A pun.", "verdict": judged(setting != "lm")})
        )
        if setting != "lm":
            rows += cell(of, "disambiguation", setting, say(setting, similar(0.91, 0.89)))
    return reduced(rows, of)


def frame(metrics: Sequence[Metric], *models: str, full: bool = False) -> pd.DataFrame:
    """Return metric rows of models; with `full` as of the whole data set."""
    rows = [{"benchmark": "unpie", "model": model, **asdict(metric)} for model in models for metric in metrics]
    table = pd.DataFrame(rows)
    if full:
        table.loc[table["metric"] == "coverage", "n"] = 6000
    return table


@pytest.fixture(scope="module")
def ours() -> pd.DataFrame:
    return frame(sweep(), "model-a", "model-b", full=True)


@pytest.fixture(scope="module")
def tables(ours: pd.DataFrame) -> dict[str, Table]:
    return {table.id: table for table in BENCHMARK.tables(results_of("unpie", ours, PUBLISHED))}


def blocks(table: Table) -> dict[str, list[TableRow]]:
    rows_by_heading: dict[str, list[TableRow]] = {}
    heading = ""
    for row in table.rows:
        heading = row.label if row.origin == "heading" else heading
        if row.origin != "heading":
            rows_by_heading.setdefault(heading, []).append(row)
    return rows_by_heading


def row_of(table: Table, label: str, block: str = "", kind: str = "") -> TableRow:
    (row,) = (row for row in blocks(table)[block] if row.label == label and kind in ("", row.cells[0]))
    return row


def numbers(row: TableRow) -> list[Any]:
    return [cell.value if isinstance(cell, TableValue) else cell for cell in row.cells]


def test_make_tables_returns_tables_in_order(tables: dict[str, Table]) -> None:
    extra = ("unpie_strict", "unpie_translations", "unpie_reading")
    assert tuple(tables) == ("unpie_table4", "unpie_table5", "unpie_table6", *extra, *STATIC)


def test_table_4_shows_exact_match_with_deltas(tables: dict[str, Table]) -> None:
    table = tables["unpie_table4"]
    assert table.columns == ("Inputs", "Homo", "Hetero")
    assert {name: [row.label for row in rows] for name, rows in blocks(table).items()} == {
        "": ["Random"],
        "LM": ["Vicuna", "Qwen-VL", "LLaVA", "GPT-4", "model-a", "model-b"],
        "SM": ["Vicuna", "GPT-4", "model-a", "model-b"],
        "VLM": ["Qwen-VL", "LLaVA", "GPT-4", "model-a", "model-b"],
    }
    assert row_of(table, "Qwen-VL", "VLM").cells == (
        "V+L",
        TableValue(value=0.636, delta=0.198),
        TableValue(value=0.708, delta=0.13),
    )
    assert row_of(table, "model-a", "VLM").cells[1] == TableValue(value=1.0, delta=1.0)
    assert row_of(table, "model-a", "LM").cells == ("L", 0.0, 0.0)
    assert row_of(table, "Random").origin == "ours"
    assert row_of(table, "Random").baseline
    assert "takes no pictures" in row_of(table, "GPT-4", "VLM").note


def test_table_5_shows_accuracy_by_language_pair(tables: dict[str, Table]) -> None:
    table = tables["unpie_table5"]
    assert table.groups == (("", 1), ("En-De", 3), ("En-Fr", 3), ("En-Ko", 3))
    assert numbers(row_of(table, "Random")) == ["", *[0.5] * 9]
    assert numbers(row_of(table, "GPT-4", "SM"))[1:] == [0.682, 0.746, 0.714, 0.69, 0.768, 0.729, 0.654, 0.662, 0.658]
    assert "one picture a pun" in row_of(table, "GPT-4", "SM").note
    assert row_of(table, "model-a", "SM").note == ""
    assert numbers(row_of(table, "model-a", "VLM"))[1:] == [0.5] * 9
    assert (table.second, set(table.better[1:])) == ("table", {"higher"})


def test_table_5_keeps_rows_without_a_scorer_and_their_reason() -> None:
    metrics = frame(sweep(samples(12)), "model-a", full=True)
    metrics.loc[metrics["metric"] == "accuracy", ["value", "note"]] = [None, "no scorer gave it"]
    tables = {table.id: table for table in BENCHMARK.tables(results_of("unpie", metrics, PUBLISHED))}
    for block in ("SM", "VLM"):
        cells = row_of(tables["unpie_table5"], "model-a", block).cells[1:]
        assert cells == (TableValue(value=None, note="no scorer gave it"),) * 9


def test_table_6_shows_reconstruction_by_language_pair(tables: dict[str, Table]) -> None:
    table = tables["unpie_table6"]
    assert list(blocks(table)) == ["De-En", "Fr-En", "Ko-En"]
    gpt = row_of(table, "GPT-4", "De-En", "SM")
    assert numbers(gpt)[2:6] == [0.629, 0.198, 2.98, 6.55]
    assert isinstance(gpt.cells[4], TableValue)
    assert gpt.cells[4].doubtful
    assert "decimal point is lost" in gpt.cells[4].note
    mine = row_of(table, "model-a", "Fr-En", "VLM")
    assert numbers(mine)[:4] == ["VLM", "V+L", 1.0, 1.0]
    assert [head for head, better in zip(table.columns, table.better, strict=True) if better] == ["Change"] * 3
    assert any(note.startswith("Other judge") for note in table.notes)


@pytest.mark.parametrize("number", [4, 5, 6])
def test_tables_show_every_published_value(tables: dict[str, Table], number: int) -> None:
    shown = [
        value
        for row in tables[f"unpie_table{number}"].rows
        if row.origin == "published" or row.baseline
        for cell_of in row.cells
        for value in ((cell_of.value, cell_of.delta) if isinstance(cell_of, TableValue) else (cell_of,))
        if isinstance(value, float) and row.note[:8] != "one word"
    ]
    assert sorted(shown) == sorted(PUBLISHED.loc[PUBLISHED["table"] == f"Table {number}", "value"])


@pytest.mark.parametrize("number", ["3", "7"])
def test_tables_3_and_7_show_every_published_value(tables: dict[str, Table], number: str) -> None:
    shown = [value for row in tables[f"unpie_table{number}"].rows for value in numbers(row)]
    assert sorted(shown) == sorted(PUBLISHED.loc[PUBLISHED["table"] == f"Table {number}", "value"])


def test_published_tables_have_no_empty_cell(tables: dict[str, Table]) -> None:
    for name in STATIC:
        assert tables[name].rows
        assert all(cell_of is not None for row in tables[name].rows for cell_of in row.cells), name


def test_meteor_without_wordnet_is_noted() -> None:
    metric = Metric(
        task="reconstruction", setting="vlm", subset="Fr-En", category="Homo", metric="meteor_nowordnet", value=0.5, n=3
    )
    tables = {table.id: table for table in BENCHMARK.tables(Results.of("unpie", {"m": [metric]}, ()))}
    (row,) = (row for row in tables["unpie_table6"].rows if row.label == "m")
    assert row.cells[5] == TableValue(value=0.5, note="METEOR without WordNet's synonyms")


def test_table_1_has_the_puns_of_the_sweep(tables: dict[str, Table]) -> None:
    row = row_of(tables["unpie_table1"], "UNPIE, puns of this sweep")
    assert row.cells == (len(FEW), 1.0, True)
    assert row_of(tables["unpie_table1"], "CoMMuTE").cells == (155, 1.0, False)
    alike = {
        name: replace(pun, data={**pun.data, "translation": [pun.data["translation"][0]] * 2}) if index else pun
        for index, (name, pun) in enumerate(FEW.items())
    }
    metrics = {metric.metric: metric for metric in sweep(alike)}
    assert (metrics["ambiguous"].value, metrics["puns"].value) == (pytest.approx(1 / len(FEW)), len(FEW))


def test_table_6_has_the_papers_order(tables: dict[str, Table]) -> None:
    rows = [(row.cells[0], row.label) for row in tables["unpie_table6"].rows[1:] if row.origin == "published"][:10]
    assert rows == [
        ("LM", "Vicuna"), ("LM", "GPT-4"), ("LM", "Qwen-VL"), ("LM", "LLaVA"), ("SM", "Vicuna"), ("SM", "GPT-4"),
        ("VLM", "Qwen-VL"), ("VLM", "LLaVA"), ("VLM", "GPT-4"), ("VLM", "LLaVA-MMT"),
    ]  # fmt: skip


def test_low_coverage_rows_are_apart_from_published_values() -> None:
    of = samples(50)
    metrics = frame([*sweep(of, lost=2)], "model-a", full=True)
    tables = {table.id: table for table in BENCHMARK.tables(results_of("unpie", metrics, PUBLISHED))}
    for number in (4, 5, 6):
        low_coverage = tables[f"unpie_table{number}_low_coverage"]
        assert {row.origin for row in low_coverage.rows} == {"heading", "ours"}
        labels = [row.label for row in tables[f"unpie_table{number}"].rows if row.origin == "ours" and not row.baseline]
        assert labels == ([] if number == 5 else ["model-a"] * (1 if number == 4 else 3))
    whole = {
        table.id: table
        for table in BENCHMARK.tables(results_of("unpie", frame(sweep(of), "model-a", full=True), PUBLISHED))
    }
    assert not [name for name in whole if name.endswith("low_coverage")]


def test_subset_has_a_note_and_no_best_values() -> None:
    tables = {table.id: table for table in BENCHMARK.tables(results_of("unpie", frame(sweep(), "model-a"), PUBLISHED))}
    for number, size in ((4, "6 of 1,000"), (5, "36 of 6,000"), (6, "36 of 6,000")):
        table = tables[f"unpie_table{number}"]
        assert any(note.startswith(f"subset: {size} requests; not comparable") for note in table.notes)
        assert not any(table.better)


def test_make_figures_draws_inputs_margins_and_kinds(ours: pd.DataFrame) -> None:
    figures = {figure.id: figure for figure in BENCHMARK.figures(results_of("unpie", ours, PUBLISHED))}
    pairs = [f"disambiguation_en_{x}" for x in ("de", "fr", "ko")] + [
        f"reconstruction_{x}_en" for x in ("de", "fr", "ko")
    ]
    assert set(figures) == {
        "unpie_inputs_grounding",
        *(f"unpie_inputs_{name}" for name in pairs),
        "unpie_margins_sm",
        "unpie_margins_vlm",
        *(f"unpie_kinds_{task}" for task in BENCHMARK.tasks),
    }
    bars = figures["unpie_inputs_grounding"]
    assert isinstance(bars, Bars)
    assert [(series.label, series.values) for series in bars.series] == [
        ("LM", (0.0, 0.0)),
        ("SM", (1.0, 1.0)),
        ("VLM", (1.0, 1.0)),
    ]
    margins = figures["unpie_margins_vlm"]
    assert isinstance(margins, Bars)
    assert sum(margins.series[0].values) == 36  # type: ignore[arg-type]
    points = figures["unpie_kinds_disambiguation"]
    assert isinstance(points, Points)
    assert [(cloud.label, cloud.origin, len(cloud.points)) for cloud in points.clouds] == [
        ("SM", "ours", 6),
        ("VLM", "ours", 6),
        ("SM", "published", 6),
        ("VLM", "published", 9),
    ]


def test_make_tables_without_our_rows_shows_the_paper() -> None:
    nothing = pd.DataFrame(columns=[*METRIC_KEYS, "note"])
    figures = {figure.id: figure for figure in BENCHMARK.figures(results_of("unpie", nothing, PUBLISHED))}
    pairs = [f"disambiguation_en_{x}" for x in ("de", "fr", "ko")] + [
        f"reconstruction_{x}_en" for x in ("de", "fr", "ko")
    ]
    kinds = [f"unpie_kinds_{task}" for task in ("grounding", "disambiguation", "reconstruction")]
    assert list(figures) == [*(f"unpie_inputs_{pair}" for pair in pairs), *kinds]
    assert all(figure.notes == (PUBLISHED_ALONE,) for figure in figures.values())
    bars = figures["unpie_inputs_reconstruction_de_en"]
    assert isinstance(bars, Bars)
    assert {series.origin for series in bars.series} == {"published"}
    vlm = next(series for series in bars.series if series.label == "VLM")
    assert dict(zip(bars.categories, vlm.values, strict=True))["GPT-4"] == 0.579
    names = [table.id for table in BENCHMARK.tables(results_of("unpie", nothing, PUBLISHED))]
    assert names == ["unpie_table4", "unpie_table5", "unpie_table6", *STATIC]

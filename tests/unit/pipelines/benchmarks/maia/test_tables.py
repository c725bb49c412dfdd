"""MAIA's tables and figures: the paper's layout, ours next to the published, notes on gaps and misprints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Radar
from pipelines.benchmarks.maia.metrics import reduce_scores
from pipelines.benchmarks.maia.tables import make_figures, make_tables
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.schemas import METRIC_KEYS
from tests.support.interval_oracle import share_ends
from tests.support.maia_rows import Question, every_column, frame, metric_of, reduced, samples
from tests.support.published_frames import published
from tests.support.report_results import results_of

PUBLISHED = published("maia")
SETTINGS = ("black-video", "1-frame", "32-frames")
HEADS = (
    "Avg.", "Causal", "Counterfactual", "Out-of-Scope", "Planning", "Sentiment", "Uncertainty", "Implicit Partial",
    "Implicit Total", "Spatial Partial", "Spatial Total", "Temporal Duration", "Temporal Partial",
)  # fmt: skip
VLMS = [
    "InternVL2 8B",
    "InternVL3 78B",
    "Llava-Next-Video 7B",
    "Llava-oneVision 7B",
    "Qwen-2.5-VL 7B",
    "Qwen-2.5-VL 72B",
]


def metrics_of(scripted: Sequence[Question], *models: str) -> pd.DataFrame:
    reduced = reduce_scores(frame(scripted), samples(scripted))
    return pd.DataFrame(
        [{"benchmark": "maia", "model": model, **asdict(metric)} for model in models for metric in reduced]
    )


def sweep(**how: Any) -> list[Question]:
    return [replace(question, setting=setting) for setting in SETTINGS for question in every_column(**how)]


@pytest.fixture(scope="module")
def ours() -> pd.DataFrame:
    return metrics_of(sweep(), "model-a", "model-b")


@pytest.fixture(scope="module")
def tables(ours: pd.DataFrame) -> dict[str, Table]:
    return {table.id: table for table in make_tables(results_of("maia", ours, PUBLISHED))}


def labels(table: Table) -> list[str]:
    return [row.label for row in table.rows]


def row_of(table: Table, label: str, block: str = "") -> TableRow:
    """Return the row of a label under a heading."""
    heading = ""
    for row in table.rows:
        heading = row.label if row.origin == "heading" else heading
        if row.label == label and block in ("", heading) and row.origin != "heading":
            return row
    raise LookupError(label)


def value(cell: object) -> object:
    return cell.value if isinstance(cell, TableValue) else cell


# ------------------------------------------------------------------------------------------------------------ tables


def test_make_tables_returns_tables_in_order(tables: dict[str, Table]) -> None:
    assert list(tables) == [
        *(f"maia_table{number}" for number in range(1, 6)),
        "maia_deltas",
        "maia_category_deltas",
        "maia_reading",
        "maia_pools",
        "maia_contingency",
    ]


@pytest.mark.parametrize("number", [1, 5])
def test_tables_1_and_5_have_the_unimodal_row(tables: dict[str, Table], number: int) -> None:
    table = tables[f"maia_table{number}"]
    block = [*VLMS, "model-a", "model-b"]
    assert labels(table) == ["Unimodal", "Black video", *block, "1-Frame", *block, "32-Frames", *block]
    assert table.columns == HEADS
    assert {row.origin for row in table.rows if row.label in VLMS} == {"published"}
    assert {row.origin for row in table.rows if row.label.startswith("model")} == {"ours"}


def test_tables_2_and_3_have_no_unimodal_row(tables: dict[str, Table]) -> None:
    block = [*VLMS, "model-a", "model-b"]
    assert labels(tables["maia_table2"]) == ["Black video", *block, "1-Frame", *block, "32-Frames", *block]
    block = ["Qwen-2.5-VL 72B", "model-a", "model-b"]
    assert labels(tables["maia_table3"]) == ["Black video", *block, "1-Frame", *block, "32-Frames", *block]


def test_misprints_are_marked_as_doubtful(tables: dict[str, Table]) -> None:
    marked = {
        (table.id, row.label, HEADS[index], value(cell))
        for table in tables.values()
        if table.id in ("maia_table1", "maia_table2", "maia_table3", "maia_table5")
        for row in table.rows
        for index, cell in enumerate(row.cells)
        if isinstance(cell, TableValue) and cell.doubtful and cell.note
    }
    last = HEADS[9:]
    assert marked == {
        *(("maia_table2", "InternVL3 78B", *pair) for pair in zip(last, (0.5, 0.54, 0.49, 0.62), strict=True)),
        *(("maia_table5", "InternVL3 78B", *pair) for pair in zip(last, (0.67, 0.71, 0.79, 0.82), strict=True)),
        *(("maia_table5", "Qwen-2.5-VL 7B", *pair) for pair in zip(HEADS[6:9], (0.7, 0.82, 0.96), strict=True)),
        ("maia_table2", "InternVL3 78B", "Avg.", 0.77),
        ("maia_table5", "InternVL3 78B", "Avg.", 0.64),
    }


def test_our_rows_have_the_interval_in_the_average(tables: dict[str, Table]) -> None:
    cells = row_of(tables["maia_table1"], "model-a", "1-Frame").cells
    low, high = share_ends([1.0] * 24, [1, 2] * 12)
    assert cells == (TableValue(value=1.0, low=pytest.approx(low), high=pytest.approx(high)), *[1.0] * 12)


def test_notes_name_the_subset(tables: dict[str, Table]) -> None:
    subset = "subset: 24 of 2,400 questions; not comparable with the published full-set values"
    for number in (1, 2, 3, 5):
        assert "Human accuracy: not published." in tables[f"maia_table{number}"].notes
    for name in ("maia_table1", "maia_table4", "maia_deltas"):
        assert subset in tables[name].notes
    # A subset has no best value.
    assert tables["maia_table1"].better == ()


def test_full_set_has_best_values_and_no_subset_note() -> None:
    rows = metrics_of(every_column(), "model-a")
    rows["n"] *= 100
    table = make_tables(results_of("maia", rows, PUBLISHED))[0]
    assert not [note for note in table.notes if note.startswith("subset")]
    assert set(table.better) == {"higher"}


def test_table_4_compares_open_answers(tables: dict[str, Table]) -> None:
    table = tables["maia_table4"]
    assert table.columns == ("ROUGE", "BERTScore", "BLEU", "METEOR", "CIDEr")
    published = [*PUBLISHED[PUBLISHED["table"] == "Table 4"]["model"].unique()]
    scripts, variants = "As the authors' scripts compute them", "Variants of our own"
    assert labels(table) == [*published, scripts, "model-a", "model-b", variants, "model-a", "model-b"]
    assert row_of(table, "InternVL2").cells == (0.61, 0.84, 0.38, 0.59, 1.18)
    rouge, bertscore, *_ = row_of(table, "model-a", variants).cells
    assert (rouge, bertscore) == (0.5, TableValue(value=None, note="no scorer gave it"))
    assert "Published: input setting not printed, 32 frames assumed." in table.notes


def test_published_deltas_agree_with_the_papers_text(tables: dict[str, Table]) -> None:
    table = tables["maia_deltas"]
    means = [value(cell) for cell in row_of(table, "Mean, published").cells]
    assert means[4:] == pytest.approx([0.205, 0.215, 0.265], abs=5e-10)
    shown = [value(cell) for cell in row_of(table, "Qwen-2.5-VL 72B").cells]
    assert shown == pytest.approx([0.14, 0.47, 0.39, 0.34, 0.16, 0.30, 0.27])
    doubtful = row_of(table, "InternVL3 78B").cells
    assert [index for index, cell in enumerate(doubtful) if isinstance(cell, TableValue) and cell.doubtful] == [3, 6]
    assert "Fleiss' kappa of the judge and human raters, published: 0.82." in table.notes


def test_published_delta_is_empty_without_both_values() -> None:
    tables = make_tables(results_of("maia", metrics_of(sweep(), "a"), PUBLISHED[PUBLISHED["table"] != "Table 2"]))
    cells = row_of({table.id: table for table in tables}["maia_deltas"], "InternVL2 8B").cells
    assert cells[4:] == (None, None, None)
    assert None not in cells[:4]


def test_our_deltas_have_paired_intervals() -> None:
    scripted = [
        replace(question, pairs="T" * 8 if index % 5 else "TTTTFFFF", judged="rejected" if index % 4 else "accepted")
        for index, question in enumerate(sweep(videos=3))
    ]
    table = {t.id: t for t in make_tables(results_of("maia", metrics_of(scripted, "a", "b"), PUBLISHED))}["maia_deltas"]
    cells = row_of(table, "a").cells
    assert len(cells) == 7
    for cell in cells:
        assert isinstance(cell, TableValue)
        assert cell.low is not None
        assert cell.high is not None
        assert cell.value is not None
        assert cell.low <= cell.value <= cell.high
        assert cell.n is None
    assert [value(cell) for cell in row_of(table, "Mean, ours").cells] == [value(cell) for cell in cells]


def test_reading_pools_and_contingency_tables_count_questions(tables: dict[str, Table]) -> None:
    reading = row_of(tables["maia_reading"], "model-a", "Black video")
    assert reading.cells == (0.0, 1.0, 1.0, None, None, 0, 0, 0, 0, 0, 0, 0)
    assert [type(cell) for cell in reading.cells[5:]] == [int] * 7
    assert row_of(tables["maia_pools"], "model-b", "32-Frames").cells == (0,) * 8 + (24,)
    contingency = tables["maia_contingency"]
    assert labels(contingency)[:3] == ["model-a, Black video", "All", "Causal"]
    assert row_of(contingency, "All", "model-b, 1-Frame").cells == (24, 0, 0, 0)
    assert row_of(contingency, "Temporal Partial", "model-b, 1-Frame").cells == (2, 0, 0, 0)


def test_missing_values_carry_their_reason() -> None:
    scripted = sweep(judged="absent")
    scripted[0] = replace(scripted[0], pairs="MTTTTTTT")
    tables = {table.id: table for table in make_tables(results_of("maia", metrics_of(scripted, "model-a"), PUBLISHED))}
    row = row_of(tables["maia_table1"], "model-a", "Black video")
    assert (set(row.cells), row.note) == ({None}, "1 request was never run")
    assert row_of(tables["maia_table2"], "model-a", "32-Frames").note == "no judge: give one with --judge"
    assert row_of(tables["maia_contingency"], "All", "model-a, 32-Frames").cells[0] == TableValue(
        value=None, note="no judge: give one with --judge"
    )
    assert row_of(tables["maia_pools"], "model-a", "Black video").cells[0] == TableValue(
        value=None, note="1 request was never run"
    )


def test_reading_table_lists_contradictory_pools() -> None:
    scripted = every_column(videos=1)
    samples_by_id = samples(scripted)
    sample = samples_by_id[scripted[0].sample_id]
    samples_by_id[sample.sample_id] = replace(sample, data={**sample.data, "false": ["vera 0"] * 8})
    rows = pd.DataFrame(
        [
            {"benchmark": "maia", "model": "m", **asdict(metric)}
            for metric in reduce_scores(frame(scripted), samples_by_id)
        ]
    )
    table = {t.id: t for t in make_tables(results_of("maia", rows, PUBLISHED))}["maia_reading"]
    assert table.notes[-1] == "Contradictory pools, kept: a false statement is also a true one: video0/Causal_A."


def test_unimodal_rows_come_first() -> None:
    rows = metrics_of(every_column(setting="unimodal", judged=""), "five-models")
    tables = {table.id: table for table in make_tables(results_of("maia", rows, PUBLISHED))}
    assert labels(tables["maia_table1"])[:3] == ["Unimodal", "five-models", "Black video"]
    assert "five-models" not in labels(tables["maia_table2"])
    assert labels(tables["maia_pools"]) == ["Unimodal", "five-models"]


def test_make_tables_without_our_rows_shows_the_paper() -> None:
    tables = make_tables(results_of("maia", pd.DataFrame(columns=[*METRIC_KEYS, "note"]), PUBLISHED))
    assert [table.id for table in tables] == [f"maia_table{number}" for number in range(1, 6)]
    assert {row.origin for table in tables for row in table.rows} == {"published", "heading"}


# ----------------------------------------------------------------------------------------------------------- figures


def figures_of(rows: pd.DataFrame) -> dict[str, Radar]:
    figures = make_figures(results_of("maia", rows, PUBLISHED))
    assert all(isinstance(figure, Radar) for figure in figures)
    return {figure.id: figure for figure in figures if isinstance(figure, Radar)}


def test_make_figures_draws_the_papers_figures() -> None:
    figures = figures_of(pd.DataFrame(columns=list(METRIC_KEYS)))
    others = ("internvl2-8b", "internvl3-78b", "llava-next-video-7b", "llava-onevision-7b", "qwen-2-5-vl-7b")
    assert list(figures) == [
        *(f"maia_figure3{part}" for part in "abc"),
        *(f"maia_figure{number}_{name}" for number in (6, 7, 8) for name in others),
    ]
    pool = figures["maia_figure3b"]
    assert pool.axes == HEADS[1:]
    assert [series.label for series in pool.series] == ["Black video", "1-Frame", "32-Frames"]
    assert pool.series[2].values[:2] == (0.67, 0.41)
    assert {series.origin for series in pool.series} == {"published"}
    assert len(figures["maia_figure8_internvl3-78b"].notes) == 4


def test_make_figures_draws_our_models_first(ours: pd.DataFrame) -> None:
    figures = figures_of(ours)
    radars = [name for name in figures if "radar" in name]
    assert radars == [f"maia_radar_{kind}_model-{m}" for kind in ("statement", "pool", "oevqa") for m in "ab"]
    assert figures[radars[0]].series[0].values == (1.0,) * 12
    assert figures[radars[0]].notes[-1].startswith("subset: 24 of 2,400")


def test_radar_is_absent_without_values_and_keeps_gaps() -> None:
    scripted = sweep(judged="absent")
    scripted[0] = replace(scripted[0], pairs="MTTTTTTT")
    figures = figures_of(metrics_of(scripted, "m"))
    assert [name for name in figures if "radar" in name] == ["maia_radar_statement_m", "maia_radar_pool_m"]
    assert figures["maia_radar_pool_m"].series[0].values == (None,) * 12
    assert figures["maia_radar_pool_m"].series[1].values == (1.0,) * 12


def test_each_model_has_a_unique_figure_id() -> None:
    models = ("Org/Model 7B", "org-model-7b", "模型", "x" * 90, "x" * 91, "-")
    figures = figures_of(metrics_of(every_column(videos=1), *models))
    assert len([name for name in figures if name.startswith("maia_radar_pool_")]) == len(models)


# ------------------------------------------------------------------------------------------------------------ render


CAUSAL = Question(pairs="TTTTTTTT", judged="accepted", category="Causal", video="video1", name="CausaleEsplicita_A")
SENTIMENT = Question(pairs="TTTTTTFF", judged="rejected", category="Sentiment", video="video2", name="Sentiment_A")
SINGLE = (replace(CAUSAL, setting="1-frame", pairs="TTTTFFFF"), replace(SENTIMENT, setting="1-frame", pairs="TTTTTTTT"))
BLACK = tuple(replace(q, setting="black-video", pairs="FFFFFFFF", judged="rejected") for q in (CAUSAL, SENTIMENT))


def test_gains_are_paired_by_question_and_category() -> None:
    metrics = reduced([CAUSAL, SENTIMENT, *SINGLE, *BLACK])
    expected = {
        # Statements: 8/8 and 6/8 at 32 frames, 4/8 and 8/8 at one, none on black.
        ("statement_gain_over_1_frame", ""): 0.125,
        ("statement_gain_over_1_frame", "Causal"): 0.5,
        ("statement_gain_over_1_frame", "Sentiment"): -0.25,
        ("statement_gain_over_black_video", ""): 0.875,
        # Pools: 1 and 0, against 0 and 1, and 0 and 0.
        ("pool_gain_over_1_frame", ""): 0.0,
        ("pool_gain_over_1_frame", "Causal"): 1.0,
        ("pool_gain_over_1_frame", "Sentiment"): -1.0,
        ("pool_gain_over_black_video", ""): 0.5,
        # Open answers: accepted and rejected, the same at one frame, none on black.
        ("oevqa_gain_over_1_frame", ""): 0.0,
        ("oevqa_gain_over_black_video", "Causal"): 1.0,
        ("oevqa_gain_over_black_video", "Sentiment"): 0.0,
    }
    actual = {key: metric_of(metrics, *key) for key in expected}
    assert {key: metric.value for key, metric in actual.items()} == expected
    whole = actual["pool_gain_over_1_frame", ""]
    assert (whole.ci_low, whole.ci_high, whole.n) == (-1.0, 1.0, 2)
    frame = pd.DataFrame(
        [{name: getattr(metric, name, "") for name in METRIC_KEYS} | {"model": "m"} for metric in metrics]
    ).assign(benchmark="maia")
    (table,) = (table for table in make_tables(results_of("maia", frame)) if table.id == "maia_category_deltas")
    headings = [row.label for row in table.rows if row.origin == "heading"]
    assert headings[0] == "Statement accuracy: 32-Frames \N{MINUS SIGN} 1-Frame"
    assert len(headings) == 6
    first = table.rows[1]
    assert first.label == "m"
    assert [cell.value for cell in first.cells[:2]] == [0.125, 0.5]  # type: ignore[union-attr]


def test_gains_need_the_same_questions_and_all_verdicts() -> None:
    metrics = reduced([CAUSAL, SENTIMENT, *SINGLE[:1], *(replace(q, judged="absent") for q in BLACK)])
    names = {metric.metric for metric in metrics}
    assert not {name for name in names if name.endswith("gain_over_1_frame")}
    unjudged = metric_of(metrics, "oevqa_gain_over_black_video")
    assert (unjudged.value, unjudged.note) == (None, "not every answer has a verdict")

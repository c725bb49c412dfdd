"""VAGUE's tables and figures: the paper's numbers as printed, ours beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Bars, Radar
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.schemas import METRIC_KEYS
from tests.support.published_frames import dataset_facts, published
from tests.support.report_results import results_of
from tests.support.vague_rows import items, perfect, reduced

PRINTED = published("vague")
IDS = [
    "vague_table1",
    "vague_table2",
    "vague_table3",
    "vague_tableh3",
    "vague_tableh4",
    "vague_tableb1",
    "vague_tableb2",
]
OWN = ["vague_reading", "vague_letters", "vague_rating", "vague_freeform"]


def metrics_of(*models: tuple[str, Sequence[Metric]]) -> pd.DataFrame:
    rows = [{"benchmark": "vague", "model": name, **asdict(metric)} for name, metrics in models for metric in metrics]
    frame = pd.DataFrame(rows, columns=[*METRIC_KEYS, "note"])
    for name in ("value", "ci_low", "ci_high"):
        frame[name] = frame[name].astype("float64")
    return frame


NOTHING = metrics_of()


def tables(frame: pd.DataFrame) -> dict[str, Table]:
    return {table.id: table for table in BENCHMARK.tables(results_of("vague", frame, PRINTED))}


def number(cell: TableCell) -> Any:
    return cell.value if isinstance(cell, TableValue) else cell


def row_of(table: Table, label: str, under: str = "") -> TableRow:
    heading = ""
    for row in table.rows:
        heading = row.label if row.origin == "heading" else heading
        if row.label == label and row.origin != "heading" and heading == under:
            return row
    raise AssertionError(f"{table.id} has no row {label!r} under {under!r}")


def shaky(sample: Sample, task: str, setting: str) -> str:
    """Answer correctly, but superficially every fourth time and emptily every tenth."""
    number = int(sample.sample_id.rpartition("-")[2])
    if number % 10 == 0:
        return "I don't know."
    if number % 4 == 1 and task == "mcq" and setting != "vlm":
        return str(sample.data["ordering"][2])
    return perfect(sample, task, setting)


@pytest.fixture(scope="module")
def small() -> dict[str, Table]:
    return tables(metrics_of(("ours", reduced(items(20, 10, human=12, name="human-400-approx"), shaky))))


@pytest.fixture(scope="module")
def listed() -> dict[str, Table]:
    return tables(metrics_of(("ours", reduced(items(20, 10, human=12), shaky))))


def test_report_without_our_rows_has_the_papers_tables_and_figures() -> None:
    by_id = tables(NOTHING)
    assert list(by_id) == IDS
    assert not [row for table in by_id.values() for row in table.rows if row.origin == "ours"]
    figures = BENCHMARK.figures(results_of("vague", NOTHING, PRINTED))
    assert len(figures) == 10
    assert {figure.id.rpartition("_")[0] for figure in figures} == {"vague_figure4"}


def test_table_1_equals_the_paper_and_notes_misprints() -> None:
    table = tables(NOTHING)["vague_table1"]
    row = row_of(table, "Phi3.5-Vision-Instruct (4B)")
    assert [number(cell) for cell in row.cells] == [0.266, 0.353, 0.46, 0.225, 0.311, 0.424]
    assert [cell.delta for cell in row.cells if isinstance(cell, TableValue)] == [0.087, 0.194, 0.086, 0.199]
    misprint = row_of(table, "Ovis2 (16B)").cells[2]
    assert isinstance(misprint, TableValue)
    assert misprint.note == "inconsistent: the printed accuracies differ by 2.6"
    assert not misprint.doubtful


def test_table_2_ascends_and_ends_with_the_human() -> None:
    table = tables(NOTHING)["vague_table2"]
    assert len(table.rows) == 11
    accuracies = [number(row.cells[0]) for row in table.rows]
    assert accuracies == sorted(accuracies)
    human = table.rows[-1]
    assert (human.label, [number(cell) for cell in human.cells]) == ("Human", [0.94, 12, 4, 8, 374, 2])
    assert "93.5" in " ".join(table.notes)


def test_table_3_counts_invalid_answers() -> None:
    table = tables(NOTHING)["vague_table3"]
    row = row_of(table, "VLM+CoT", "GPT-4o")
    # 115 answers of VCR and 46 of Ego4D were lost.
    assert [number(cell) for cell in row.cells] == [0.664, 162, 156, 85, 161]
    assert isinstance(row.cells[0], TableValue)
    assert row.cells[0].delta == 0.018
    assert row_of(table, "SM", "Gemini-1.5-Pro").cells == (0.618, 176, 374, 83, 7)


def test_tables_h_hold_both_tasks_and_mark_doubtful_values() -> None:
    table = tables(NOTHING)["vague_tableh3"]
    row = row_of(table, "VLM+CoT", "GPT-4o")
    assert row.cells[5:7] == (1029, 115)
    assert all(isinstance(cell, TableValue) and cell.doubtful for cell in row.cells[7:9])
    outlier = row_of(table, "LM", "LLaVA-NeXT-vicuna (13B)").cells[7]
    assert isinstance(outlier, TableValue)
    assert (outlier.value, outlier.doubtful) == (0.594, True)
    assert "scorer settings unpublished" in " ".join(table.notes)
    order = [row.label for row in table.rows[:6]]
    assert order[0] not in ("VLM", "LM")
    assert [label for label in order[1:] if label in ("VLM", "SM", "LM")][:3] == ["VLM", "SM", "LM"]


def test_table_b2_has_the_papers_ten_models_and_pictures() -> None:
    table = tables(NOTHING)["vague_tableb2"]
    assert table.columns == ("(a) person 1 of 2", "(b) person 1 of 5", "(c) person 5 of 10")
    assert len(table.rows) == 10
    assert {row.cells for row in table.rows} == {("red", "red", "red")}
    assert {row.label for row in table.rows} >= {"GPT-4o", "Idefics2 (8B)", "Gemini-1.5-Pro"}


def test_table_b1_equals_the_dataset_facts() -> None:
    table = tables(NOTHING)["vague_tableb1"]
    facts = dict(dataset_facts("vague").set_index("key")["value"])
    names = ("avg_object_count", "avg_people_count", "avg_word_count_direct", "avg_word_count_indirect")
    expected = [float(facts[f"{name}_{subset}"]) for name in names for subset in ("vcr", "ego4d")]
    assert [row.cells for row in table.rows if row.origin == "published"] == [tuple(expected)]


def test_figure_4_sums_both_subsets() -> None:
    by_id = {figure.id: figure for figure in BENCHMARK.figures(results_of("vague", NOTHING, PRINTED))}
    for slug, expected in (("gpt-4o", (226, 226, 141)), ("qwen2-5-vl-instruct-7b", (190, 618, 76))):
        figure = by_id[f"vague_figure4_{slug}"]
        assert isinstance(figure, Bars)
        (vlm,) = (series for series in figure.series if series.label == "VLM")
        assert (vlm.values, vlm.origin) == (expected, "published")
        assert [series.label for series in figure.series] == ["LM", "SM", "VLM"]


def test_tables_put_our_rows_next_to_the_published(small: dict[str, Table]) -> None:
    assert list(small) == IDS + OWN
    row = row_of(small["vague_table1"], "ours")
    # Of 20 items two say nothing and five more are superficial without a picture; of the other 10 one and three.
    assert [number(cell) for cell in row.cells] == pytest.approx([0.65, 0.65, 0.9, 0.6, 0.6, 0.9])
    assert isinstance(row.cells[2], TableValue)
    assert row.cells[2].delta == pytest.approx(0.25)
    assert row_of(small["vague_table3"], "SM", "ours").cells[1:] == (0, 8, 0, 3)
    h3 = row_of(small["vague_tableh3"], "VLM", "ours")
    assert h3.cells[1:7] == (0, 0, 0, 18, 18, 2)
    assert isinstance(h3.cells[7], TableValue)
    assert h3.cells[7].note == "no BERTScore model could be used"
    b1 = row_of(small["vague_tableb1"], "Items of this sweep")
    assert b1.cells == (5.5, 5.5, 2.0, 2.0, 5.0, 5.0, 6.0, 6.0)
    assert any("incomplete: 20 of 1,144 items of VCR" in note for note in small["vague_table1"].notes)
    assert not small["vague_table1"].better


def test_approximate_human_items_are_kept_apart(small: dict[str, Table]) -> None:
    table = small["vague_table2"]
    assert row_of(table, "ours", "human-400-approx").origin == "ours"
    with pytest.raises(AssertionError):
        row_of(table, "ours")


def test_listed_human_items_join_the_published_rows(listed: dict[str, Table]) -> None:
    row = row_of(listed["vague_table2"], "ours")
    assert [number(cell) for cell in row.cells] == [pytest.approx(10 / 12), 0, 0, 0, 10, 2]


def test_extra_tables_show_parsing_letters_ratings_and_freeform(small: dict[str, Table]) -> None:
    row = row_of(small["vague_reading"], "ours", "VLM")
    by_head = dict(zip(small["vague_reading"].columns, row.cells, strict=True))
    assert (by_head["R1"], by_head["none"], by_head["Refusal"], by_head["Unparsed"]) == (27, 3, 3, 0)
    letters = small["vague_letters"]
    assert sum(number(cell) for row in letters.rows[1:5] for cell in row.cells) == 30
    assert small["vague_rating"].columns == ("3.5", "4")
    free = row_of(small["vague_freeform"], "ours", "VLM")
    assert free.cells[-4:] == (30, 0, 3, 3)


def test_our_figures_render_to_svg() -> None:
    frame = metrics_of(("ours", reduced(items(20, 10), shaky)), ("second", reduced(items(20, 10), perfect)))
    figures = {figure.id: figure for figure in BENCHMARK.figures(results_of("vague", frame, PRINTED))}
    assert {"vague_errors_ours", "vague_errors_second", "vague_figureb1_vcr", "vague_figureb1_ego4d"} <= set(figures)
    mine = figures["vague_errors_ours"]
    assert isinstance(mine, Bars)
    assert [series.values for series in mine.series] == [(0, 8, 0), (0, 8, 0), (0, 0, 0)]
    actions = figures["vague_figureb1_vcr"]
    assert isinstance(actions, Radar)
    assert (actions.axes, actions.maximum, mine.y_label) == (("close", "open", "wash"), 10.0, "items of 30")
    for figure in (mine, actions):
        assert to_svg_bytes(figure).startswith(b"<svg")


def test_action_figure_with_few_actions_has_bars() -> None:
    frame = metrics_of(("ours", reduced(items(2), perfect, cells=[("mcq", "vlm")])))
    figures = {figure.id: figure for figure in BENCHMARK.figures(results_of("vague", frame, PRINTED))}
    assert isinstance(figures["vague_figureb1_vcr"], Bars)
    assert "vague_figureb1_ego4d" not in figures

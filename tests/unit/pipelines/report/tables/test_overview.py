from __future__ import annotations

import math
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from models.message_codec import dump_steps
from models.messages import Generation, Media, Request, Step, user
from pipelines.benchmarks.figures import Bars, Lines, Points, Radar, Series
from pipelines.benchmarks.tables import Table, TableValue
from pipelines.predict.records import TaskCount
from pipelines.report.entry_results import EntryResults
from pipelines.report.metrics_file import Measured, MetricSource
from pipelines.report.model import BenchmarkSection, ReportData
from pipelines.report.tables.overview import (
    counts_table,
    figure_table,
    headline_table,
    notes_table,
    run_facts,
    run_tables,
)
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table
from pipelines.report.tables.token_efficiency import (
    PrefixTokens,
    cost_table,
    efficiency_table,
    measure_efficiency,
    media_key,
)
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store
from tests.support.measured import measured
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


def row(value: float | None, prompt_set: str = "", metric: str = "exact_match", **fields: Any) -> Measured:
    values = {
        "benchmark": "unpie", "model": "m", "task": "grounding", "setting": "lm", "metric": metric, "value": value,
        "n": 8, "source": MetricSource(prompt_set=prompt_set), **fields,
    }  # fmt: skip
    return measured(**values)


def results(metrics: list[Measured], by_set: list[Measured], *sets: str) -> EntryResults:
    return EntryResults(metrics=metrics, counts=[], answers=[], judge_failed=0, prompt_sets=sets, by_prompt_set=by_set)


def cells(reduced: EntryResults) -> list[list[object]]:
    table = prompt_set_table("unpie", [reduced])
    return [[cell.value if isinstance(cell, TableValue) else cell for cell in line.cells] for line in table.rows]


def test_mean_and_spread_are_over_the_sets_that_have_a_number() -> None:
    metrics = [row(4 / 8), row(1 / 8, metric="other"), row(1 / 8, category="Homo"), row(1 / 8, subset="En-De")]
    by_set = [row(2 / 8, "a"), row(7 / 8, "a", category="Homo"), row(6 / 8, "b")]
    (line,) = cells(results(metrics, by_set, "default", "a", "b"))
    # mean of 0.5, 0.25 and 0.75; squares of the differences: 0, 1/16 and 1/16, over 3 - 1
    expected = [0.5, 0.25, 0.75, 0.5, pytest.approx(sqrt(1 / 16)), 0.25, 0.75]
    assert line == ["grounding", "lm", "exact_match", *expected]
    assert cells(results([row(0.5)], [row(None, "a")], "default", "a")) == [
        ["grounding", "lm", "exact_match", 0.5, None, None, None, None, None]
    ]
    assert prompt_set_table("unpie", [results([row(0.5)], [])]) is None


def test_models_in_different_sets_share_the_columns() -> None:
    first = results([row(0.5)], [row(0.25, "a")], "default", "a")
    second = results([row(1.0, model="n")], [row(0.0, "default", model="n")], "b", "default")
    table = prompt_set_table("unpie", [first, second])
    assert table.columns[3:6] == ("default", "a", "b")
    values = [[getattr(cell, "value", None) for cell in line.cells[3:6]] for line in table.rows]
    assert values == [[0.5, 0.25, None], [0.0, None, 1.0]]


def test_captioners_have_a_column_each_with_counts() -> None:
    metrics = [row(4 / 8, setting="sm", ci_low=0.25, ci_high=0.75), row(1 / 8)]
    by_set = [row(2 / 8, source=MetricSource(captioner="b"), setting="sm", n=4, n_failed=1)]
    reduced = EntryResults(
        metrics=metrics, counts=[], answers=[], judge_failed=0, captioners=("a", "b"), by_prompt_set=by_set
    )
    table = captioner_table("unpie", [reduced])
    assert table.columns == ("Task", "Setting", "Metric", "a", "b")
    (line,) = table.rows  # of the setting whose prompts hold captions
    assert line.cells[:3] == ("grounding", "sm", "exact_match")
    first, other = line.cells[3:]
    assert first == TableValue(value=0.5, low=0.25, high=0.75, n=8, n_failed=0)
    assert other == TableValue(value=0.25, n=4, n_failed=1)
    assert prompt_set_table("unpie", [reduced]) is None


CLIP, OTHER = Media("video", "c", 32), Media("video", "c", 1)


def request(media: Media | None) -> Request:
    parts = (media, "words") if media else ("words",)
    return Request(request_id="r", steps=(Step(turns=(user(*parts),), generation=Generation()),))


def rows(part: str, *, head: int, least: list[int | None], cached: list[int]) -> list[dict[str, object]]:
    return [
        {"request_id": f"{part}{n}", "status": "ok", "input_tokens": 100, "cached_tokens": cached_tokens,
         "head_tokens": head, "least_tokens": least_tokens}
        for n, (least_tokens, cached_tokens) in enumerate(zip(least, cached, strict=True))
    ]  # fmt: skip


def test_clip_is_counted_once_over_all_parts(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    parts = {"a": rows("a", head=80, least=[20, 5], cached=[0, 80]), "b": rows("b", head=80, least=[20], cached=[80])}
    parts["c"] = rows("c", head=30, least=[70], cached=[0])
    for name, part_rows in parts.items():
        out.put(f"predictions/benchmark=maia/model=m/{name * 24}.parquet", to_parquet(part_rows, PREDICTIONS))
    out.put(
        "predictions/benchmark=maia/model=m/eeeeeeeeeeeeeeeeeeeeeeee.parquet",
        to_parquet([{"request_id": "a9", "status": "error"}, *rows("old", head=0, least=[9], cached=[0])], PREDICTIONS),
    )
    planned = dict.fromkeys(("a0", "a1", "b0", "a9"), media_key(dump_steps(request(CLIP).steps))) | {
        "c0": media_key(dump_steps(request(OTHER).steps))
    }
    portions = iter([planned, {}])  # which can be read once
    efficiency = measure_efficiency("maia", "m", out, lambda: portions)
    assert (efficiency.answers, efficiency.prompt_tokens, efficiency.computed_tokens) == (4, 400, 240)
    assert efficiency.least_tokens == (20 + 5 + 20 + 70) + 80 + 30


def test_prefixes_are_needed_once_and_paid_where_they_were_not_cached(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    parts = {
        "a": rows("a", head=0, least=[None] * 3, cached=[0, 64, 64]),
        "b": rows("b", head=0, least=[None], cached=[0]),
    }
    parts["b"][0]["input_tokens"] = 70
    parts["c"] = rows("c", head=0, least=[None], cached=[0])
    for name, part_rows in parts.items():
        out.put(f"predictions/benchmark=maia/model=m/{name * 24}.parquet", to_parquet(part_rows, PREDICTIONS))
    clip, other = (media_key(dump_steps(request(media).steps)) for media in (CLIP, OTHER))
    planned = {**dict.fromkeys(("a0", "a1", "a2", "b0"), clip), "c0": other}
    efficiency = measure_efficiency("maia", "m", out, lambda: [planned])
    assert efficiency.prefixes == PrefixTokens(needed=70 + 100, paid=4 * 70 - 128 + 100, cached=128)
    table = cost_table("maia", "MAIA", [efficiency])
    assert table.columns[-3:] == ("Prefix tokens needed", "Paid", "Cached")
    assert table.rows[0].cells == (5, 170, 252, 128)
    assert cost_table("maia", "MAIA", []) is None


def test_tables_lack_what_an_engine_does_not_report(tmp_path: Path) -> None:
    assert measure_efficiency("maia", "m", Store(str(tmp_path)), list) is None
    assert efficiency_table("maia", "MAIA", []) is None
    out = Store(str(tmp_path))
    part_rows = rows("a", head=0, least=[None], cached=[0])
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{"a0": ""}])
    assert efficiency.least_tokens is None
    table = efficiency_table("maia", "MAIA", [efficiency])
    assert table.rows[0].cells == (1, 100, 100, None, None, "1.000")


def test_media_key_depends_on_sampling() -> None:
    assert media_key(dump_steps(request(None).steps)) == ""
    assert len({media_key(dump_steps(request(media).steps)) for media in (CLIP, OTHER, None)}) == 3


def test_answers_that_saw_fewer_frames_than_asked_are_counted_in_a_note(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    part_rows = [
        {**row, "frames_used": frames}
        for row, frames in zip(rows("a", head=0, least=[None] * 5, cached=[0] * 5), [24, 24, 8, 32, None], strict=True)
    ]
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    key = media_key(dump_steps(request(CLIP).steps))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{f"a{n}": key} for n in range(5)])
    assert efficiency.fewer_frames == ((32, 24, 2), (32, 8, 1))
    table = efficiency_table("maia", "MAIA", [efficiency])
    assert table.notes[-1].endswith("m 24 of 32 frames in 2 answers; m 8 of 32 frames in 1 answers.")
    part_rows = [{**row, "frames_used": 32} for row in rows("a", head=0, least=[None], cached=[0])]
    out.put("predictions/benchmark=maia/model=m/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(part_rows, PREDICTIONS))
    efficiency = measure_efficiency("maia", "m", out, lambda: [{"a0": key}])
    assert efficiency.fewer_frames == ()
    assert len(efficiency_table("maia", "MAIA", [efficiency]).notes) == 1

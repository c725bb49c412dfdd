"""Outputs and published rows in one table: what is joined, ranked, refused and marked."""

from __future__ import annotations

import csv
import html
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.leaderboard.create import COLUMNS, join_outputs, leaderboard_csv, leaderboard_page, write_leaderboard
from jobs.leaderboard.rows import LeaderboardRow
from pipelines.benchmarks import benchmark
from pipelines.errors import StoreError, UsageError
from pipelines.storage.store import Store
from tests.support.item_simulation import simulated_ranges
from tests.support.leaderboard_output import entry, metric, write_output

BOARD = ("maia", "agg_acc", "aggregate", "32-frames", "")


def outputs(tmp_path: Path, *, sweep: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    """Write two outputs of one model each; the second's entry has `changes`."""
    first = write_output(str(tmp_path / "first"), [entry("m1")], [metric("m1", 0.4)], {"judge": "j"})
    sweep = {"judge": "j"} if sweep is None else sweep
    second = write_output(str(tmp_path / "second"), [entry("m2", **changes)], [metric("m2", 0.5)], sweep)
    return [first, second]


def on_board(rows: tuple[LeaderboardRow, ...]) -> list[tuple[str, str, int | None]]:
    return [(row.model, row.origin, row.rank) for row in rows if row.board == BOARD]


def test_measured_and_published_rows_stand_together_and_measured_ones_are_ranked(tmp_path: Path) -> None:
    joined = join_outputs(outputs(tmp_path))
    assert on_board(joined.rows) == [
        ("m2", "measured", 1),
        ("Qwen-2.5-VL 72B", "published", None),
        ("m1", "measured", 2),
    ]
    m1 = next(row for row in joined.rows if row.model == "m1")
    assert (m1.source, m1.revision, m1.n, m1.n_failed, m1.ci_low) == ("first", "0123456789abcdef", 48, 1, 0.2)
    assert {row.board for row in joined.rows} == {BOARD}  # no published row of a table that nothing was measured for
    assert joined.conflicts == ()


def test_equal_values_share_a_rank_and_a_missing_value_stands_last_without_one(tmp_path: Path) -> None:
    models = {"a": 0.5, "b": 0.5, "c": 0.1, "d": None}
    rows = [metric(model, value) for model, value in models.items()]
    out = write_output(str(tmp_path), [entry(model) for model in models], rows)
    ranks = [(model, rank) for model, origin, rank in on_board(join_outputs([out]).rows) if origin == "measured"]
    assert ranks == [("a", 1), ("b", 1), ("c", 3), ("d", None)]


def test_metrics_of_which_less_is_better_are_ranked_from_the_least(tmp_path: Path) -> None:
    target = {"benchmark_name": "mate"}
    group = {"benchmark": "mate", "task": "crossmodal", "setting": "2-shot", "metric": "ose", "unit": "percent"}
    entries = [replace(entry(model, **target), benchmark="mate") for model in ("a", "b")]
    out = write_output(str(tmp_path), entries, [metric("a", 40.0, **group), metric("b", 20.0, **group)])
    ranks = [(row.model, row.rank) for row in join_outputs([out]).rows if row.origin == "measured"]
    assert ranks == [("b", 1), ("a", 2)]


def test_categories_other_prompt_sets_and_unlisted_metrics_are_left_out(tmp_path: Path) -> None:
    rows = [
        metric("m1", 0.4), metric("m1", 0.3, category="Causal"), metric("m1", 0.2, subset="prompt:paper"),
        metric("m1", 0.1, metric="answer_length"),
    ]  # fmt: skip
    out = write_output(str(tmp_path), [entry("m1")], rows)
    assert [row.value for row in join_outputs([out]).rows if row.origin == "measured"] == [0.4]


VERSION = next(iter(benchmark("maia").prompt_texts))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset_fingerprint": "bbbb0000"}, "maia: data: aaaa0000aaaa in first (m1); bbbb0000 in second (m2)"),
        ({"wording": {VERSION: "Other words"}}, f"maia: prompt {VERSION}: "),
        ({"prompt_versions": {VERSION: "x"}}, f"prompt versions: the benchmark's in first (m1); {VERSION} x in second"),
        ({"limit": "1-5"}, "maia: samples: all samples in first (m1); --limit 1-5 in second (m2)"),
        ({"sample_ids": ("v1/A",)}, "samples: all samples in first (m1); --sample-id v1/A in second (m2)"),
        ({"seed": 7}, "maia: seed: 42 in first (m1); 7 in second (m2)"),
        ({"generation": {"temperature": 0.5}}, "the benchmark's in first (m1); temperature 0.5 in second (m2)"),
        ({"sweep": {"judge": "k"}}, "maia: judge: org/j in first (m1); org/k in second (m2)"),
    ],
)
def test_rows_not_measured_alike_are_refused_or_marked(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    uris = outputs(tmp_path, **changes)
    with pytest.raises(UsageError) as error:
        join_outputs(uris)
    assert message in str(error.value)
    assert "--allow-mixed" in str(error.value)
    joined = join_outputs(uris, allow_mixed=True)
    assert message in str(joined.conflicts[0])
    measured = [row for row in joined.rows if row.origin == "measured"]
    assert [row.rank for row in measured] == [None, None]
    kind = joined.conflicts[0].kind
    assert all(any(note.startswith(kind) for note in row.notes) for row in measured)


def test_guesses_are_the_baseline_of_models_with_settings_of_their_own(tmp_path: Path) -> None:
    guesses = entry("random", fingerprint={"engine": "random"})
    out = write_output(
        str(tmp_path),
        [entry("m1", generation={"max_new_tokens": 3}), guesses],
        [metric("m1", 0.4), metric("random", 0.1)],
    )
    ranks = {row.model: row.rank for row in join_outputs([out]).rows if row.origin == "measured"}
    assert ranks == {"m1": 1, "random": 2}


def test_custom_wording_of_one_model_is_not_that_of_others_in_the_same_output(tmp_path: Path) -> None:
    custom = entry("m2", wording={VERSION: "Other words"})  # the last run, whose wording `run.json` has
    out = write_output(str(tmp_path / "a"), [entry("m1"), custom], [metric("m1", 0.4), metric("m2", 0.5)])
    with pytest.raises(UsageError, match=f"prompt {VERSION}"):
        join_outputs([out])
    same = write_output(str(tmp_path / "b"), [entry("m1"), custom], [metric("m1", 0.4)])
    other = write_output(str(tmp_path / "c"), [entry("m3")], [metric("m3", 0.4)])
    assert join_outputs([same, other]).conflicts == ()


def test_conditions_that_a_table_does_not_rest_on_are_not_compared(tmp_path: Path) -> None:
    statements = {"metric": "statement_accuracy", "task": "vsv"}
    first = write_output(str(tmp_path / "1"), [entry("m1")], [metric("m1", 0.4, **statements)], {"judge": "j"})
    second = write_output(str(tmp_path / "2"), [entry("m2")], [metric("m2", 0.4, **statements)], {"judge": "k"})
    assert join_outputs([first, second]).conflicts == ()


def test_answers_made_elsewhere_and_limits_are_noted_without_a_conflict(tmp_path: Path) -> None:
    external = write_output(str(tmp_path / "1"), [entry("m1", external=True)], [metric("m1", 0.4)])
    limited = write_output(str(tmp_path / "2"), [entry("m2", limit="1-5")], [metric("m2", 0.5)])
    notes = {row.model: row.notes for row in join_outputs([external, limited]).rows if row.origin == "measured"}
    assert notes == {
        "m1": ("imported answers: prompts and settings are not known",),
        "m2": ("samples --limit 1-5",),
    }


def test_models_that_guess_have_no_rank(tmp_path: Path) -> None:
    rows = [metric("chance", 0.9), metric("m", 0.5)]
    out = write_output(str(tmp_path), [entry("chance"), entry("m")], rows, models={"chance": {"engine": "random"}})
    measured = [row for row in on_board(join_outputs([out]).rows) if row[1] != "published"]
    assert measured == [("chance", "baseline", None), ("m", "measured", 1)]


def test_people_of_an_output_have_no_rank(tmp_path: Path) -> None:
    rows = [metric("human:p1", 0.9), metric("m1", 0.4)]
    out = write_output(str(tmp_path), [entry("human:p1"), entry("m1")], rows)
    assert on_board(join_outputs([out]).rows)[0] == ("human:p1", "people", None)


def test_runs_of_a_baseline_are_one_row(tmp_path: Path) -> None:
    group = {"benchmark": "mate", "task": "img2txt", "setting": "2-shot", "metric": "exact_match"}
    runs = ["random run 0", "random run 1"]
    entries = [replace(entry(model, benchmark_name="mate"), benchmark="mate") for model in runs]
    rows = [metric(model, 0.2, **group) for model in (*runs, "random, mean of 2 runs")]
    out = write_output(str(tmp_path), entries, rows)
    measured = [row.model for row in join_outputs([out]).rows if row.origin == "measured"]
    assert measured == ["random, mean of 2 runs"]
    single = write_output(str(tmp_path / "one"), entries[:1], rows[:1])
    assert [row.model for row in join_outputs([single]).rows if row.origin == "measured"] == runs[:1]


def test_output_without_run_report_or_headline_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run\.json; is this the --out of a run"):
        join_outputs([str(tmp_path)])
    out = write_output(str(tmp_path / "a"), [entry("m1")], [metric("m1", 0.1, category="Causal")])
    with pytest.raises(UsageError, match="no headline metric"):
        join_outputs([out])
    Store(out).put("report/metrics.json", b"[{}]")
    with pytest.raises(StoreError, match="damaged"):
        join_outputs([out])
    Store(out).delete("report/metrics.json")
    with pytest.raises(UsageError, match="vlmsweep report"):
        join_outputs([out])


def test_csv_has_a_line_a_row_and_no_formula(tmp_path: Path) -> None:
    name = "=HYPERLINK(1)"
    out = write_output(str(tmp_path), [entry(name)], [metric(name, 0.25)])
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(join_outputs([out]).rows))))
    assert tuple(rows[0]) == COLUMNS
    row = next(row for row in rows if row["origin"] == "measured")
    assert (row["model"], row["value"], row["n"], row["rank"]) == (f"'{name}", "0.25", "48", "1")


def test_names_of_models_and_outputs_are_inert_on_the_page(tmp_path: Path) -> None:
    name = "</th><script>window.hacked = 1</script><img src=x onerror=alert(1)>"
    out = write_output(str(tmp_path / "<b>out"), [entry(name)], [metric(name, 0.25)])
    to = Store(str(tmp_path / "to"))
    assert write_leaderboard(join_outputs([out]), to) == [f"{to.uri}/leaderboard.html", f"{to.uri}/leaderboard.csv"]
    page = to.get("leaderboard.html").decode()
    assert page.count("<script>") == 1  # its own
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;window.hacked" in page
    assert "default-src 'none'" in html.unescape(page)
    assert "http://" not in page
    assert "https://" not in page


def ranges(rows: tuple[LeaderboardRow, ...]) -> dict[str, tuple[int | None, int | None, int | None]]:
    return {row.model: (row.rank_low, row.rank, row.rank_high) for row in rows if row.origin == "measured"}


def test_without_scores_a_range_of_ranks_follows_from_the_intervals(tmp_path: Path) -> None:
    values = {"a": 0.9, "b": 0.6, "c": 0.58, "d": 0.2}
    rows = [metric(model, value, ci_low=value - 0.05, ci_high=value + 0.05) for model, value in values.items()]
    joined = join_outputs([write_output(str(tmp_path), [entry(model) for model in values], rows)])
    assert ranges(joined.rows) == {"a": (1, 1, 1), "b": (2, 2, 3), "c": (2, 3, 3), "d": (4, 4, 4)}
    page = leaderboard_page(joined.rows, ())
    assert ">2\N{EN DASH}3</td>" in page
    assert ">4</td>" in page
    lines = csv.DictReader(io.StringIO(leaderboard_csv(joined.rows)))
    assert [(r["rank"], r["rank_low"], r["rank_high"]) for r in lines if r["model"] == "c"] == [("3", "2", "3")]


def test_one_model_has_one_rank_and_equal_or_unsure_models_have_all(tmp_path: Path) -> None:
    single = write_output(str(tmp_path / "one"), [entry("a")], [metric("a", 0.5)])
    assert ranges(join_outputs([single]).rows) == {"a": (1, 1, 1)}
    rows = [metric("a", 0.9, ci_low=None, ci_high=None), metric("b", 0.1), metric("c", 0.1)]
    unsure = write_output(str(tmp_path / "unsure"), [entry(model) for model in "abc"], rows)
    assert ranges(join_outputs([unsure]).rows) == {"a": (1, 1, 3), "b": (1, 2, 3), "c": (1, 2, 3)}


def test_models_that_toss_coins_may_have_any_rank_and_paired_rows_tell_more_than_intervals() -> None:
    rng = np.random.default_rng(1)
    assert simulated_ranges(rng.random((6, 400)) < 0.5) == [(1, 6)] * 6
    hard = rng.random(400) < 0.5
    better = hard | (np.arange(400) % 20 == 0)
    assert simulated_ranges(np.array([hard, better])) == [(2, 2), (1, 1)]

"""Outputs and published rows in one table: what is joined, ranked, refused and marked."""

from __future__ import annotations

import csv
import html
import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft7Validator

from jobs.cli.main import run
from jobs.leaderboard.create import COLUMNS, join_outputs, leaderboard_csv, leaderboard_page, write_leaderboard
from jobs.leaderboard.rows import LeaderboardRow
from pipelines.benchmarks import benchmark
from pipelines.errors import StoreError, UsageError
from pipelines.storage.store import Store
from tests.support.item_simulation import simulated_ranges
from tests.support.leaderboard_output import entry, metric, write_output
from tests.support.paths import ROOT

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


@pytest.fixture
def outs(tmp_path: Path) -> list[str]:
    models = {"one": entry("m1"), "two": entry("m2", limit="1-5")}
    return [
        write_output(str(tmp_path / name), [model_entry], [metric(model_entry.model, 0.5)])
        for name, model_entry in models.items()
    ]


def test_page_and_csv_are_written(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "to"
    assert run(["leaderboard", outs[0], "--to", str(to), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "page": f"{to}/leaderboard.html", "csv": f"{to}/leaderboard.csv",
        "rows": {"measured": 1, "published": 1, "reported": 0}, "conflicts": [],
    }  # fmt: skip
    assert {path.name for path in to.iterdir()} == {"leaderboard.html", "leaderboard.csv", ".vlmsweep-files.json"}


def test_mixed_rows_end_with_2_or_marked(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "to"
    assert run(["leaderboard", *outs, "--to", str(to)]) == 2
    assert "maia: samples: all samples in one (m1); --limit 1-5 in two (m2)" in capsys.readouterr().err
    assert not to.exists()
    assert run(["leaderboard", *outs, "--to", str(to), "--allow-mixed"]) == 0
    assert "marked: maia: samples" in capsys.readouterr().out
    assert "Rows that were not measured alike" in (to / "leaderboard.html").read_text()


def test_unknown_names_end_with_2(outs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["leaderboard", outs[0], "--to", str(tmp_path / "to"), "--benchmarks", "mai"]) == 2
    assert "maia" in capsys.readouterr().err
    assert run(["leaderboard", str(tmp_path / "none"), "--to", str(tmp_path / "to")]) == 2
    assert "no run.json; is this the --out of a run?" in capsys.readouterr().err


SCHEMA = ROOT / "tests" / "unit" / "jobs" / "export" / "eee_schema" / "eval.schema.json"
NAME = "maia aggregate 32-frames"
INTERVAL = {"confidence_interval": {"lower": 0.5, "upper": 0.7, "confidence_level": 0.95}, "num_samples": 90}


@pytest.fixture
def out(tmp_path: Path) -> str:
    return write_output(str(tmp_path / "out"), [entry("m1")], [metric("m1", 0.4)])


def result(
    score: float, name: str = NAME, *, uncertainty: Any = None, identity: str = "", **config: Any
) -> dict[str, Any]:
    return {
        "evaluation_result_id": identity,
        "evaluation_name": name,
        "source_data": {"dataset_name": "MAIA", "source_type": "other"},
        "metric_config": {"metric_id": "agg_acc", "lower_is_better": False, **config},
        "score_details": {"score": score, **({"uncertainty": uncertainty} if uncertainty else {})},
    }


def write(folder: Path, *results: dict[str, Any], model: str = "theirs", name: str = "a.json") -> str:
    """Write a record that the schema accepts; return its path."""
    record = {
        "schema_version": "0.3.0",
        "evaluation_id": "id",
        "retrieved_timestamp": "0",
        "source_metadata": {
            "source_name": "A board", "source_type": "documentation", "source_organization_name": "Example",
            "evaluator_relationship": "third_party",
        },
        "model_info": {
            "name": model,
            "id": "org/theirs",
            "additional_details": dict.fromkeys(("deployment_type", "model_availability"), "unknown"),
        },
        "eval_library": {"name": "other", "version": "1"},
        "evaluation_results": [*results],
    }  # fmt: skip
    assert [error.message for error in Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(record)] == []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(record))
    return str(folder / name)


def external_rows(rows: tuple[LeaderboardRow, ...]) -> list[LeaderboardRow]:
    return [row for row in rows if row.origin == "reported"]


def test_a_result_stands_beside_ours_with_source_and_interval_and_has_no_rank(out: str, tmp_path: Path) -> None:
    joined = join_outputs([out], reported=[write(tmp_path / "eee", result(0.6, uncertainty=INTERVAL))])
    (row,) = external_rows(joined.rows)
    assert (row.model, row.value, row.ci_low, row.ci_high, row.n, row.rank) == ("theirs", 0.6, 0.5, 0.7, 90, None)
    assert row.source == "Example, A board, a.json"
    assert row.notes == ("reported by others: data, prompts and settings are not known",)
    assert [row.model for row in joined.rows] == ["theirs", "Qwen-2.5-VL 72B", "m1"]
    assert [row.rank for row in joined.rows if row.model == "m1"] == [1]
    assert joined.conflicts == ()
    write_leaderboard(joined, Store(str(tmp_path / "to")))
    assert "reported by others</span>" in (tmp_path / "to" / "leaderboard.html").read_text()
    assert ',reported,"Example, A board, a.json",' in leaderboard_csv(joined.rows)


def test_a_result_without_an_interval_stands_below_all_that_have_one(out: str, tmp_path: Path) -> None:
    odd = {"confidence_interval": {"lower": 0.7, "upper": 0.8}}
    narrow = {"confidence_interval": {"lower": 0.5, "upper": 0.7, "confidence_level": 0.5}}
    write(tmp_path / "eee" / "deep", result(0.9), result(0.6, uncertainty=odd), result(0.6, uncertainty=narrow))
    rows = join_outputs([out], reported=[str(tmp_path / "eee")]).rows
    assert [row.model for row in rows] == ["Qwen-2.5-VL 72B", "m1", *["theirs"] * 3]
    assert [row.ci_low for row in external_rows(rows)] == [None] * 3
    assert [row.notes[1:] for row in external_rows(rows)].count(("its interval is none of 95% around the value",)) == 2


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"name": "MAIA", "score": 0.6}, 0.6),
        ({"score": 60, "metric_unit": "percent"}, 0.6),
        ({"score": 60, "score_type": "continuous", "min_score": 0, "max_score": 100}, 0.6),
        ({"score": 0.6, "metric_unit": "proportion", "identity": "maia/aggregate/m/32-frames///agg_acc"}, 0.6),
        ({"score": 0.6, "identity": "maia/aggregate/m/32-frames//Causal/agg_acc"}, None),
        ({"score": 60}, None),
        ({"score": 0.6, "metric_unit": "elo"}, None),
        ({"score": 0.6, "metric_id": "accuracy"}, None),
        ({"score": 0.6, "name": "maia aggregate 1-frame"}, None),
    ],
)
def test_results_of_another_table_or_unit_are_left_out(
    out: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], value: float | None
) -> None:
    path = write(tmp_path / "eee", result(**changes), result(0.1))
    with caplog.at_level(logging.WARNING):
        values = [row.value for row in external_rows(join_outputs([out], reported=[path]).rows)]
    assert sorted(values) == ([0.1] if value is None else [0.1, value])
    assert ("skipped results that match no table" in caplog.text) == (value is None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no record of Every Eval Ever"),
        (b"[" * 100_000, "no record of Every Eval Ever"),
        (b"\xff\xfe", "no record of Every Eval Ever"),
        (b'{"schema_version": "0.3.0"}', "source_metadata: is missing"),
        (b"[1]", "must be an object of named fields"),
    ],
)
def test_a_file_that_is_no_record_is_named(out: str, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"--eee .*bad\.json: ") as raised:
        join_outputs([out], reported=[str(tmp_path / "bad.json")])
    assert message in str(raised.value)


@pytest.mark.parametrize("score", ["NaN", "1e999", "true", "null", "{}", "9" * 5000])
def test_a_score_that_is_no_number_is_refused(out: str, tmp_path: Path, score: str) -> None:
    path = Path(write(tmp_path / "eee", result(0.123)))
    path.write_text(path.read_text().replace("0.123", score))
    with pytest.raises(UsageError, match=r"--eee .*(score|record|results)"):
        join_outputs([out], reported=[str(path)])


def test_a_location_without_records_and_records_of_nothing_here_are_refused(out: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent", "absent.json"):
        with pytest.raises(UsageError, match=r"no such file, and no folder with \*.json files"):
            join_outputs([out], reported=[str(tmp_path / name)])
    path = write(tmp_path / "eee", result(0.5, "imagenet"))
    with pytest.raises(UsageError, match=r"none of 1 results .* agg_acc .* 'maia aggregate 32-frames'"):
        join_outputs([out], reported=[path])


def test_hostile_names_are_text(out: str, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    path = write(tmp_path / "eee", result(0.5), model=hostile, name="=1.json")
    joined = join_outputs([out], reported=[path])
    write_leaderboard(joined, Store(str(tmp_path / "to")))
    assert hostile not in (tmp_path / "to" / "leaderboard.html").read_text()

"""Records of Every Eval Ever beside the rows of an output: where they stand, and what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from jobs.leaderboard.create import join_outputs, leaderboard_csv, write_leaderboard
from jobs.leaderboard.rows import LeaderboardRow
from pipelines.errors import UsageError
from pipelines.storage.store import Store
from tests.support.leaderboard_output import entry, metric, write_output
from tests.support.paths import ROOT

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

"""How many rows a difference needs, against the textbook's number."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from jobs.cli.main import run
from models.spec import ModelSpec
from pipelines.decisions.power import power
from pipelines.errors import UsageError
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import Limit
from pipelines.progress import NullProgress
from pipelines.report.compare import compare
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store
from pipelines.sweep.external import score_external
from pipelines.sweep.run import run_sweep


def test_rows_follow_from_the_standard_error(two_models: Store) -> None:
    rows = power(two_models, 0.02, "statement_accuracy")
    single = next(row for row in rows if row.model == "a" and not row.other)
    assert single.clusters == 2
    # (1.96 + 0.8416)^2 (s / d)^2 rows as often as there are, s the standard error of a difference of two such models.
    expected = (1.959964 + 0.841621) ** 2 * (single.standard_error / 0.02) ** 2 * single.n
    assert single.rows_needed == math.ceil(expected)
    assert single.detectable == pytest.approx(2.801585 * single.standard_error)
    assert power(two_models, 0.04, "statement_accuracy")[0].rows_needed == pytest.approx(rows[0].rows_needed / 4, abs=1)


def test_difference_must_be_a_fraction_and_the_metric_known(two_models: Store) -> None:
    with pytest.raises(UsageError, match="--difference is 2"):
        power(two_models, 2)
    with pytest.raises(UsageError, match="did you mean 'statement_accuracy'"):
        power(two_models, 0.02, "statement_acuracy")


@pytest.mark.parametrize(("metric", "value"), [("pool_accuracy", "pool_accuracy"), ("statement_accuracy", "correct")])
def test_pair_has_the_spread_of_the_comparison(metric: str, value: str, two_models: Store) -> None:
    ends = next(d for d in compare(two_models, two_models, ("a", "b")).differences if d.value == value)
    (pair,) = (row for row in power(two_models, 0.02, metric) if row.other)
    assert ends.ci_low is not None
    assert ends.ci_high is not None
    assert (pair.model, pair.other) == ("a", "b")
    assert pair.standard_error == pytest.approx((ends.ci_high - ends.ci_low) / 2 / 1.959964)


@pytest.fixture
def tables(tmp_path: Path) -> RunSpec:
    """Two table benchmarks of 40 rows, each a cluster of its own."""
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,answer", *(f"{n},Is it {n}?,yes" for n in range(40))]))
    data, names = tmp_path / "data", ("first", "second")
    for name in names:
        ingest_table(str(tmp_path / "rows.csv"), Store(str(data)), name=name, kind="yes-no")
    load_tables(str(data), names)
    return RunSpec(data=str(data), out=str(tmp_path / "out"), models={}, benchmarks=names)


def swept(spec: RunSpec, benchmark: str, limit: str | None = None, **models: ModelSpec) -> Store:
    selection = Limit.parse(limit) if limit else None
    run_sweep(RunSpec(data=spec.data, out=spec.out, models=models, benchmarks=(benchmark,), limit=selection))
    return Store(spec.out)


def test_models_are_paired_within_a_benchmark_where_they_have_rows_in_common(tables: RunSpec) -> None:
    guesses = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("abc")}
    swept(tables, "first", a=guesses["a"], c=guesses["c"])
    out = swept(tables, "second", b=guesses["b"])
    pairs = [(row.benchmark, row.model, row.other) for row in power(out, 0.1) if row.other]
    assert pairs == [("first", "a", "c")]
    out = swept(tables, "second", "1-20", d=guesses["a"])
    out = swept(tables, "second", "21-40", e=guesses["c"])
    assert [row.other for row in power(out, 0.1) if row.model == "d"] == [""]


def test_clusters_of_failed_rows_are_not_counted(tables: RunSpec, tmp_path: Path) -> None:
    names = {"benchmark": "first", "model": "half", "task": "yes-no", "setting": "default"}
    answers = [{**names, "sample_id": str(n), "output": ["yes", "no", None, None][n % 4]} for n in range(40)]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    score_external(tables, tmp_path / "answers.jsonl", progress=NullProgress())
    (row,) = power(Store(tables.out), 0.1)
    assert row.n == row.clusters == 20
    assert row.clusters_needed == row.rows_needed


def test_clusters_of_failed_rows_are_counted_where_these_are_wrong_answers(
    two_models: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = (row for row in power(two_models, 0.1, "statement_accuracy") if row.model == "a" and not row.other)
    read = ScoreRows.read

    def half_failed(out: Store, entry: ManifestEntry, *names: str) -> ScoreRows:
        rows = read(out, entry, *names)
        first = rows.texts["cluster"] == rows.texts["cluster"][0]
        return ScoreRows({**rows.texts, "status": np.where(first, "error", "ok")}, rows.values)

    monkeypatch.setattr(ScoreRows, "read", half_failed)
    (row,) = (row for row in power(two_models, 0.1, "statement_accuracy") if row.model == "a" and not row.other)
    assert row.clusters == before.clusters == 2


def test_an_output_without_an_interval_is_said_to_have_none(
    tables: RunSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    out = swept(tables, "first", "1", a=ModelSpec(engine="random"))
    assert run(["power", out.uri, "--difference", "0.1"]) == 0
    assert "No value has an interval" in capsys.readouterr().out
    assert run(["power", out.uri, "--difference", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []

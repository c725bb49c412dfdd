"""How many rows a difference needs, against the textbook's number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from jobs.analysis.power import Pilot, power
from jobs.cli.main import run
from models.spec import ModelSpec
from pipelines.errors import UsageError
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.metrics.paired import least_clusters
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.progress import NullProgress
from pipelines.report.compare import compare
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep, score_external
from tests.support.paired_simulation import Pair, simulate_power

PILOT = Pilot(standard_error=0.04, n=400, clusters=100, freedom=math.inf, spread_freedom=1e6)


def test_a_known_spread_has_the_textbooks_numbers_and_an_uncertain_one_a_range() -> None:
    # (1.96 + 0.8416)^2 (s / d)^2 clusters as often as there are
    assert PILOT.needed(0.05) == pytest.approx(100 * (1.959964 + 0.841621) ** 2 * (0.04 / 0.05) ** 2, abs=2)
    assert PILOT.detectable() == pytest.approx(2.801585 * 0.04, rel=0.002)
    low, high = PILOT.needed_within(0.05)
    assert high - low <= 0.02 * PILOT.needed(0.05)
    few = replace(PILOT, freedom=9, clusters=10, spread_freedom=9)
    certain = replace(few, spread_freedom=1e6)
    low, high = few.needed_within(0.05)
    assert low < certain.needed(0.05) < few.needed(0.05) < high


def test_clusters_are_no_fewer_than_signs_need_and_repeats_lower_their_part() -> None:
    assert PILOT.needed(1.0) == 6
    corrected = replace(PILOT, tests=45)
    assert corrected.needed(1.0) == least_clusters(0.05 / 45) == 11
    assert corrected.needed(0.05) > PILOT.needed(0.05)
    assert replace(PILOT, clusters=5).detectable() is None
    pilot = replace(PILOT, repeats=2, repeat_share=0.4)  # 0.6 between questions, 0.8 within one
    assert pilot.with_repeats(2).standard_error == pytest.approx(pilot.standard_error)
    assert pilot.with_repeats(1).standard_error == pytest.approx(0.04 * math.sqrt(0.6 + 0.8))
    assert pilot.with_repeats(8).standard_error == pytest.approx(0.04 * math.sqrt(0.6 + 0.1))
    assert pilot.with_repeats(8).with_repeats(2).repeat_share == pytest.approx(0.4)
    assert PILOT.with_repeats(8).standard_error == PILOT.standard_error


@pytest.mark.parametrize(("sizes", "correlation"), [((60, 1), 0.0), ((10, 24), 0.1)])
def test_compare_finds_the_difference_that_was_planned_for(sizes: tuple[int, int], correlation: float) -> None:
    outcome = simulate_power(Pair(*sizes, 0.5, 0.65, correlation), repetitions=100, seed=3)
    assert outcome.within_range > 0.85
    assert 0.68 < outcome.power < 0.92  # three standard errors beside 0.8; `make simulate-power` has more repetitions


def test_difference_is_planned_for_with_the_spread_and_correction_of_the_comparison(two_models: Store) -> None:
    (pair,) = power(two_models, 0.02, "statement_accuracy")
    assert (pair.model, pair.other, pair.clusters, pair.tests, pair.detectable) == ("a", "b", 2, 1, None)
    assert pair.note == "2 clips, pictures or scenes are too few to rely on; plan with at least 6"
    assert pair.clusters_needed is not None
    assert pair.clusters_needed >= 6
    difference = next(row for row in compare(two_models, None).differences if row.value == "correct")
    (pair,) = power(two_models, 0.02, "statement_accuracy")
    assert difference.standard_error is not None
    assert (pair.standard_error, pair.n) == (difference.standard_error, difference.n)
    with pytest.raises(UsageError, match="--difference is 2"):
        power(two_models, 2)
    with pytest.raises(UsageError, match="did you mean 'statement_accuracy'"):
        power(two_models, 0.02, "statement_acuracy")


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
    run_sweep(RunSpec(data=spec.data, out=spec.out, models=models, benchmarks=(benchmark,), limit=limit or None))
    return Store(spec.out)


def test_models_are_paired_within_a_benchmark_where_they_have_rows_in_common(tables: RunSpec) -> None:
    guesses = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("abc")}
    swept(tables, "first", a=guesses["a"], c=guesses["c"])
    out = swept(tables, "second", b=guesses["b"])
    pairs = [(row.benchmark, row.model, row.other) for row in power(out, 0.1) if row.other]
    assert pairs == [("first", "a", "c")]
    out = swept(tables, "second", "1-20", d=guesses["a"])
    out = swept(tables, "second", "21-40", e=guesses["c"])
    pairs = [(row.model, row.other) for row in power(out, 0.1) if row.benchmark == "second"]
    assert pairs == [("b", "d"), ("b", "e")]  # d and e answered other rows
    assert [(row.model, row.other) for row in power(out, 0.1, models=["d", "e"])] == [("d", ""), ("e", "")]
    with pytest.raises(UsageError, match="unknown model 'f'"):
        power(out, 0.1, models=["f"])


def test_all_pairs_of_the_named_models(five_models: Store) -> None:
    def pairs(*models: str) -> list[tuple[str, str]]:
        rows = power(five_models, 0.1, "statement_accuracy", models)
        return [(row.model, row.other) for row in rows if row.setting == "1-frame"]

    names = [f"m{n}" for n in range(5)]
    assert pairs() == list(combinations(names, 2))
    assert pairs("m0", "m3", "m1") == [("m0", "m3"), ("m0", "m1"), ("m3", "m1")]


def test_equal_answers_have_no_number(tables: RunSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score_answers(tables, tmp_path, {"a": ["yes", "no"], "b": ["yes", "no"]})
    out = Store(tables.out)
    (row,) = power(out, 0.1)
    assert (row.clusters, row.clusters_needed, row.rows_needed, row.detectable) == (40, None, None, None)
    assert row.note == "a and b score alike on every row, so it is not known how much a difference varies"
    assert run(["power", out.uri, "--difference", "0.1"]) == 0
    assert f"note: first yes-no default: {row.note}" in capsys.readouterr().out


def test_one_cluster_has_a_sentence_and_no_number(tables: RunSpec) -> None:
    out = swept(tables, "first", "1", a=ModelSpec(engine="random"), b=ModelSpec(engine="random", seed=1))
    (row,) = power(out, 0.1)
    assert (row.clusters_needed, row.standard_error) == (None, None)
    assert row.note == "only one clip, picture or scene, so it is not known how much a difference varies"


def test_repeats_of_a_pilot_say_what_more_would_bring(tables: RunSpec, capsys: pytest.CaptureFixture[str]) -> None:
    models = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("ab")}
    run_sweep(replace(tables, models=models, benchmarks=("first",), repeats=4))
    (row,) = power(Store(tables.out), 0.1)
    assert (row.repeats, row.n, row.clusters) == (4, 160, 40)
    needed = row.clusters_needed_by_repeats
    assert [*needed] == [1, 2, 4, 8, 16]
    assert needed[1] > needed[4] == row.clusters_needed
    assert needed[4] >= needed[16]
    assert run(["power", tables.out, "--difference", "0.1"]) == 0
    assert f"clusters needed by answers to a question: {needed[1]} with 1, " in capsys.readouterr().out


def score_answers(spec: RunSpec, folder: Path, answers: Mapping[str, Sequence[str | None]]) -> None:
    """Score answers of models to the first table, which repeat over its rows."""
    rows = [
        {"benchmark": "first", "model": model, "task": "yes-no", "setting": "default", "sample_id": str(n)}
        | {"output": texts[n % len(texts)]}
        for model, texts in answers.items()
        for n in range(40)
    ]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    score_external(spec, folder / "answers.jsonl", progress=NullProgress())


def test_clusters_of_failed_rows_are_not_counted(tables: RunSpec, tmp_path: Path) -> None:
    score_answers(tables, tmp_path, {"half": ["yes", "no", None, None]})
    (row,) = power(Store(tables.out), 0.1)
    assert row.n == row.clusters == 20
    assert row.clusters_needed == row.rows_needed


def test_clusters_of_failed_rows_count_where_these_are_wrong(
    two_models: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = power(two_models, 0.1, "statement_accuracy", ["a"])
    read = ScoreRows.read

    def half_failed(out: Store, entry: ManifestEntry, *names: str) -> ScoreRows:
        rows = read(out, entry, *names)
        first = rows.texts["cluster"] == rows.texts["cluster"][0]
        return ScoreRows({**rows.texts, "status": np.where(first, "error", "ok")}, rows.values)

    monkeypatch.setattr(ScoreRows, "read", half_failed)
    (row,) = power(two_models, 0.1, "statement_accuracy", ["a"])
    assert row.other == ""
    assert row.clusters == before.clusters == 2


def test_an_output_without_an_interval_has_a_sentence(tables: RunSpec, capsys: pytest.CaptureFixture[str]) -> None:
    out = swept(tables, "first", "1", a=ModelSpec(engine="random"))
    assert run(["power", out.uri, "--difference", "0.1"]) == 0
    assert "No value has an interval" in capsys.readouterr().out
    assert run(["power", out.uri, "--difference", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []

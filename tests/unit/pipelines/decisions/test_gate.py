"""GO, NO-GO and INCONCLUSIVE: how often each is said, and on outputs of real sweeps."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from models.spec import ModelSpec
from pipelines.decisions.evidence import Evidence
from pipelines.decisions.gate import Claim, LineResult, decide, gate
from pipelines.decisions.paired_gap import ScoredEntry, paired_gap
from pipelines.decisions.policy import Line, Policy
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE, FRACTION, Term, interval
from pipelines.plan.run_manifest import load_existing_run
from pipelines.plan.run_spec import RunSpec
from pipelines.report.compare import compare
from pipelines.report.measured import MetricKey
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep

DRAWS = 2_000
ALPHA = 0.05
LINE = LineResult(
    benchmark="b", model="m", task="t", setting="s", subset="", category="", metric="accuracy", rule="", value=None
)


def ones(values: np.ndarray) -> np.ndarray:
    return np.stack([values, np.ones(len(values))], axis=1).astype(np.float64)


def share_claim(right: np.ndarray, limit: float) -> Claim:
    ends = interval([Term(ones(right), np.arange(len(right)))], FRACTION)
    assert ends is not None
    return Claim(LINE, Evidence(float(right.mean()), ends.low, ends.high, len(right)), limit)


def gap_claim(new: np.ndarray, old: np.ndarray, margin: float) -> Claim:
    clusters = np.arange(len(new)) // 4
    ends = interval([Term(ones(new), clusters), Term(ones(old), clusters, weight=-1.0)], DIFFERENCE)
    assert ends is not None
    return Claim(LINE, Evidence(float(new.mean() - old.mean()), ends.low, ends.high, len(new)), -margin)


def decisions(claims: object, n_lines: int) -> Counter[str]:
    return Counter(decide([claims() for _ in range(n_lines)], ALPHA).decision for _ in range(DRAWS))  # type: ignore[operator]


@pytest.mark.parametrize("n_lines", [1, 4])
def test_at_the_limit_at_most_one_in_twenty_is_refused(n_lines: int) -> None:
    rng = np.random.default_rng(1)
    counts = decisions(lambda: share_claim(rng.random(400) < 0.7, 0.7), n_lines)
    assert counts["NO-GO"] / DRAWS <= 0.05
    assert counts["GO"] / DRAWS <= 0.035


def test_at_the_margin_at_most_one_in_twenty_is_refused() -> None:
    rng = np.random.default_rng(2)

    def claim() -> Claim:
        old = rng.random(400) < 0.7
        new = old ^ (rng.random(400) < np.where(old, 0.1, 0.1))
        shift = float(0.7 - (0.7 * 0.9 + 0.3 * 0.1))
        return gap_claim(new, old, shift)

    counts = decisions(claim, 1)
    assert counts["NO-GO"] / DRAWS <= 0.06
    assert counts["GO"] / DRAWS <= 0.035


def test_a_loss_of_twice_the_margin_is_refused_and_none_passes() -> None:
    rng = np.random.default_rng(3)

    def claim() -> Claim:
        old = rng.random(1_600) < 0.7
        new = old & (rng.random(1_600) > 0.08 / 0.7)
        return gap_claim(new, old, 0.04)

    counts = decisions(claim, 1)
    assert counts["NO-GO"] / DRAWS >= 0.95
    assert counts["GO"] == 0


def test_better_worse_and_too_few() -> None:
    right = np.arange(200) < 180
    assert decide([share_claim(right, 0.8)], ALPHA).decision == "GO"
    assert decide([share_claim(right, 0.97)], ALPHA).decision == "NO-GO"
    few = decide([share_claim(right[::20], 0.8)], ALPHA)
    assert few.decision == "INCONCLUSIVE"
    (line,) = few.lines
    assert line.rows_needed is not None
    assert line.rows_needed > 10


def test_number_without_an_interval_decides_nothing() -> None:
    result = decide([Claim(LINE), share_claim(np.arange(200) < 180, 0.8)], ALPHA)
    assert result.decision == "INCONCLUSIVE"
    assert [line.verdict for line in result.lines] == ["undecided", "holds"]


@pytest.fixture(scope="module")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("gate") / "out"
    models = {name: ModelSpec(engine="random", seed=seed) for name, seed in (("a", 1), ("b", 2))}
    spec = RunSpec(
        data=maia_data, out=str(folder), models=models, benchmarks=("maia",), tasks=("vsv",), settings=("1-frame",)
    )
    run_sweep(spec)
    return Store(str(folder))


LIMIT = {"benchmark": "maia", "task": "vsv", "setting": "1-frame", "metric": "statement_accuracy"}


def test_gap_of_a_mean_is_that_of_the_comparison(out: Store) -> None:
    """By other code: the jackknife of the comparison leaves out one clip at a time, here each is a group."""
    entries = {entry.model: ScoredEntry.read(out, entry) for entry in load_existing_run(out).entries}
    gap, old = paired_gap(entries["b"], entries["a"], MetricKey("statement_accuracy", "vsv", "1-frame"))
    (counts,) = (d for d in compare(out, out, ("a", "b")).differences if d.value == "correct")
    assert (gap.value, old) == (pytest.approx(counts.delta), pytest.approx(counts.mean_a))
    assert (gap.low, gap.high) == (pytest.approx(counts.ci_low), pytest.approx(counts.ci_high))


def test_limits_and_baseline_of_a_sweep(out: Store) -> None:
    lines = (
        Line(**LIMIT, model="a", at_least=0.01),
        Line(**LIMIT, model="a", at_most=0.99),
        Line(**LIMIT, model="a", not_worse_than="baseline", margin=0.5),
    )
    result = gate(out, Policy(lines), out)
    assert (result.decision, len(result.lines)) == ("GO", 3)
    assert result.lines[2].value == 0
    both = gate(out, Policy((Line(**LIMIT, at_least=0.9999),)))
    assert {line.model for line in both.lines} == {"a", "b"}
    assert both.decision == "NO-GO"
    assert json.dumps([line.p_holm for line in both.lines])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "statement_acuracy"}, "no metric 'statement_acuracy'; did you mean 'statement_accuracy'?"),
        ({"setting": "2-frames"}, "no setting '2-frames'; did you mean '1-frame'?"),
        ({"benchmark": "mate"}, "the policy names mate, and the output has no number of it"),
        ({"benchmark": "mata"}, "'mata'"),
        ({"model": "c"}, "no model 'c'"),
    ],
)
def test_policy_that_names_what_is_not_there(change: dict[str, str], words: str, out: Store) -> None:
    with pytest.raises(UsageError) as caught:
        gate(out, Policy((Line(**{**LIMIT, **change}, at_least=0.5),)))
    assert words in str(caught.value)


def test_baseline_is_asked_for_and_must_have_the_model(out: Store) -> None:
    policy = Policy((Line(**LIMIT, model="a", not_worse_than="baseline", margin=0.1),))
    with pytest.raises(UsageError, match="give its output with --baseline OUT"):
        gate(out, policy)


def test_output_without_a_report_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run"):
        gate(Store(str(tmp_path)), Policy((Line(**LIMIT, at_least=0.5),)))

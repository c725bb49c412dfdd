"""GO, NO-GO and INCONCLUSIVE: how often each is said, and on outputs of real sweeps."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from jobs.shared.render import show_gate
from pipelines.decisions.evidence import NORMAL, Z95, Evidence, ScoredEntry, paired_gap, quantile, rows_for
from pipelines.decisions.gate import Claim, Line, LineResult, Policy, decide, gate, read_policy
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE, FRACTION, Term, interval
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import load_existing_run
from pipelines.report.compare import compare
from pipelines.report.metrics_file import MetricKey, load_metrics
from pipelines.storage.store import Store

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
    return Claim(LINE, Evidence(float(right.mean()), ends.low, ends.high, len(right), ends.freedom or math.inf), limit)


def gap_claim(new: np.ndarray, old: np.ndarray, margin: float) -> Claim:
    clusters = np.arange(len(new)) // 4
    ends = interval([Term(ones(new), clusters), Term(ones(old), clusters, weight=-1.0)], DIFFERENCE)
    assert ends is not None
    return Claim(LINE, Evidence(float(new.mean() - old.mean()), ends.low, ends.high, len(new), ends.freedom), -margin)


def decisions(claims: object, n_lines: int) -> Counter[str]:
    return Counter(decide([claims() for _ in range(n_lines)], ALPHA).decision for _ in range(DRAWS))  # type: ignore[operator]


@pytest.mark.parametrize(("n", "share"), [(50, 0.7), (100, 0.5), (400, 0.7), (400, 0.95)])
def test_at_the_limit_at_most_one_in_twenty_is_refused(n: int, share: float) -> None:
    """Without draws: what each number of right rows leads to, by how often the binomial distribution has it."""
    chances: Counter[str] = Counter()
    for right in range(n + 1):
        chance = math.comb(n, right) * share**right * (1 - share) ** (n - right)
        chances[decide([share_claim(np.arange(n) < right, share)], ALPHA).decision] += chance  # type: ignore[assignment]
    assert 0.02 < chances["NO-GO"] <= 0.05
    assert chances["GO"] <= 0.03


def test_four_lines_at_the_limit_are_refused_as_seldom_as_one() -> None:
    rng = np.random.default_rng(1)
    counts = decisions(lambda: share_claim(rng.random(400) < 0.7, 0.7), 4)
    assert counts["NO-GO"] / DRAWS <= 0.05
    assert counts["GO"] == 0


def test_at_the_margin_at_most_one_in_twenty_is_refused() -> None:
    rng = np.random.default_rng(2)

    def claim() -> Claim:
        old = rng.random(400) < 0.7
        new = old ^ (rng.random(400) < 0.1)
        shift = float(0.7 - (0.7 * 0.9 + 0.3 * 0.1))
        return gap_claim(new, old, shift)

    counts = decisions(claim, 1)
    assert counts["NO-GO"] / DRAWS <= 0.055  # 4.4% in 40,000 draws; two standard errors of these are 1%
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


def test_a_bound_at_the_limit_holds() -> None:
    none = share_claim(np.arange(30) < 0, 0.0)
    assert decide([none], ALPHA).decision == "GO"
    assert decide([replace(none, sign=-1)], ALPHA).decision == "INCONCLUSIVE"


def test_number_without_an_interval_decides_nothing() -> None:
    result = decide([Claim(LINE), share_claim(np.arange(200) < 180, 0.8)], ALPHA)
    assert result.decision == "INCONCLUSIVE"
    assert [line.verdict for line in result.lines] == ["undecided", "holds"]


LIMIT = {"benchmark": "maia", "task": "vsv", "setting": "1-frame", "metric": "statement_accuracy"}


def test_gap_of_a_mean_is_that_of_the_comparison(five_models: Store) -> None:
    """By other code: the jackknife of the comparison leaves out one clip at a time, here each is a group."""
    entries = {entry.model: ScoredEntry.read(five_models, entry) for entry in load_existing_run(five_models).entries}
    with_interval = 0
    for first, second in combinations(sorted(entries), 2):
        gap, old = paired_gap(entries[second], entries[first], MetricKey("statement_accuracy", "vsv", "1-frame"))
        differences = compare(five_models, five_models, (first, second)).differences
        (counts,) = (d for d in differences if (d.value, d.setting) == ("correct", "1-frame"))
        assert (gap.value, old) == (pytest.approx(counts.delta), pytest.approx(counts.mean_a))
        if counts.ci_low is not None:  # not both clips have the same gap, which guesses of a machine may have
            with_interval += 1
            ends = max(gap.low, -1.0), min(gap.high, 1.0)  # with few clips they may lie beyond what shares differ by
            assert ends == (pytest.approx(counts.ci_low), pytest.approx(counts.ci_high))
    assert with_interval > 5


def test_a_gap_has_the_rows_of_its_own_number_and_no_more_for_repeats(five_models: Store) -> None:
    once = ScoredEntry.read(five_models, load_existing_run(five_models).entries[0])
    key = MetricKey("statement_accuracy", "vsv", "1-frame")
    whole, _ = paired_gap(once, once, key)
    numbers = once.definition.reduce(once.frame, once.samples)
    part = next(m for m in numbers if m.metric == key.metric and m.setting == key.setting and m.category)
    gap, _ = paired_gap(once, once, key._replace(category=part.category))
    assert gap.n == part.n < whole.n
    assert gap.high >= whole.high
    repeats = [once.frame, *(once.frame.assign(variant=once.frame["variant"] + f"#{n}") for n in (1, 2))]
    often = replace(once, frame=pd.concat(repeats, ignore_index=True))
    repeated, _ = paired_gap(often, often, key)
    assert (repeated.n, repeated.high) == (3 * whole.n, pytest.approx(whole.high))


def test_interval_of_a_gap_ends_where_shares_do(two_models: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = Evidence(-0.5, -1.25, 0.25, 9), 0.75
    monkeypatch.setattr("pipelines.decisions.gate.paired_gap", lambda *_: beyond)
    policy = Policy((Line(**LIMIT, model="a", not_worse_than="baseline", margin=0.5),))
    (line,) = gate(two_models, policy, two_models).lines
    assert (line.value, line.ci_low, line.ci_high, line.baseline) == (-0.5, -1.0, 0.25, 0.75)


def test_limits_and_baseline_of_a_sweep(two_models: Store) -> None:
    lines = (
        Line(**LIMIT, model="a", at_least=0.01),
        Line(**LIMIT, model="a", at_most=0.99),
        Line(**LIMIT, model="a", not_worse_than="baseline", margin=0.99),  # of two clips
    )
    result = gate(two_models, Policy(lines), two_models)
    assert (result.decision, len(result.lines)) == ("GO", 3)
    assert result.lines[2].value == 0
    both = gate(two_models, Policy((Line(**LIMIT, at_least=0.9999),)))
    assert {line.model for line in both.lines} == {"a", "b"}
    assert both.decision == "NO-GO"
    assert [line.p_holm for line in both.lines] == holm([line.p for line in both.lines])
    assert None not in [line.p for line in both.lines]


def test_failed_rows_stand_beside_a_number(
    two_models: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [replace(number, n_failed=777) for number in load_metrics(two_models) or ()]
    monkeypatch.setattr("pipelines.decisions.gate.load_metrics", lambda _: numbers)
    result = gate(two_models, Policy((Line(**LIMIT, model="a", at_least=0.01),)))
    show_gate(result, as_json=False)
    head, _, line, *_ = capsys.readouterr().out.splitlines()
    assert (result.lines[0].n_failed, line[head.index("failed") :].split()[0]) == (777, "777")


def test_notes_name_the_model(
    two_models: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [replace(number, ci_low=None, ci_high=None) for number in load_metrics(two_models) or ()]
    monkeypatch.setattr("pipelines.decisions.gate.load_metrics", lambda _: numbers)
    show_gate(gate(two_models, Policy((Line(**LIMIT, at_least=0.01),))), as_json=False)
    notes = [line for line in capsys.readouterr().out.splitlines() if line.endswith(": it has no interval")]
    assert [note.split()[1] for note in notes] == ["a", "b"]


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
def test_policy_that_names_what_is_not_there(change: dict[str, str], words: str, two_models: Store) -> None:
    with pytest.raises(UsageError) as caught:
        gate(two_models, Policy((Line(**{**LIMIT, **change}, at_least=0.5),)))
    assert words in str(caught.value)


def test_baseline_is_asked_for_and_must_have_the_model(two_models: Store, five_models: Store) -> None:
    policy = Policy((Line(**LIMIT, model="a", not_worse_than="baseline", margin=0.1),))
    with pytest.raises(UsageError, match="give its output with --baseline OUT"):
        gate(two_models, policy)
    with pytest.raises(UsageError, match="has m0, m1, m2, m3, m4 on maia, and not 'a' to compare with"):
        gate(two_models, policy, five_models)


def test_a_table_benchmark_is_known_from_its_output(table_out: Store) -> None:
    result = gate(table_out, Policy((Line(benchmark="mine", model="m0", at_most=1),)))
    assert [(line.metric, line.n) for line in result.lines] == [("accuracy", 6)]


def test_percent_where_a_fraction_is_meant_is_refused(two_models: Store) -> None:
    with pytest.raises(UsageError, match="statement_accuracy is a fraction of 1, not 80"):
        gate(two_models, Policy((Line(**LIMIT, at_least=80),)))


def test_output_without_a_report_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run"):
        gate(Store(str(tmp_path)), Policy((Line(**LIMIT, at_least=0.5),)))


def share(right: int, n: int) -> Evidence:
    rows = np.stack([np.arange(n) < right, np.ones(n)], axis=1).astype(float)
    ends = interval([Term(rows, np.arange(n))], FRACTION)
    assert ends is not None
    return Evidence(right / n, ends.low, ends.high, n, ends.freedom or math.inf)


@pytest.mark.parametrize(("right", "n"), [(80, 100), (12, 12), (0, 30), (499, 500), (1, 40)])
def test_ends_of_a_share_are_at_the_quantile(right: int, n: int) -> None:
    number = share(right, n)
    if right:
        assert number.deviations_above(number.low) == pytest.approx(Z95)
    if right < n:
        assert number.deviations_above(number.high) == pytest.approx(-Z95)
    assert number.deviations_above(right / n) == 0


def test_share_is_tested_as_the_score_test_does() -> None:
    """z = (p - limit) / sqrt(limit (1 - limit) / n)."""
    expected = (0.8 - 0.7) / math.sqrt(0.7 * 0.3 / 10_000)
    assert share(8_000, 10_000).deviations_above(0.7) == pytest.approx(expected, rel=1e-3)
    assert share(12, 12).deviations_above(0.5) == pytest.approx(math.sqrt(12))
    clips = Evidence(1.0, 10 / (10 + 2.262157**2), 1.0, 240, 9)  # ten clips, t of 9 degrees
    assert clips.deviations_above(0.5) == pytest.approx(math.sqrt(10), rel=1e-6)
    assert clips.chance_below(-math.sqrt(10)) == pytest.approx(float(student.cdf(-math.sqrt(10), 9)), rel=1e-6)


def test_mean_and_fraction_have_their_own_scales() -> None:
    mean = Evidence(3.0, 2.0, 4.0, 10)
    assert mean.deviations_above(2.5) == pytest.approx(Z95 / 2)
    assert mean.deviations_above(5.0) == pytest.approx(-2 * Z95)
    low, high = (1 / (1 + math.exp(-logit)) for logit in (-1.0, 2.0))
    f1 = Evidence(1 / (1 + math.exp(-0.5)), low, high, 10)
    assert f1.deviations_above(1 / (1 + math.exp(1.0))) == pytest.approx(Z95)
    assert f1.deviations_above(high) == pytest.approx(-Z95)
    assert 0 < f1.deviations_above(0.5) < Z95


def test_deviations_fall_with_the_limit() -> None:
    rng = np.random.default_rng(5)
    rows = np.stack([rng.integers(0, 2, 60), np.ones(60)], axis=1).astype(float)
    ends = interval([Term(rows, np.arange(60) // 4)], FRACTION)
    assert ends is not None
    number = Evidence(float(rows[:, 0].mean()), ends.low, ends.high, 60)
    deviations = [number.deviations_above(limit) for limit in np.linspace(0.01, 0.99, 50)]
    assert deviations == sorted(deviations, reverse=True)


def test_number_without_spread_is_certain() -> None:
    assert Evidence(2.0, 2.0, 2.0, 5).deviations_above(1.0) == math.inf
    assert Evidence(2.0, 2.0, 2.0, 5).deviations_above(3.0) == -math.inf


def test_rows_grow_with_the_square_of_the_quantile() -> None:
    assert NORMAL.cdf(-NORMAL.inv_cdf(0.95)) == pytest.approx(0.05)
    assert quantile(0.05) == pytest.approx(1.959964)
    assert rows_for(100, 1.0, 2.0) == 400
    assert rows_for(100, 0.0, 2.0) is None


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(text)
    return path


POLICY_LINE = Line(benchmark="mate", metric="exact_match", at_least=0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((POLICY_LINE,))),
        ("alpha: 0.01\npolicy:\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((POLICY_LINE,), 0.01)),
        ("alpha: 0.01\nlines:\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((POLICY_LINE,), 0.01)),
        ("- alpha: 0.1\n- {benchmark: mate, metric: exact_match, at_least: 0.5}", Policy((POLICY_LINE,), 0.1)),
    ],
)
def test_policy_is_a_list_or_a_mapping(text: str, expected: Policy, tmp_path: Path) -> None:
    assert read_policy(policy(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a list of lines"),
        ("[]", "expected a list of lines"),
        ("- alpha: 0.1", "expected a list of lines"),
        ("policy: 5", "expected a list of lines"),
        ("policy: {benchmark: mate, at_least: 1}", "expected a list of lines"),
        ("policy: [{benchmark: mate, at_least: 1}]\nrules: []", "policy and rules both hold lines; give one list"),
        ("- {benchmark: mate, at_least: true}", "line 1 of the list: at_least: Input should be a valid number"),
        ("- 5", "line 1 of the list: expected a mapping"),
        ("- {benchmark: mate, at_lest: 0.5}", "unknown key 'at_lest'; did you mean 'at_least'?"),
        ("- {benchmark: mate}", "give one of at_least, at_most and not_worse_than"),
        ("- {benchmark: mate, at_least: 0.1, at_most: 0.2}", "give one of at_least"),
        ("- {benchmark: mate, at_least: high}", "line 1 of the list: at_least: Input should be a valid number"),
        ("- {benchmark: mate, at_least: .nan}", "at_least: Input should be a finite number"),
        ("- {benchmark: mate, at_least: 0.5, margin: 0.1}", "not_worse_than and margin belong together"),
        ("- {benchmark: mate, not_worse_than: baseline}", "not_worse_than and margin belong together"),
        ("- {benchmark: mate, not_worse_than: baseline, margin: -1}", "margin: Input should be greater than or equal"),
        ("alpha: 2\npolicy: [{benchmark: mate, at_least: 1}]", "alpha is 2, expected a number between 0 and 1"),
        ("alhpa: 2\npolicy: [{benchmark: mate, at_least: 1}]", "unknown key 'alhpa'; did you mean 'alpha'?"),
        ("- {benchmark: mate, benchmark: maia}", "key 'benchmark' is given twice"),
    ],
)
def test_wrong_policy_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy .*policy\.yaml") as caught:
        read_policy(policy(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_policy_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.yaml"):
        read_policy(tmp_path / "no.yaml")

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.metrics import cohen_kappa_score, f1_score
from statsmodels.stats import inter_rater

from pipelines.metrics import agreement, f1
from pipelines.metrics.agreement import agreement_interval, fleiss_kappa, krippendorff_alpha
from pipelines.metrics.intervals import FRACTION, FloatArray, interval, variance_between
from pipelines.metrics.judged import LabelDraw, Votes, corrected
from tests.support import f1_oracle
from tests.support.judge_simulation import JUDGES, SETS, Judged, Labelling, coverage
from tests.unit.pipelines.metrics.metric_cases import golden, row_name

VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd"), st.integers(0, 5)), min_size=1, max_size=20))
def test_cohen_kappa_equals_scikit_learn(rows: list[tuple[str, str, int]]) -> None:
    a, b, counts = ([row[part] for row in rows] for part in range(3))
    if len({label for *pair, count in rows if count for label in pair}) > 1:
        expected = cohen_kappa_score(a, b, sample_weight=counts)
        assert agreement.cohen_kappa(a, b, counts) == pytest.approx(expected)  # type: ignore[arg-type]
    else:
        assert agreement.cohen_kappa(a, b, counts) is None  # type: ignore[arg-type]


@given(VERDICTS)
def test_phi_equals_the_pearson_correlation(pairs: list[tuple[bool, bool]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    value = agreement.phi(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert value is None
    else:
        assert value == pytest.approx(np.corrcoef(a, b)[0, 1])


@given(st.lists(st.permutations([3, 1, 0]), min_size=1, max_size=9))
def test_fleiss_kappa_equals_statsmodels(counts: list[list[int]]) -> None:
    assert agreement.fleiss_kappa(counts) == inter_rater.fleiss_kappa(np.array(counts), method="fleiss")


@pytest.mark.parametrize("counts", [[], [[3, 0], [2, 0]], [[1, 0], [0, 1]], [3, 0]])
def test_fleiss_kappa_refuses_invalid_counts(counts: Any) -> None:
    with pytest.raises(ValueError, match="Fleiss"):
        agreement.fleiss_kappa(counts)


@pytest.mark.parametrize(("a", "b"), [([1], [1, 0]), ([], [])])
def test_cohen_kappa_refuses_invalid_labels(a: list[int], b: list[int]) -> None:
    with pytest.raises(ValueError, match="kappa"):
        agreement.cohen_kappa(a, b)


@pytest.mark.parametrize(("counts", "expected"), [((3, 1, 2, 1), 2 / 23), ((3, 0, 0, 0), None), ((0, 0, 0, 0), None)])
def test_cohen_kappa_of_counts_equals_that_of_the_labels(counts: tuple[int, ...], expected: float | None) -> None:
    # Of 7 pairs 4 are equal, by chance (4 * 5 + 3 * 2) / 7: (28 - 26) / (49 - 26).
    a, b = (True, True, False, False), (True, False, True, False)
    value = agreement.cohen_kappa(a, b, counts)
    assert value == (None if expected is None else pytest.approx(expected))
    if any(counts):
        labels = [[label for label, count in zip(side, counts, strict=True) for _ in range(count)] for side in (a, b)]
        assert value == agreement.cohen_kappa(*labels)


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        agreement.phi([True], [True, False])


def test_krippendorff_alpha_is_that_of_the_definition_and_may_have_no_interval() -> None:
    # Nine labels A4 B4 C1 in units of at least two: expected 81 - 33 = 48; observed 2/1 + 2/1 = 4; 1 - 8*4/48 = 1/3.
    units = [["A", "A", "A"], ["A", "B"], ["B", "B"], ["B", "C"], ["A"]]
    assert krippendorff_alpha(units) == pytest.approx(1 / 3)
    assert krippendorff_alpha([["A", "A"], ["A"]]) is None
    assert krippendorff_alpha([]) is None
    assert agreement_interval(fleiss_kappa, [[2, 0]]) is None
    assert agreement_interval(fleiss_kappa, [[2, 0], [2, 0], [0, 2]]) is None, "equal without any of them, or undefined"


@pytest.mark.parametrize(("rating_people", "items", "kappa"), [(2, 60, 0.6), (2, 150, 0.2), (3, 100, 0.8)])
def test_intervals_of_coefficients_cover_the_true_one(rating_people: int, items: int, kappa: float) -> None:
    """Each person answers by a latent label with probability `s`, else at random: kappa is then `s` squared."""
    rng, hits = np.random.default_rng(7), 0
    for _ in range(200):
        latent = rng.integers(0, 2, (items, 1))
        guesses = rng.integers(0, 2, (items, rating_people))
        answers = np.where(rng.random((items, rating_people)) < kappa**0.5, latent, guesses)
        ones = answers.sum(axis=1)
        interval = agreement_interval(fleiss_kappa, np.stack([ones, rating_people - ones], axis=1).tolist())
        hits += interval.low <= kappa <= interval.high
    assert 0.92 <= hits / 200 <= 0.985


PPI = {  # agreement of verdicts with labels -> value and ends of ppi_py 0.2.3: alpha 0.05, 200 labels, 20,000 verdicts
    0.5: (0.605, 0.5372499955101337, 0.6727500044898662),
    0.6: (0.5978646867243032, 0.5307096106215967, 0.6650197628270096),
    0.8: (0.5826616485141478, 0.5202279980737275, 0.6450952989545681),
    0.95: (0.5911260181905856, 0.5565467616325891, 0.6257052747485822),
    1.0: (0.5932352817032289, 0.5864292890724374, 0.6000412743340204),
}


def binary(agreement: float) -> tuple[FloatArray, FloatArray]:
    """Return labels and verdicts of 20,200 rows, of which the first 200 are labelled."""
    generator = np.random.default_rng(7)
    labels = (generator.random(20_200) < 0.6).astype(np.float64)
    return labels, np.where(generator.random(20_200) < agreement, labels, 1 - labels)


def ppi_ends(agreement: float) -> tuple[float, float, float]:
    """Return our value and interval with the variance of ppi_py: of independent rows, without pseudo rows."""
    labels, verdicts = binary(agreement)
    rows = np.arange(len(labels))
    result = corrected(verdicts, np.where(rows < 200, labels, np.nan), rows)
    first, errors = result.terms
    bare = replace(errors, columns=errors.columns[:200], clusters=errors.clusters[:200])
    error = math.sqrt(variance_between([first, bare]) * (1 - 1 / 200))  # CR2's of the labels
    return result.value, result.value - 1.959963984540054 * error, result.value + 1.959963984540054 * error


@pytest.mark.parametrize("agreement", PPI)
def test_values_and_intervals_are_those_of_ppi_python(agreement: float) -> None:
    assert ppi_ends(agreement) == pytest.approx(PPI[agreement], abs=2e-5)


@pytest.mark.full
@pytest.mark.parametrize("judge", JUDGES)
def test_corrected_intervals_hold_what_people_accept_and_plain_ones_do_not(judge: str) -> None:
    cases = [coverage(judge, clusters, 100, 100) for clusters in SETS]
    assert 0.90 <= fmean(case.corrected for case in cases) <= 0.99
    assert fmean(case.naive for case in cases) < 0.6


def test_the_labels_needed_are_about_those_that_reach_the_width() -> None:
    results = [Judged.draw([1, number], "strict", "100 clips of 24", 100).corrected() for number in range(40)]
    needed = [result.labels_for(0.05) for result in results if result]
    labels = round(fmean(number for number in needed if number))
    assert coverage("strict", "100 clips of 24", labels, 40).reach == pytest.approx(0.05, rel=0.1)
    assert results[0].labels_for(0.001) is None


def test_labels_correct_by_the_rows_that_they_stand_for() -> None:
    verdicts = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    labels = np.array([0.0, 1, 0, 1, np.nan, np.nan, 1, 1])
    result = corrected(verdicts, labels, np.arange(8), judged=np.arange(8) < 4)
    assert (result.value, result.labels, result.rows) == (pytest.approx(0.25), 4, 4)
    strata = np.repeat(["a", "b"], [90, 10])
    verdicts = np.ones(100)
    labels = np.full(100, np.nan)
    labels[[0, 1, 90, 91, 92, 93]] = [1, 1, 0, 0, 0, 0]  # all of a is right, all of b wrong
    result, equal = (corrected(verdicts, labels, np.arange(100), strata=names) for names in (strata, None))
    assert (result.value, equal.value) == (pytest.approx(0.9), pytest.approx(2 / 6))
    verdicts = np.repeat([1.0, 0.0], 500)
    labels = np.where(np.arange(1000) % 50 == 0, verdicts, np.nan)
    result = corrected(verdicts, labels, np.arange(1000))
    ends, plain = interval(result.terms, FRACTION), (0.469, 0.531)
    assert result.value == pytest.approx(0.5)
    assert ends.low < plain[0]
    assert ends.high > plain[1]


@pytest.mark.parametrize("rows", [[], [0], [0, 1]])
def test_labels_of_fewer_than_two_clusters_correct_nothing(rows: list[int]) -> None:
    labels = np.full(6, np.nan)
    labels[rows] = 1.0
    assert corrected(np.ones(6), labels, np.arange(6) // 2) is None


@pytest.mark.full
@pytest.mark.parametrize(("errors", "twice"), [(0.05, 0.3), (0.05, 1.0), (0.1, 0.3), (0.1, 1.0)])
def test_intervals_allow_for_people_who_err_where_two_labelled_the_same_rows(errors: float, twice: float) -> None:
    labelling = Labelling(errors=errors, twice=twice)
    cases = [coverage(judge, "40 clips of 10", 100, 60, labelling=labelling) for judge in JUDGES]
    assert fmean(case.corrected for case in cases) >= 0.9
    without = [coverage(judge, "40 clips of 10", 300, 60, labelling=Labelling(errors=0.1)) for judge in JUDGES]
    assert fmean(case.corrected for case in without) < 0.85


def votes_of(split: Sequence[float]) -> Votes:
    return Votes(counts=np.where(np.isnan(split), 1.0, 2.0), split=np.array(split))


def test_the_rate_of_errors_is_that_which_gives_the_disagreement() -> None:
    """People who err in 10% of their labels disagree about 18%; a single label has the mean e + (1 - 2 e) t."""
    nan = float("nan")
    split = np.array([1.0] * 18 + [0.0] * 82 + [nan] * 100)
    labels = np.where(np.arange(200) < 18, nan, (np.arange(200) % 10 < 6).astype(float))
    result = corrected(np.ones(200), labels, np.arange(200), votes=votes_of(split))
    assert result.people.rate == pytest.approx(0.1)
    single, _ = result.people.corrected(np.array([0.0, 1.0]), np.ones(2))
    assert single.tolist() == pytest.approx([-0.125, 1.125])
    both, _ = result.people.corrected(np.array([0.0, 1.0]), np.full(2, 2.0))
    assert both.tolist() == pytest.approx([-0.01 / 0.8, 1 + 0.01 / 0.8])  # both wrong: 1 of 82
    three, _ = result.people.corrected(np.ones(1), np.full(1, 3.0))
    assert three[0] == pytest.approx((1 - 0.028) / (1 - 0.056))  # 3 * 0.1 ** 2 * 0.9 + 0.1 ** 3


def test_people_who_agree_widen_the_interval_and_those_who_toss_coins_correct_nothing() -> None:
    rows, nan = np.arange(400), float("nan")
    verdicts, labels = (rows % 5 < 3).astype(float), np.where(rows < 60, (rows % 5 < 3).astype(float), nan)
    results = {
        share: corrected(verdicts, labels, rows, votes=votes_of(np.where(rows < 40, rows % 2 < 2 * share, nan)))
        for share in (0.0, 0.5)
    }
    alone = corrected(verdicts, labels, rows)
    assert results[0.0].people.rate == 0
    assert variance_between(results[0.0].terms) > variance_between(alone.terms)
    assert results[0.5].people is None
    assert results[0.5].value == alone.value


def test_labels_of_no_random_part_are_found_and_random_ones_are_not() -> None:
    chosen = {
        name: fmean(
            coverage("lenient", clusters, 100, 60, labelling=Labelling(chosen=name)).warned
            for clusters in ("8 clips of 24", "40 clips of 10")
        )
        for name in ("at random", "accepted alone")
    }
    assert chosen["at random"] <= 0.05
    assert chosen["accepted alone"] >= 0.95


def test_the_draw_of_labels_is_tested_within_strata_and_not_where_verdicts_are_equal() -> None:
    strata = np.repeat(["easy", "hard"], 100)
    verdicts = np.concatenate([np.arange(100) % 10 < 9, np.arange(100) % 10 < 2]).astype(float)
    labelled = np.concatenate([np.arange(100) < 50, np.arange(100) < 10])  # more of the easy ones
    within = LabelDraw.of(verdicts, labelled, np.arange(200), strata)
    across = LabelDraw.of(verdicts, labelled, np.arange(200), np.zeros(200))
    assert within.p is not None
    assert across.p is not None
    assert across.p < 0.001
    assert within.p > 0.5
    assert LabelDraw.of(np.ones(9), np.arange(9) < 3, np.arange(9), np.zeros(9)).p is None
    assert LabelDraw.of(verdicts, labelled, np.zeros(200), strata).p == 1.0  # one cluster


ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1, None]), st.floats(-0.2, 1.2)), min_size=1, max_size=30
)


def macro_f1(gold: Sequence[int], answers: Sequence[int]) -> float:
    """Return Macro F1 of the product, from the counts that it takes."""
    right = np.array(gold) == np.array(answers)
    counts = (right & (np.array(gold) == 1), right & (np.array(gold) == 0), np.ones_like(right))
    return float(f1.macro_f1(*(np.array([float(column.sum())]) for column in counts))[0])


@pytest.mark.parametrize("row", golden("f1_at_k"), ids=row_name)
def test_f1_at_k_matches_golden_rows(row: dict[str, Any]) -> None:
    answers = f1_oracle.answers_at_k(row["gold"], row["predicted"], row["scores"], row["k"])
    assert answers == row["answers"]
    assert macro_f1(row["gold"], answers) == pytest.approx(row["expected"], abs=5e-5)


@pytest.mark.parametrize("row", golden("precision_recall"), ids=row_name)
def test_precision_recall_matches_golden_rows(row: dict[str, Any]) -> None:
    summary = f1.precision_recall(row["adequate"], row["scores"])
    for name in ("auc", "average_precision", "max_f1", "max_f1_threshold", "balanced_threshold"):
        expected = row[name]
        assert getattr(summary, name) == (expected if expected is None else pytest.approx(expected, abs=5e-5)), name


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([-0.2, 0.0, 0.1, 0.5, 0.75, 1.2])), min_size=1, max_size=30))
def test_precision_recall_equals_scikit_learn(rows: list[tuple[bool, float]]) -> None:
    adequate, scores = [int(is_adequate) for is_adequate, _ in rows], [score for _, score in rows]
    if not any(adequate):
        with pytest.raises(ValueError, match="at least one adequate row"):
            f1.precision_recall(adequate, scores)
        return
    expected = metrics.precision_recall_curve(adequate, scores)
    for ours, theirs in zip(f1.precision_recall_curve(adequate, scores), expected, strict=True):
        assert ours[::-1] == pytest.approx(theirs[: len(ours)])
    summary = f1.precision_recall(adequate, scores)
    assert summary.auc == pytest.approx(metrics.auc(expected[1], expected[0]))
    assert summary.average_precision == pytest.approx(metrics.average_precision_score(adequate, scores))


def test_thresholds_exceed_their_floor_and_ties_take_the_higher_one() -> None:
    adequate, scores = [1, 0, 1, 1, 0, 0], [0.72, 0.58, 0.64, 0.52, 0.61, 0.40]
    assert f1.precision_recall(adequate, scores, floor=0.6).balanced_threshold == 0.64
    assert f1.precision_recall(adequate, scores, floor=0.7).balanced_threshold is None
    summary = f1.precision_recall([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6])
    # F1 is 2/3 at 0.9, 1/2 at 0.8 and 4/5 at 0.7; then 2/3 at 0.9 and at 0.6 once the third is not adequate.
    assert summary.max_f1_threshold == 0.7
    tied = f1.precision_recall([1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6])
    assert tied.max_f1 == pytest.approx(2 / 3)
    assert tied.max_f1_threshold == 0.9
    assert len(f1.THRESHOLDS) == 101
    assert (f1.THRESHOLDS[57], f1.THRESHOLDS[70], f1.THRESHOLDS[100]) == (0.57, 0.70, 1.0)


@pytest.mark.parametrize(
    ("adequate", "scores"), [([0, 0], [0.1, 0.2]), ([1], [0.1, 0.2]), ([1, 0], [float("nan"), 0.1])]
)
def test_precision_recall_refuses_invalid_input(adequate: list[int], scores: list[float]) -> None:
    with pytest.raises(ValueError):
        f1.precision_recall(adequate, scores)


@given(rows=ROWS)
def test_macro_f1_equals_scikit_learn_and_the_oracle(rows: list[tuple[int, int | None, float]]) -> None:
    gold = [y for y, _, _ in rows]
    answers = [1 - y if p is None else p for y, p, _ in rows]
    present = sorted({*gold, *answers})
    library = f1_score(gold, answers, labels=present, average="macro", zero_division=0.0)
    assert macro_f1(gold, answers) == pytest.approx(library)
    assert f1_oracle.macro_f1(gold, answers) == pytest.approx(library)


def test_macro_f1_without_rows_is_undefined() -> None:
    assert np.isnan(f1.macro_f1(*[np.zeros(1)] * 3)).all()

"""Shares corrected by people's labels: against ppi-python, worked cases and simulated judges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from pipelines.metrics.intervals import FRACTION, FloatArray, interval, variance_between
from pipelines.metrics.judged import LabelDraw, Votes, corrected
from tests.support.judge_simulation import JUDGES, SETS, Judged, Labelling, coverage

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

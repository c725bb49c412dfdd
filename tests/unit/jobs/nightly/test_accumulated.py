from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from jobs.nightly.items import Accumulated
from pipelines.metrics.cluster_shift import shift_p
from tests.bench.nightly_simulation import AFTER, NOISE, PLANTED, delays, false_alarms

NAMES = np.arange(100)
SHARE = 1e-5


def state(right: int) -> Accumulated:
    return Accumulated.start(NAMES, NAMES, np.ones(100), (right > NAMES).astype(float))


def test_sums_are_a_cusum_of_distances_from_the_mean_of_all_nights_before() -> None:
    noisy = state(50).add(NAMES, (NAMES < 52).astype(float))
    # two samples rose: distance 2 * sqrt(1/2), variance 2 * 1/2, so z = sqrt(2)
    assert noisy.up == pytest.approx(math.sqrt(2) - 0.5)
    assert noisy.down == 0
    assert (noisy.nights_before, noisy.nights_after) == (1, 1)
    calm = noisy.add(NAMES, (NAMES < 51).astype(float))
    assert calm.up == pytest.approx(math.sqrt(2) - 1.0)  # tonight is the mean of both
    assert calm.noise == pytest.approx(1 + 2 * 0.25 * 2 / 3)
    back = calm.add(NAMES, (NAMES < 50).astype(float))
    assert (back.up, back.nights_before, back.nights_after) == (0.0, 1, 3) if back.down else (0.0, 4, 0)


def test_nights_without_evidence_join_the_mean_and_samples_that_a_night_lacks_keep_theirs() -> None:
    same = state(50).add(NAMES, (NAMES < 50).astype(float))
    assert (same.nights_before, same.nights_after, same.noise) == (2, 0, 0.0)
    assert same.p(0.5) is None
    added = state(50).add(NAMES[10:], (NAMES[10:] < 50).astype(float))
    assert (added.noise, added.nights_before) == (0.0, 2)


def test_a_small_lasting_fall_is_one_of_nights_and_samples() -> None:
    before, fallen = state(60), (NAMES < 48).astype(float)
    reported = []
    for _ in range(6):
        before = before.add(NAMES, (NAMES < 60).astype(float))
    for _ in range(3):
        before = before.add(NAMES, fallen)
        reported.append(before.p(SHARE))
    p = next(p for p in reported if p is not None)
    assert p < 0.002
    assert before.means == pytest.approx((0.6, 0.48))


def test_answers_that_moved_both_ways_for_good_are_no_change() -> None:
    added, moved = state(60), np.isin(NAMES, [*range(52), *range(60, 63)]).astype(float)  # 8 fell, 3 rose
    for night in range(40):
        added = added.add(NAMES, (NAMES < 60).astype(float) if night < 20 else moved)
        assert added.p(SHARE) is None
    assert added.down > 0


def test_p_value_of_many_clusters_is_near_that_of_all_signs_and_of_few_students() -> None:
    differences = np.array([1.0] * 17 + [-1.0] * 5)
    exact = 2 * sum(math.comb(22, k) for k in range(17, 23)) / 2**22
    assert shift_p(differences, np.arange(22)) == pytest.approx(exact, rel=0.4)
    few = np.array([3.0, 1.0, 2.0, 2.5, 1.5])
    t = few.sum() / math.sqrt((few**2).sum())  # the spread of clips is less than that of their samples
    assert shift_p(few, np.arange(5)) == pytest.approx(_student(t, 4), rel=1e-6)


def _student(t: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(2 * student.sf(t, freedom))


def test_clusters_not_samples_are_independent() -> None:
    """All signs of four clips: the samples of a clip move together, so that no number of them is evidence."""
    clips = np.repeat(np.arange(4), 50)
    below = sum(shift_p(np.repeat(signs, 50).astype(float), clips) < 0.05 for signs in product((-1.0, 1.0), repeat=4))
    assert below <= 2  # of 16, all alike
    assert shift_p(np.ones(200), np.arange(200)) < 1e-9
    assert shift_p(np.ones(50), np.zeros(50)) == 1.0


@pytest.mark.full
@pytest.mark.parametrize("noise", ["0.5% of the answers", "5% of the answers", "2 of 20 clips"])
def test_simulated_nights_without_a_change_are_calm(noise: str) -> None:
    assert false_alarms([3], NOISE[noise], nights=120)[0] <= 1


@pytest.mark.parametrize(("noise", "most"), [("0.5% of the answers", 4), ("5% of the answers", 15)])
def test_simulated_falls_of_two_percent_are_reported_within_nights(noise: str, most: int) -> None:
    reported = sorted(delays([3], NOISE[noise], PLANTED["2% in one setting"]))
    assert reported[len(reported) // 2] <= most
    assert sum(night <= AFTER for night in reported) >= 0.9 * len(reported)


def test_simulated_drift_is_reported_within_weeks() -> None:
    reported = sorted(delays([3], NOISE["5% of the answers"], PLANTED["0.1 points a night in one setting"]))
    assert reported[len(reported) // 2] <= 28
    assert reported[-1] <= AFTER

from __future__ import annotations

import math
from itertools import product
from statistics import fmean, median

import numpy as np
import pytest

from jobs.nightly.judge_drift import JudgeEvidence
from tests.bench.nightly_simulation import judge_delay


def mean_bet(evidence: JudgeEvidence) -> float:
    return fmean(math.exp(log) for log in evidence.logs)


def test_bets_are_by_clips_and_of_all_numbers() -> None:
    nights = [
        JudgeEvidence(numbers=1).add(np.array(first), np.arange(2)).add(np.array(second), np.arange(2))
        for first, second in product(product((-1.0, 1.0), repeat=2), product((-2.0, 2.0), repeat=2))
    ]
    assert fmean(map(mean_bet, nights)) == pytest.approx(2)
    together = JudgeEvidence(numbers=1).add(np.ones(30), np.zeros(30))
    apart = JudgeEvidence(numbers=1).add(np.ones(30), np.arange(30))
    assert not together.is_alarm
    assert apart.is_alarm
    assert not JudgeEvidence(numbers=1).is_alarm
    single, many = (JudgeEvidence(numbers=numbers).add(np.ones(14), np.arange(14)) for numbers in (1, 100))
    assert many.rate == pytest.approx(100 * single.rate)


def test_a_shift_of_five_percent_on_sixty_answers_takes_about_two_weeks() -> None:
    reported = [judge_delay([5, number], 60, 0.05, 60) for number in range(30)]
    assert 5 <= median(reported) <= 16
    assert sum(judge_delay([5, number], 60, 0.0, 365) <= 365 for number in range(20)) <= 6

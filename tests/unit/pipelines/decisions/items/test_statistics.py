"""Statistics of items on simulated models: what is flipped is found, and a subset stands for the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.decisions.items.statistics import (
    SUSPECT_ODDS,
    compact_subset,
    discrimination,
    shares_right,
    suspicions,
)

OPTIONS = 4


def simulated(
    seed: int, models: int = 12, items: int = 500, flipped: float = 0.02
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]:
    """Return rights, answers and flipped labels of a two-parameter model with guessing and a popular distractor."""
    rng = np.random.default_rng(seed)
    ability, slope, hardness = rng.normal(0.5, 1, models), np.exp(rng.normal(0, 0.3, items)), rng.normal(0, 1, items)
    p = 1 / OPTIONS + (1 - 1 / OPTIONS) / (1 + np.exp(-slope * (ability[:, None] - hardness)))
    truth = rng.integers(0, OPTIONS, items)
    popular = (truth + 1 + rng.integers(0, OPTIONS - 1, items)) % OPTIONS
    other = (truth + 1 + rng.integers(0, OPTIONS - 1, (models, items))) % OPTIONS
    wrong = np.where(rng.random((models, items)) < 0.6, popular, other)
    answers = np.where(rng.random((models, items)) < p, truth, wrong)
    is_flipped = rng.random(items) < flipped
    label = np.where(is_flipped, (truth + 1 + rng.integers(0, OPTIONS - 1, items)) % OPTIONS, truth)
    return (answers == label).astype(float), answers.astype(str).astype(object), is_flipped


@pytest.mark.parametrize("models", [8, 12, 50])
def test_flipped_labels_are_suspect(models: int) -> None:
    hits = suspects = flips = 0
    for seed in range(10):
        right, answers, is_flipped = simulated(seed, models)
        suspect = np.array([s is not None and s.odds >= SUSPECT_ODDS for s in suspicions(right, answers)])
        hits, suspects, flips = hits + (suspect & is_flipped).sum(), suspects + suspect.sum(), flips + is_flipped.sum()
    assert hits / flips >= 0.8
    assert hits / suspects >= 0.5


def test_suspicion_names_the_answer_and_its_models() -> None:
    answers = np.array([["A", "B"], ["A", "B"], ["A", "B"], ["A", "C"], ["A", None]], dtype=object)
    right = np.array([[1.0, 0], [1, 0], [1, 0], [1, 1], [1, np.nan]])
    first, second = suspicions(right, answers)
    assert first is None
    assert second is not None
    assert (second.answer, second.models) == ("B", 3)


def test_subset_is_nearer_than_a_random_one_of_its_size() -> None:
    right, _, _ = simulated(3)
    compact = compact_subset(right, shares=(0.1,))
    assert len(compact.places) == 50
    rng = np.random.default_rng(0)
    draws = [rng.choice(500, 50, replace=False) for _ in range(200)]
    errors = [abs(right[:, places].mean(axis=1) - right.mean(axis=1)).mean() for places in draws]
    assert compact.mean_error < np.mean(errors)
    assert compact.mean_error <= compact.largest_error


def test_discrimination_is_the_correlation_with_the_rest() -> None:
    right, _, _ = simulated(5, models=9, items=6)
    rest = (right.sum(axis=1, keepdims=True) - right) / 5
    expected = [np.corrcoef(right[:, i], rest[:, i])[0, 1] if right[:, i].std() else np.nan for i in range(6)]
    np.testing.assert_allclose(discrimination(right), expected)


def test_missing_scores_are_not_zero() -> None:
    right = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]])
    shares = shares_right(right)
    assert shares[0] == 0.5
    assert np.isnan(shares[1])

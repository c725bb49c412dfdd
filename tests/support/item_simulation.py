"""Simulated answers of models to items, some with flipped labels, and models of equal or known accuracy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jobs.leaderboard.create import PairReader, rank_ranges
from jobs.leaderboard.rows import LeaderboardRow
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric

OPTIONS = 4
Simulated: TypeAlias = tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]


def simulated(
    seed: int,
    models: int = 12,
    items: int = 500,
    flipped: float = 0.02,
    *,
    mean: float = 0.5,
    families: int = 0,
    is_rasch: bool = False,
) -> Simulated:
    """Return rights, answers and flipped labels of a two-parameter model with guessing and a popular distractor.

    Models of a family find the same items easy or hard. By a Rasch model slopes are equal and nobody guesses.
    """
    rng = np.random.default_rng(seed)
    ability, slope, hardness = rng.normal(mean, 1, models), np.exp(rng.normal(0, 0.3, items)), rng.normal(0, 1, items)
    slope, guess = (np.ones(items), 0.0) if is_rasch else (slope, 1 / OPTIONS)
    shift = rng.normal(0, 1, (families, items))[np.arange(models) % families] if families else 0.0
    p = guess + (1 - guess) / (1 + np.exp(-slope * (ability[:, None] - hardness + shift)))
    truth = rng.integers(0, OPTIONS, items)
    popular = (truth + 1 + rng.integers(0, OPTIONS - 1, items)) % OPTIONS
    other = (truth + 1 + rng.integers(0, OPTIONS - 1, (models, items))) % OPTIONS
    wrong = np.where(rng.random((models, items)) < 0.6, popular, other)
    answers = np.where(rng.random((models, items)) < p, truth, wrong)
    is_flipped = rng.random(items) < flipped
    label = np.where(is_flipped, (truth + 1 + rng.integers(0, OPTIONS - 1, items)) % OPTIONS, truth)
    return (answers == label).astype(float), answers.astype(str).astype(object), is_flipped


def coin_tosses(seed: int, models: int = 6, items: int = 400) -> Simulated:
    """Return rights and answers of models that toss coins; no label is flipped."""
    rng = np.random.default_rng(seed)
    answers, label = rng.integers(0, 2, (models, items)), rng.integers(0, 2, items)
    return (answers == label).astype(float), answers.astype(str).astype(object), np.zeros(items, dtype=bool)


class SimulatedPairs(PairReader):
    """Gives the paired rows of simulated models by their names."""

    def __init__(self, right: NDArray[Any]) -> None:
        """Keep (models, rows)."""
        self.right = right.astype(float)

    def metric(self, a: LeaderboardRow, b: LeaderboardRow) -> PairedMetric:
        """Return the mean of the rows of two models."""
        sides = self.right[int(a.model)], self.right[int(b.model)]
        return PairedMetric.mean(*sides, np.arange(self.right.shape[1]), task="", setting="", metric="accuracy")


def simulated_ranges(right: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the ranges of models that are right, (models, rows)."""
    board = ("maia", "accuracy", "t", "s", "")
    names = [
        LeaderboardRow(board=board, model=str(n), value=float(line.mean()), unit="fraction", source="")
        for n, line in enumerate(right)
    ]
    return rank_ranges(names, SimulatedPairs(right))

"""Proportions over MATE's scored rows with intervals, all of one model on the same draws of scenes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.base import Metric
from pipelines.metrics.stats import LEVEL, FloatArray, bootstrap_replicates

__all__ = ["Measure", "Scored", "with_intervals"]


@dataclass(frozen=True, slots=True)
class Scored:
    """A value of each answered row, 0 or 1, and the scene that the row asks about."""

    values: FloatArray
    scenes: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: NDArray[np.bool_]) -> Scored:
        """Those rows."""
        return Scored(self.values[chosen], self.scenes[chosen])

    def same(self, value: float) -> Scored:
        """Whether it is this value, row by row."""
        return Scored((self.values == value).astype(np.float64), self.scenes)

    @property
    def total(self) -> int:
        """How many are 1."""
        return int(self.values.sum())


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric without interval, and the rows whose share it is; of several, the mean of their shares."""

    metric: Metric
    parts: tuple[Scored, ...] = ()


def with_intervals(measures: Sequence[Measure]) -> list[Metric]:
    """The metrics in their order; those that have rows of two scenes or more get the ends of the 95% bootstrap.

    Scenes are drawn, with all rows that ask about one; a number's draws are those of all others.
    """
    parts = [part for one in measures for part in one.parts]
    if not parts:
        return [one.metric for one in measures]
    drawn = iter(_drawn_shares(parts).T)
    return [_bounded(one, [next(drawn) for _ in one.parts]) for one in measures]


def _bounded(one: Measure, drawn: Sequence[FloatArray]) -> Metric:
    value = one.metric.value
    if value is None or not drawn or len(np.unique(np.concatenate([part.scenes for part in one.parts]))) < 2:
        return one.metric
    means = sum(drawn[1:], start=drawn[0]) / len(drawn)
    ends = np.quantile(means[~np.isnan(means)], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    # Where all draws agree, the arithmetic's noise must not put the value outside of its interval.
    low, high = (value if math.isclose(end, value, abs_tol=1e-12) else end for end in ends)
    return replace(one.metric, ci_low=low, ci_high=high)


def _drawn_shares(parts: Sequence[Scored]) -> FloatArray:
    """The share of every part on every draw of scenes, (draws, parts); NaN on a draw without any of its scenes."""
    scenes, places = np.unique(np.concatenate([part.scenes for part in parts]).astype(np.str_), return_inverse=True)
    totals = np.zeros((len(scenes), 2 * len(parts)))
    start = 0
    for column, part in enumerate(parts):
        own = places[start : start + len(part)]
        start += len(part)
        totals[:, column] = np.bincount(own, weights=part.values, minlength=len(scenes))
        totals[:, len(parts) + column] = np.bincount(own, minlength=len(scenes))
    sums: list[FloatArray] = []

    def collect(_: FloatArray, weights: FloatArray) -> FloatArray:
        sums.append(weights @ totals)
        return np.zeros(len(weights))

    bootstrap_replicates(np.zeros(len(scenes)), statistic=collect)
    drawn = np.concatenate(sums)
    with np.errstate(invalid="ignore"):
        shares: FloatArray = drawn[:, : len(parts)] / drawn[:, len(parts) :]
    return shares

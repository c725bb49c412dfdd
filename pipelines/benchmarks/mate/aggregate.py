"""Proportions over MATE's scored rows with intervals, all of one model on the same draws of scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import FloatArray, drawn_ratios, interval_of


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
class MetricSpec:
    """A metric without interval, and the rows whose share it is; of several, the mean of their shares."""

    metric: Metric
    parts: tuple[Scored, ...] = ()


def with_intervals(measures: Sequence[MetricSpec]) -> list[Metric]:
    """The metrics in their order; those that have rows of two scenes or more get the ends of the 95% bootstrap.

    Scenes are drawn, with all rows that ask about one; a number's draws are those of all others.
    """
    parts = [part for one in measures for part in one.parts]
    if not parts:
        return [one.metric for one in measures]
    drawn = iter(_drawn_shares(parts).T)
    return [_bounded(one, [next(drawn) for _ in one.parts]) for one in measures]


def _bounded(one: MetricSpec, drawn: Sequence[FloatArray]) -> Metric:
    value = one.metric.value
    if value is None or not drawn or len(np.unique(np.concatenate([part.scenes for part in one.parts]))) < 2:
        return one.metric
    ends = interval_of(sum(drawn[1:], start=drawn[0]) / len(drawn), value)
    return replace(one.metric, ci_low=ends.low, ci_high=ends.high) if ends else one.metric


def _drawn_shares(parts: Sequence[Scored]) -> FloatArray:
    """The share of every part on every draw of scenes, (draws, parts); NaN on a draw without any of its scenes."""
    names = np.concatenate([part.scenes for part in parts]).astype(np.str_)
    scenes, places = np.unique(names, return_inverse=True)
    own = np.split(places, np.cumsum([len(part) for part in parts])[:-1])
    pairs = list(zip(parts, own, strict=True))
    totals = [np.bincount(at, weights=part.values, minlength=len(scenes)) for part, at in pairs]
    sizes = [np.bincount(at, minlength=len(scenes)) for _, at in pairs]
    return drawn_ratios(np.stack(totals, axis=1), np.stack(sizes, axis=1))

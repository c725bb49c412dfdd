"""Macro F1 from counts of right answers, on the rows themselves and on resamples of clusters.

An answer of two labels is right or wrong, so that macro F1 needs no more than the right ones of each class. One draw of
clusters serves all metrics of a group, where drawing for each takes twenty times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.stats import LEVEL, RESAMPLES, FloatArray, Interval, bootstrap_replicates

Bools: TypeAlias = NDArray[np.bool_]
_EMPTY: Final = 1e-12  # below any count


def macro(right_e: FloatArray, right_c: FloatArray, rows: FloatArray) -> FloatArray:
    """Macro F1 over the classes present in gold or answers.

    Args:
        right_e: right answers among rows of entailment, one number a draw.
        right_c: the same of contradiction.
        rows: rows of both.

    Returns:
        A fraction a draw; NaN without rows.
    """
    wrong = rows - right_e - right_c
    total, present = np.zeros_like(wrong), np.zeros_like(wrong)
    for right in (right_e, right_c):
        size = 2 * right + wrong
        total += np.divide(2 * right, size, out=np.zeros_like(size), where=size > _EMPTY)
        present += size > _EMPTY
    found: FloatArray = np.divide(total, present, out=np.full_like(total, np.nan), where=present > 0)
    return found


def mean(found: FloatArray, rows: FloatArray) -> FloatArray:
    """A share of rows a draw; NaN without rows."""
    share: FloatArray = np.divide(found, rows, out=np.full_like(found, np.nan), where=rows > 0)
    return share


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A number that follows from sums over rows."""

    name: str
    columns: tuple[Bools, ...]
    """(rows,) each."""
    statistic: Callable[..., FloatArray]
    """From the sum of each column, one number a draw, to the value on each draw."""

    @property
    def value(self) -> float | None:
        """On the rows themselves; None where it has none."""
        value = float(self.statistic(*(np.array([float(np.count_nonzero(column))]) for column in self.columns))[0])
        return None if np.isnan(value) else value


def f1_measure(name: str, entailment: Bools, right: Bools) -> MetricSpec:
    """Macro F1 of answers that are right or wrong."""
    return MetricSpec(
        name=name, columns=(right & entailment, right & ~entailment, np.ones_like(right)), statistic=macro
    )


def share_measure(name: str, found: Bools, counted: Bools | None = None) -> MetricSpec:
    """A share of the rows that count, or of all."""
    counted = np.ones_like(found) if counted is None else counted
    return MetricSpec(name=name, columns=(found & counted, counted), statistic=mean)


def intervals(measures: Sequence[MetricSpec], clusters: NDArray[Any]) -> list[Interval | None]:
    """Ends of the middle 95% of each measure over resamples of clusters, those of `metrics.stats.bootstrap_ci`.

    Args:
        measures: all over the same rows.
        clusters: (rows,), what is resampled.

    Returns:
        One each; None with fewer than two clusters, or where no draw has a value.
    """
    names, numbers = np.unique(clusters, return_inverse=True)
    if len(names) < 2 or not measures:
        return [None] * len(measures)
    sums = iter(_sums([column for one in measures for column in one.columns], numbers.reshape(-1), len(names)))
    return [_ends(one.statistic(*(next(sums) for _ in one.columns))) for one in measures]


def _sums(columns: Sequence[Bools], numbers: NDArray[np.intp], count: int) -> list[FloatArray]:
    """Each column's sum on every draw. Counts this small are exact in single precision."""
    totals = np.stack([np.bincount(numbers, weights=column, minlength=count) for column in columns], 1)
    return list((_draws(count) @ totals.astype(np.float32)).T.astype(np.float64))


def _ends(replicates: FloatArray) -> Interval | None:
    found = replicates[~np.isnan(replicates)]
    if not found.size:
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return Interval(float(low), float(high))


def better_p(entailment: Bools, right_a: Bools, right_b: Bools) -> float:
    """One-sided p of "A has the higher macro F1 than B" on the same rows, by resampling rows (Koehn 2004).

    Args:
        entailment: (rows,), whether gold is entailment.
        right_a: (rows,), A's answers that count as right.
        right_b: (rows,), B's.

    Returns:
        (1 + draws on which A is not better) / (draws + 1).
    """
    columns = (right_a & entailment, right_a & ~entailment, right_b & entailment, right_b & ~entailment)
    both = _sums(columns, np.arange(len(entailment)), len(entailment))
    size = np.full_like(both[0], len(entailment))
    gain = macro(both[0], both[1], size) - macro(both[2], both[3], size)
    return (1 + int(np.count_nonzero(~(gain > 0)))) / (RESAMPLES + 1)


def all_entailment(entailment: int, contradiction: int) -> float:
    """Macro F1 of a model that always says entailment."""
    one = np.array([float(entailment)])
    return float(macro(one, np.zeros(1), one + contradiction)[0])


@lru_cache(maxsize=64)
def coin_flip(entailment: int, contradiction: int) -> float:
    """Macro F1 that a fair coin has in the mean, exactly: over all numbers of right answers of either class."""
    from scipy.stats import binom

    e, c = np.arange(entailment + 1.0), np.arange(contradiction + 1.0)
    chance = np.outer(binom.pmf(e, entailment, 0.5), binom.pmf(c, contradiction, 0.5))
    right_e, right_c = np.meshgrid(e, c, indexing="ij")
    value = macro(right_e.ravel(), right_c.ravel(), np.full(chance.size, float(entailment + contradiction)))
    return float((value * chance.ravel()).sum())


@lru_cache(maxsize=12)
def _draws(clusters: int) -> NDArray[np.float32]:
    """How often each cluster is drawn, (draws, clusters)."""
    every = np.arange(clusters)
    counts = bootstrap_replicates(every, every, statistic=lambda _values, weights: weights).astype(np.float32)
    counts.setflags(write=False)
    return counts

"""Intervals written out from their definitions, row by row: what the product's are tested against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import fractional_matrix_power
from scipy.stats import norm
from scipy.stats import t as student

DOUBT = 0.8


def share_ends(values: Sequence[float], clusters: list[Any]) -> tuple[float, float]:
    """Return Wilson's interval of a share with Student's t, or z of independent rows, and the effective rows."""
    n, names = len(values), sorted(set(clusters))
    k, p = len(names), sum(values) / n
    variance = float(((_adjusted(clusters) @ np.array(values)) ** 2).sum())
    rows = min(n, p * (1 - p) / variance) if variance > 1e-15 else k
    squares = sum(clusters.count(name) ** 2 for name in names)
    worth = min(k, n**2 / squares)  # Kish's number of clusters
    if variance > 1e-15 and rows > worth:
        rare = {name for value, name in zip(values, clusters, strict=True) if value == (p <= 0.5)}
        doubt = min(DOUBT ** len(rare), abs(1 - 2 * p) ** k)
        rows = 1 / (doubt / worth + (1 - doubt) / rows)
    if k == n:
        return _wilson(p, rows, float(norm.ppf(0.975)))
    ends = [_wilson(p, rows, float(student.ppf(0.975, freedom(clusters))))]
    if 0 < p < 1:
        shared = _correlation(values, clusters, p)
        rows = 1 / (shared * squares / n**2 + (1 - shared) / n)
        ends.append(_wilson(p, rows, float(student.ppf(0.975, k - 1))))
    return min(low for low, _ in ends), max(high for _, high in ends)


def _wilson(p: float, rows: float, z: float) -> tuple[float, float]:
    center, reach = p + z**2 / (2 * rows), z * math.sqrt(p * (1 - p) / rows + z**2 / (4 * rows**2))
    return (center - reach) / (1 + z**2 / rows), (center + reach) / (1 + z**2 / rows)


def _correlation(values: Sequence[float], clusters: list[Any], p: float) -> float:
    """Return 1 less how often a row differs from another of its cluster, relative to rows without a correlation."""
    differ = []
    for row, (value, cluster) in enumerate(zip(values, clusters, strict=True)):
        others = [values[other] for other in range(len(values)) if other != row and clusters[other] == cluster]
        if others:
            differ.append(float(np.mean([other != value for other in others])))
    return min(1.0, max(0.0, 1 - float(np.mean(differ)) / (2 * p * (1 - p))))


def freedom(clusters: Sequence[Any]) -> float:
    """Return Bell and McCaffrey's degrees of freedom (2002) of the variance of a mean of rows."""
    rows = _adjusted(clusters)
    covariance = rows @ rows.T
    return float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance))


def _adjusted(clusters: Sequence[Any]) -> NDArray[Any]:
    """Return the matrix that takes rows to the terms of the mean's CR2 variance, (clusters, rows)."""
    n, parts = len(clusters), []
    residual = np.eye(n) - np.ones((n, n)) / n
    for name in sorted(set(clusters)):
        here = np.flatnonzero([cluster == name for cluster in clusters])
        correction = fractional_matrix_power(residual[np.ix_(here, here)], -0.5).real
        parts.append(np.ones(len(here)) @ correction @ residual[here] / n)
    return np.array(parts)


def jackknife_ends(
    statistic: Callable[[Sequence[int]], float], clusters: Sequence[Any], *, logit: bool = False
) -> tuple[float, float]:
    """Return the t interval of a statistic of rows, given by their indices, from leaving out one cluster at a time."""
    names, rows = sorted(set(clusters)), range(len(clusters))
    value = statistic(list(rows))
    without = np.array([statistic([row for row in rows if clusters[row] != name]) for name in names])
    left = np.array([sum(clusters[row] != name for row in rows) for name in names]) / len(rows)
    error = math.sqrt(float(np.sum(left * (without - np.average(without, weights=left)) ** 2)))
    z = float(student.ppf(0.975, freedom(clusters)))
    if not logit:
        return value - z * error, value + z * error
    center, reach = math.log(value / (1 - value)), z * error / (value * (1 - value))
    low, high = (1 / (1 + math.exp(-(center + side))) for side in (-reach, reach))
    return low, high


def mean_ends(values: Sequence[float], clusters: Sequence[Any]) -> tuple[float, float]:
    """Return the jackknife's interval of a mean."""
    return jackknife_ends(lambda rows: float(np.mean([values[row] for row in rows])), clusters)

"""Intervals written out from their definitions, row by row: what the product's are tested against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student


def share_ends(values: Sequence[float], clusters: Sequence[Any]) -> tuple[float, float]:
    """Return Wilson's interval of a share with Student's t and the effective number of rows."""
    n, names = len(values), sorted(set(clusters))
    k, p = len(names), sum(values) / n
    sums = [sum(x - p for x, name in zip(values, clusters, strict=True) if name == cluster) for cluster in names]
    variance = k / (k - 1) * sum(total**2 for total in sums) / n**2
    rows = min(n, p * (1 - p) / variance) if variance > 1e-15 else n
    z = float(student.ppf(0.975, k - 1))
    center, reach = p + z**2 / (2 * rows), z * math.sqrt(p * (1 - p) / rows + z**2 / (4 * rows**2))
    return (center - reach) / (1 + z**2 / rows), (center + reach) / (1 + z**2 / rows)


def jackknife_ends(
    statistic: Callable[[Sequence[int]], float], clusters: Sequence[Any], *, logit: bool = False
) -> tuple[float, float]:
    """Return the t interval of a statistic of rows, given by their indices, from leaving out one cluster at a time."""
    names, rows = sorted(set(clusters)), range(len(clusters))
    value = statistic(list(rows))
    without = [statistic([row for row in rows if clusters[row] != name]) for name in names]
    k = len(names)
    error = math.sqrt((k - 1) / k * float(np.sum((np.array(without) - np.mean(without)) ** 2)))
    z = float(student.ppf(0.975, k - 1))
    if not logit:
        return value - z * error, value + z * error
    center, reach = math.log(value / (1 - value)), z * error / (value * (1 - value))
    low, high = (1 / (1 + math.exp(-(center + side))) for side in (-reach, reach))
    return low, high


def mean_ends(values: Sequence[float], clusters: Sequence[Any]) -> tuple[float, float]:
    """Return the jackknife's interval of a mean."""
    return jackknife_ends(lambda rows: float(np.mean([values[row] for row in rows])), clusters)

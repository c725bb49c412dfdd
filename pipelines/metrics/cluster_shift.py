"""Whether differences of rows have mean 0, with clusters that share media as the independent unit."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray, student_p

LEAST_CLUSTERS: Final = 20
"""With fewer clusters than these the tail is Student's."""


def sums_by(clusters: NDArray[Any], values: FloatArray) -> FloatArray:
    """Return the sum of each cluster's values."""
    return np.bincount(np.unique(clusters, return_inverse=True)[1].reshape(-1), values).astype(np.float64)


def shift_p(differences: FloatArray, clusters: NDArray[Any], tail: float = 1.0) -> float:
    """Return the two-sided p-value that differences of samples, (samples,), have mean 0; 1 without any.

    Clusters are the independent unit. With at least `LEAST_CLUSTERS` their signs are random: the normal tail of their
    sum times `tail`. With fewer it is Student's, and the error at least that of samples that differ independently.
    """
    sums = sums_by(clusters, differences)
    squares, count = float(np.square(sums).sum()), len(sums)
    if count < 2 or math.sqrt(squares) <= 1e-12 * len(differences):
        return 1.0
    total = float(sums.sum())
    if count >= LEAST_CLUSTERS:
        return min(1.0, tail * math.erfc(abs(total) / math.sqrt(2 * squares)))
    between = count / (count - 1) * float(np.square(sums - sums.mean()).sum())
    return student_p(total / math.sqrt(max(between, float(np.square(differences).sum()))), count - 1)

"""Evidence that a score has changed, added up over nights.

A CUSUM (Page 1954) sums by how many standard errors a night lies above, or below, the mean of all nights before it.
Such distances are uncorrelated while nothing changes, although all nights share the ones before them. Their error comes
from the nights: the squared distance of each cluster. Sums of half a standard error a night or less return to 0. The
nights since the last 0 are compared with those before it by cluster: few answers, or answers that moved in both
directions and stayed, as after another version of a library, are no change of the score.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.cluster_shift import shift_p, sums_by
from pipelines.metrics.intervals import FloatArray

ALLOWANCE: Final = 0.5
"""Standard errors that each night takes off the sums."""
SAMPLES_P: Final = 0.002
"""A change over nights is one of the samples too if its p-value over clusters is below."""
_OVERSHOOT: Final = 1.166  # of a normal sum over its limit (Siegmund 1985)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accumulated:
    """What the nights of a level say of a score; samples that a night lacks keep their mean."""

    samples: NDArray[Any]  # (samples,), of the first night
    clusters: NDArray[Any]  # (samples,)
    weights: FloatArray  # (samples,), rows
    before: FloatArray  # (samples,), means over the nights before the sums left 0
    after: FloatArray  # (samples,), means over the nights since then
    nights_before: int = 1
    nights_after: int = 0
    up: float = 0.0
    down: float = 0.0
    noise: float = 0.0
    """Sum over nights of the variance of the score's sum from night to night."""

    @classmethod
    def start(cls, samples: NDArray[Any], clusters: NDArray[Any], weights: FloatArray, means: FloatArray) -> Self:
        """Return the state after the first night."""
        return cls(samples=samples, clusters=clusters, weights=weights, before=means, after=np.zeros(len(means)))

    @property
    def mean(self) -> FloatArray:
        """The mean of each sample over all nights."""
        nights = self.nights_before + self.nights_after
        mean: FloatArray = (self.nights_before * self.before + self.nights_after * self.after) / nights
        return mean

    def add(self, samples: NDArray[Any], means: FloatArray) -> Self:
        """Add a night's means by sample."""
        nights, mean = self.nights_before + self.nights_after, self.mean
        tonight = _aligned(self.samples, mean, samples, means)
        distances = (tonight - mean) * self.weights * math.sqrt(nights / (nights + 1))
        noise = self.noise + float(np.square(sums_by(self.clusters, distances)).sum())
        z = float(distances.sum()) / math.sqrt(noise / nights) if noise > 0 else 0.0
        up, down = max(0.0, self.up + z - ALLOWANCE), max(0.0, self.down - z - ALLOWANCE)
        changed = replace(self, up=up, down=down, noise=noise)
        if not (up or down):
            after = np.zeros(len(tonight))
            return replace(
                changed, before=mean + (tonight - mean) / (nights + 1), after=after, nights_before=nights + 1,
                nights_after=0,
            )  # fmt: skip
        after = self.after + (tonight - self.after) / (self.nights_after + 1)
        return replace(changed, after=after, nights_after=self.nights_after + 1)

    def p(self, rate: float) -> float | None:
        """Return the p-value over clusters if nights and samples both say that the score changed, else None.

        `rate` is how many false alarms a night the nights may give, for this score.
        """
        if not self.nights_after or max(self.up, self.down) < math.log(1 / rate) - _OVERSHOOT:
            return None
        differences = (self.after - self.before) * self.weights
        p = shift_p(differences, self.clusters)
        return p if p < SAMPLES_P and (differences.sum() > 0) == (self.up > self.down) else None

    @property
    def means(self) -> tuple[float, float]:
        """The means before and since, weighted by rows."""
        before, after = (float(np.average(means, weights=self.weights)) for means in (self.before, self.after))
        return before, after


def _aligned(names: NDArray[Any], earlier: FloatArray, samples: NDArray[Any], means: FloatArray) -> FloatArray:
    """Return a night's means of the samples with these names, those that it lacks as `earlier`."""
    if np.array_equal(names, samples):
        return means
    tonight = earlier.copy()
    _, here, there = np.intersect1d(names, samples, assume_unique=True, return_indices=True)
    tonight[here] = means[there]
    return tonight

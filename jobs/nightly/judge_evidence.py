"""Evidence that a judge accepts another share than before, added up over nights.

While nothing changes, the verdicts of a cluster then and now may be swapped, so that the sign of their difference is a
toss. A bet of size b on one sign multiplies by exp(b d) / cosh(b d) for a difference d: an e-value, whose mean is at
most 1. The sum of the bets that begin in each night (Shin, Ramdas and Rinaldo 2022, "E-detectors", arXiv 2203.03532)
passes a limit after as many nights on average, or later, whatever the judge's noise.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from jobs.nightly.regressions import ALPHA
from pipelines.metrics.cluster_shift import sums_by
from pipelines.metrics.intervals import FloatArray

_SIZES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_BETS: Final = np.array([sign * size for size in _SIZES for sign in (-1, 1)])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JudgeEvidence:
    """What nights say of one of so many `numbers`."""

    numbers: int
    nights: int = 0
    logs: FloatArray = field(default_factory=lambda: np.full(len(_BETS), -math.inf))
    """Logarithm of each bet's sum over the nights in which it may have begun."""

    def add(self, differences: FloatArray, clusters: NDArray[Any]) -> Self:
        """Add a night's differences, now less then, (answers,)."""
        bets = np.outer(_BETS, sums_by(clusters, differences))
        gains = (bets - (np.logaddexp(bets, -bets) - math.log(2))).sum(axis=1)
        return replace(self, logs=np.logaddexp(self.logs, 0.0) + gains, nights=self.nights + 1)

    @property
    def rate(self) -> float:
        """How many false alarms a night a limit at this evidence would give, for all numbers; at most 1."""
        mean = float(np.logaddexp.reduce(self.logs)) - math.log(len(_BETS)) if self.nights else 0.0
        return min(1.0, self.numbers * math.exp(-max(0.0, min(mean, 700.0))))

    @property
    def is_alarm(self) -> bool:
        """Whether somebody should look."""
        return self.rate < ALPHA

"""What people's labels of some rows are worth: whether these are a random part of all, and how often people err."""

import math
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.cluster_shift import shift_p
from pipelines.metrics.intervals import FloatArray, Term

_MOST_SPLIT: Final = 0.45
"""Two people who disagree as often as this, or more, are near to tossing coins: their labels correct nothing."""
_STEP: Final = 1e-6
_NOTHING: Final = 1e-12
PSEUDO_WEIGHT: Final = 0.65
"""Of each pseudo row in the interval, as Agresti and Min (2005) add 0.5: few labels without an error prove no perfect
judge. With 0.5 intervals of 30 labels cover 91% where most answers are accepted; this is by simulation."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Votes:
    """The people behind each row's label, (rows,) each."""

    counts: FloatArray  # people of the majority that is the label; NaN for one of unknown origin
    split: FloatArray  # share of the row's pairs of people that disagree, ties too; NaN with fewer than two people


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDraw:
    """Whether the judge accepts the labelled rows as often as the others, as a random draw of labels would have it."""

    inside: float  # share accepted of the labelled rows
    outside: float | None  # and of the others; None without any
    p: float | None  # two-sided, by cluster within strata; None where nothing can differ

    @classmethod
    def of(
        cls, verdicts: FloatArray, labelled: NDArray[np.bool_], clusters: NDArray[Any], strata: NDArray[Any]
    ) -> Self:
        """Test the covariance of verdict and label within strata."""
        inside, outside = verdicts[labelled], verdicts[~labelled]
        products = np.zeros(len(verdicts))
        for name in np.unique(strata):
            rows = strata == name
            products[rows] = (labelled[rows] - labelled[rows].mean()) * (verdicts[rows] - verdicts[rows].mean())
        p = shift_p(products, clusters) if np.abs(products).max() > _NOTHING else None
        return cls(inside=float(inside.mean()), outside=float(outside.mean()) if len(outside) else None, p=p)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PeopleErrors:
    """How often people err, from how often two of them disagree about a row."""

    rate: float
    split: FloatArray  # (rows,), of the rows that two people or more labelled
    clusters: NDArray[Any]  # (rows,)

    @classmethod
    def of(cls, split: FloatArray, clusters: NDArray[Any]) -> Self | None:
        """Return the rate e with 2 e (1 - e) disagreements; None without a row of two people, or with half and more."""
        twice = ~np.isnan(split)
        if not twice.any() or (disagree := float(split[twice].mean())) >= _MOST_SPLIT:
            return None
        rate = (1 - math.sqrt(1 - 2 * disagree)) / 2
        return cls(rate=rate, split=split[twice], clusters=clusters[twice].astype(str))

    def corrected(self, labels: FloatArray, votes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return labels whose mean has no error of people, and their slope in `rate`."""
        wrong, slope = (np.zeros(len(labels)) for _ in range(2))
        votes = np.nan_to_num(votes, nan=1.0)
        for count in np.unique(votes):
            has_count = votes == count
            wrong[has_count] = self._majority(int(count), self.rate)
            step = (self._majority(int(count), self.rate + _STEP) - wrong[has_count]) / _STEP
            slope[has_count] = step
        spread = 1 - 2 * wrong
        return (labels - wrong) / spread, slope * (2 * labels - 1) / spread**2

    def term(self, slope: float) -> Term:
        """Return what the uncertainty of the rate adds to a number with this slope in it."""
        disagree = float(self.split.mean())
        columns = sums_and_weights(self.split - disagree, np.ones(len(self.split)))
        pseudo = sums_and_weights(np.array([1.0, 0.0]) - disagree, np.full(2, PSEUDO_WEIGHT))
        names = np.resize(np.unique(self.clusters), 2)
        return Term(
            np.vstack([columns, pseudo]),
            np.concatenate([self.clusters, names]),
            weight=slope / (2 * (1 - 2 * self.rate)),
        )

    @staticmethod
    def _majority(votes: int, rate: float) -> float:
        """Return how often the majority of so many people is wrong, given that it is no tie."""
        wrong, right = (
            sum(math.comb(votes, k) * p**k * (1 - p) ** (votes - k) for k in range(votes // 2 + 1, votes + 1))
            for p in (rate, 1 - rate)
        )
        return wrong / (wrong + right)


def sums_and_weights(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the columns of a ratio: values by their weights, and weights."""
    return np.stack([values * weights, weights], axis=1)

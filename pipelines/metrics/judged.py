"""A share from a judge's verdicts on all rows, corrected by people's labels on some: prediction-powered inference.

Angelopoulos, Duchi and Zrnic (2023, "PPI++", arXiv 2311.01453): the weighted mean of all verdicts, plus the mean of
what labels are above the weighted verdicts of their rows. The weight is the one of least variance. Where two people
labelled the same rows, their disagreement says how often people err, which the value and its interval allow for: people
count as equally good, and as independent.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray, Term, ratio, shift_p, student_quantile, variance_between

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


LEAST_LABELS: Final = 2  # of a stratum, for weights of strata; and clusters with labels, for an interval
_PSEUDO: Final = np.array([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])  # label and verdict


@dataclass(frozen=True, slots=True, eq=False)
class Corrected:
    """A corrected share."""

    value: float
    weight: float  # of the verdicts; 0: the mean of the labels alone
    labels: int
    rows: int  # that were judged
    terms: tuple[Term, ...]
    """Of the interval: verdicts, errors of the labelled rows with the pseudo rows, and what people's errors add."""
    draw: LabelDraw
    people: PeopleErrors | None = None  # None where no two people labelled a row, or they agree as tossed coins do

    def labels_for(self, reach: float) -> int | None:
        """Return with about how many labels in all the 95% interval reaches this far to either side; None: with none.

        What labels cannot reduce is the variance of the verdicts between clusters.
        """
        verdicts, errors, *_ = self.terms
        total, label_variance = variance_between(self.terms), variance_between([errors])
        fixed = max(total - label_variance, 0.0)
        room = (reach / student_quantile(max(1, len(np.unique(verdicts.clusters)) - 1))) ** 2 - fixed
        labels = math.ceil(self.labels * label_variance / room) if room > 0 else self.rows + 1
        return labels if labels <= self.rows else None


def corrected(
    verdicts: FloatArray,
    labels: FloatArray,
    clusters: NDArray[Any],
    *,
    judged: NDArray[np.bool_] | None = None,
    strata: NDArray[Any] | None = None,
    votes: Votes | None = None,
) -> Corrected | None:
    """Correct the mean of verdicts, (rows,), by labels, (rows,), NaN where nobody labelled.

    Args:
        verdicts: 0 or 1, by a rule where not `judged`.
        labels: 0 or 1; those of rows that were not judged count for nothing.
        clusters: what shares media or origin.
        judged: which rows a judge decided; None for all.
        strata: by which labels are weighted to the judged rows, where each stratum has at least two.
        votes: the people behind each label; None for one each.

    Returns:
        None with fewer than two clusters with labels.
    """
    is_judged = np.ones(len(verdicts), dtype=np.bool_) if judged is None else judged
    labelled = is_judged & ~np.isnan(labels)
    if len(np.unique(clusters[labelled])) < LEAST_LABELS:
        return None
    paired, given = verdicts[labelled], labels[labelled]
    people, slopes = None, np.zeros(len(given))
    if votes and (people := PeopleErrors.of(np.where(is_judged, votes.split, np.nan), clusters)):
        given, slopes = people.corrected(given, votes.counts[labelled])
    weights = np.ones(len(given)) if strata is None else _weights(strata[is_judged], strata[labelled])
    weight = _weight(verdicts[is_judged], paired, given)
    first = Term(sums_and_weights(np.where(is_judged, weight * verdicts, verdicts), np.ones(len(verdicts))), clusters)
    share = float(is_judged.mean())
    errors = Term(sums_and_weights(given - weight * paired, weights), clusters[labelled].astype(str), weight=share)
    pseudo = sums_and_weights(_PSEUDO[:, 0] - weight * _PSEUDO[:, 1], np.full(len(_PSEUDO), PSEUDO_WEIGHT))
    names = np.resize(np.unique(errors.clusters), len(_PSEUDO))  # as clusters of their own they would add freedom
    padded = replace(
        errors, columns=np.vstack([errors.columns, pseudo]), clusters=np.concatenate([errors.clusters, names])
    )
    people_term = people.term(share * float(np.average(slopes, weights=weights))) if people else None
    value = sum(term.weight * float(ratio(*term.columns.sum(axis=0))) for term in (first, errors))
    terms = (replace(first, clusters=clusters.astype(str)), padded, *([people_term] if people_term else []))
    names = np.zeros(len(verdicts)) if strata is None else strata
    draw = LabelDraw.of(verdicts[is_judged], labelled[is_judged], clusters[is_judged], names[is_judged])
    return Corrected(min(max(value, 0.0), 1.0), weight, len(given), int(is_judged.sum()), terms, draw, people)


def _weight(verdicts: FloatArray, paired: FloatArray, labels: FloatArray) -> float:
    """Return the weight of least variance: the slope of labels on verdicts, as PPI++ estimates it."""
    unlabelled = len(verdicts) - len(labels)
    spread = float(verdicts.var(ddof=1))
    if not unlabelled or not spread:
        return 0.0
    slope = float(np.mean((labels - labels.mean()) * (paired - paired.mean()))) / spread
    return min(max(slope, 0.0), len(verdicts) / unlabelled)


def _weights(strata: NDArray[Any], labelled_strata: NDArray[Any]) -> FloatArray:
    """Return by how much a labelled row counts, 1 on average; 1 each where a stratum has too few."""
    names, rows = np.unique(strata, return_counts=True)
    places = np.searchsorted(names, labelled_strata)
    labels = np.bincount(places, minlength=len(names))
    if labels.min() < LEAST_LABELS:
        return np.ones(len(labelled_strata))
    by_stratum: FloatArray = (rows / rows.sum()) / (labels / labels.sum())
    return by_stratum[places]

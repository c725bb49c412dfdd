"""Simulated verdicts of judges that err, with people's labels on some rows, and how often intervals hold the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pipelines.benchmarks.metrics_kernel.definitions import DRAW_P
from pipelines.metrics.intervals import FRACTION, FloatArray, Term, interval
from pipelines.metrics.judged import Corrected, Votes, corrected

JUDGES: Final = {  # share that people accept, sensitivity, specificity
    "lenient": (0.6, 0.95, 0.7),
    "strict": (0.6, 0.8, 0.95),
    "lenient, easy items": (0.85, 0.97, 0.6),
    "poor": (0.3, 0.7, 0.7),
}
SETS: Final = {
    "8 clips of 24": (8, 24),
    "40 clips of 10": (40, 10),
    "100 clips of 24": (100, 24),
    "400 pictures": (400, 1),
}
LABELS: Final = (30, 100, 300)
_ALIKE: Final = 0.1  # correlation of people's labels within a cluster
_ALIKE_ERRORS: Final = 0.05  # of the judge's errors


Chosen: TypeAlias = Literal["at random", "3 to 1 from accepted", "accepted alone", "3 to 1 from the judge's errors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling:
    """How people label."""

    errors: float = 0.0  # share of a person's labels that are wrong
    twice: float = 0.0  # share of the labelled rows that two people label
    chosen: Chosen = "at random"

    def weights(self, people: NDArray[np.bool_], verdicts: NDArray[np.bool_]) -> FloatArray:
        """Return how likely each row is labelled."""
        if self.chosen == "at random":
            return np.ones(len(people))
        preferred = verdicts != people if "errors" in self.chosen else verdicts
        return np.where(preferred, 1.0, 1e-6 if self.chosen == "accepted alone" else 1 / 3)


@dataclass(frozen=True, slots=True)
class Judged:
    """Drawn rows: people's verdicts on all, of which `labelled` are seen, and the judge's."""

    people: FloatArray
    verdicts: FloatArray
    clusters: NDArray[Any]
    labelled: NDArray[np.bool_]
    labels: FloatArray  # (rows,), people's majority; NaN where nobody labelled, and of a tie
    votes: Votes

    @classmethod
    def draw(
        cls, seed: list[int], judge: str, clusters: str, labels: int, labelling: Labelling | None = None
    ) -> Judged:
        """Draw the rows of a judge on a form of data with this many labels."""
        labelling = labelling or Labelling()
        generator = np.random.default_rng(seed)
        share, sensitivity, specificity = JUDGES[judge]
        count, size = SETS[clusters]
        names = np.repeat(np.arange(count), size)
        people = generator.random(len(names)) < _rates(generator, share, _ALIKE, count)[names]
        says_yes = [_rates(generator, rate, _ALIKE_ERRORS, count)[names] for rate in (sensitivity, 1 - specificity)]
        verdicts = generator.random(len(names)) < np.where(people, *says_yes)
        labelled = np.zeros(len(names), dtype=np.bool_)
        order = generator.random(len(names)) ** (
            1 / labelling.weights(people, verdicts)
        )  # Efraimidis and Spirakis 2006
        labelled[np.argsort(-order)[:labels]] = True
        erring = generator.random((2, len(names))) < labelling.errors
        first, second = np.where(erring, ~people, people).astype(np.float64)
        is_twice = labelled & (generator.random(len(names)) < labelling.twice)
        given = np.where(labelled & ~(is_twice & (first != second)), first, np.nan)
        votes = Votes(
            counts=np.where(is_twice, 2.0, 1.0), split=np.where(is_twice, (first != second).astype(float), np.nan)
        )
        return cls(people.astype(np.float64), verdicts.astype(np.float64), names, labelled, given, votes)

    def corrected(self) -> Corrected | None:
        """Return the corrected share."""
        return corrected(self.verdicts, self.labels, self.clusters, votes=self.votes)


def _rates(generator: np.random.Generator, share: float, correlation: float, clusters: int) -> FloatArray:
    """Return the chance in each cluster; their mean is `share`."""
    shared = generator.normal(0, math.sqrt(correlation), clusters)
    rates: FloatArray = ndtr((NormalDist().inv_cdf(share) - shared) / math.sqrt(1 - correlation))
    return rates


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often intervals hold the share that people accept, and half of their mean width."""

    corrected: float
    naive: float
    reach: float
    warned: float
    """Share of the simulations in which labels are called no random part."""


def coverage(
    judge: str, clusters: str, labels: int, simulations: int, seed: int = 42, labelling: Labelling | None = None
) -> Coverage:
    """Simulate a judge on a form of data with a budget of labels."""
    held, naive, reach, warned = 0, 0, 0.0, 0
    share = JUDGES[judge][0]
    for number in range(simulations):
        drawn = Judged.draw([seed, number, labels], judge, clusters, labels, labelling)
        result = drawn.corrected()
        ends = interval(result.terms, FRACTION) if result else None
        columns = np.stack([drawn.verdicts, np.ones(len(drawn.verdicts))], axis=1)
        plain = interval([Term(columns, drawn.clusters)], FRACTION)
        if ends is not None and plain is not None:
            held += ends.low <= share <= ends.high
            naive += plain.low <= share <= plain.high
            reach += (ends.high - ends.low) / 2
        warned += bool(result and result.draw.p is not None and result.draw.p < DRAW_P)
    return Coverage(held / simulations, naive / simulations, reach / simulations, warned / simulations)

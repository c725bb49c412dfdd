"""Simulated sweeps that stop by confidence sequences: coverage at every stop, what is saved, wrong rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.metrics.intervals import FloatArray
from pipelines.plan.stopping.until import Until, looks
from pipelines.sweep.until.loop import Number, is_exact_enough

_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A full set: clusters of equally many rows; the chance of a right answer varies between clusters."""

    clusters: int
    rows: int
    share: float
    deviation: float = 0.0
    """Of the clusters' chances."""

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Return the right answers of each cluster, in the order of a sweep."""
        if not self.deviation:
            return generator.binomial(self.rows, self.share, self.clusters).astype(np.float64)
        strength = self.share * (1 - self.share) / self.deviation**2 - 1
        chances = generator.beta(self.share * strength, (1 - self.share) * strength, self.clusters)
        return generator.binomial(self.rows, chances).astype(np.float64)

    def number(self, totals: FloatArray, reached: int) -> Number:
        """Return the headline of the clusters asked so far."""
        sizes = np.full(reached, float(self.rows))
        counts = tuple(size for size in looks(self.clusters) if size <= reached)
        return Number("accuracy", totals[:reached], sizes, self.clusters, float(self.rows), counts, self.clusters)


SHAPES: Final[Mapping[str, Shape]] = {
    "MAIA, 100 clips": Shape(clusters=100, rows=192, share=0.7, deviation=0.08),
    "MAIA's form, 500 clips": Shape(clusters=500, rows=192, share=0.7, deviation=0.08),
    "MAIA's form, 1,000 clips": Shape(clusters=1000, rows=192, share=0.7, deviation=0.08),
    "MATE, 2,750 scenes of a task, 15% right": Shape(clusters=2750, rows=1, share=0.15),
    "MATE, 5,500 scenes, 15% right": Shape(clusters=5500, rows=1, share=0.15),
    "MATE, 5,500 scenes, half right": Shape(clusters=5500, rows=1, share=0.5),
    "MATE's form, 10,000 scenes, half right": Shape(clusters=10000, rows=1, share=0.5),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What 95% of simulated sweeps, or the median one, came to."""

    always_inside: float
    """Share of sweeps with the full set's value inside the interval at every look."""
    saved: float
    """Median share of rows not asked."""


def simulate_intervals(shape: Shape, reach: float, sweeps: int, seed: int) -> Outcome:
    """Run sweeps of one model to the stop; the interval is looked at at every look until then."""
    inside, saved = 0, []
    for sweep in range(sweeps):
        totals = shape.draw(np.random.default_rng([seed, sweep]))
        value, holds = totals.sum() / (shape.clusters * shape.rows), True
        for reached in looks(shape.clusters):
            interval = shape.number(totals, reached).interval(reach)
            holds &= interval.low - _SLACK <= value <= interval.high + _SLACK
            if interval.high - interval.low <= 2 * reach:
                break
        inside += holds
        saved.append(1 - reached / shape.clusters)
    return Outcome(inside / sweeps, float(np.median(saved)))


def simulate_rankings(shape: Shape, gaps: Sequence[float], sweeps: int, seed: int) -> Outcome:
    """Run sweeps of several models whose shares lie `gaps` above the shape's; inside: the ranking is the full set's."""
    right, saved = 0, []
    for sweep in range(sweeps):
        generator = np.random.default_rng([seed, sweep])
        models = [
            Shape(clusters=shape.clusters, rows=shape.rows, share=shape.share + gap, deviation=shape.deviation).draw(
                generator
            )
            for gap in generator.permutation(np.array(gaps))
        ]
        for reached in looks(shape.clusters):
            by_model = {str(i): {("t", "s"): shape.number(totals, reached)} for i, totals in enumerate(models)}
            if is_exact_enough(Until(None), by_model):
                break
        order = np.argsort([totals[:reached].sum() for totals in models], kind="stable")
        sums = np.array([totals.sum() for totals in models])[order]
        right += bool((np.diff(sums) >= 0).all())
        saved.append(1 - reached / shape.clusters)
    return Outcome(right / sweeps, float(np.median(saved)))


GAPS: Final[Mapping[str, Sequence[float]]] = {
    "two of them 2 points apart, others 8 and 10": (0.0, 0.02, 0.1, 0.2),
    "8 points apart each": (0.0, 0.08, 0.16, 0.24),
}

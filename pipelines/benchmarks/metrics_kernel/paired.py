"""Metrics of two models on the same rows, as columns whose sums `compare` swaps by cluster."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import PairedTest
from pipelines.metrics.agreement import mcnemar_exact
from pipelines.metrics.intervals import DIFFERENCE, Term, interval, ratio
from pipelines.metrics.paired import PairedSums, cohen_d, cohen_h, is_exact, permutation_p


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedMetric:
    """One metric of A and B: the sum of its terms over the same rows."""

    task: str
    setting: str
    metric: str
    a: tuple[Term, ...]
    b: tuple[Term, ...]
    subset: str = ""
    category: str = ""

    @classmethod
    def mean(cls, a: NDArray[Any], b: NDArray[Any], clusters: NDArray[Any], *, repeats: int = 1, **fields: Any) -> Self:
        """Return the metric that is the mean of a column over all rows, so many of each question."""
        first, second = (
            Term(np.stack([side, np.ones(len(side))], axis=1), clusters, repeats=repeats) for side in (a, b)
        )
        return cls(a=(first,), b=(second,), **fields)

    def test(self) -> PairedTest | None:
        """Compare A with B; None where the metric of either is undefined on these rows."""
        pair = PairedSums.of(self.a, self.b)
        value_a, value_b = pair.values
        p = permutation_p(pair)
        if p is None:
            return None
        is_share = all(term.is_share for term in (*self.a, *self.b))
        is_fraction = is_share or any(term.statistic is not ratio for term in self.a)
        ends = interval(
            [*self.b, *(replace(term, weight=-term.weight) for term in self.a)],
            DIFFERENCE if is_fraction else (-math.inf, math.inf),
        )
        has_row = [np.any([*a.columns.T, *b.columns.T], axis=0) for a, b in zip(self.a, self.b, strict=True)]
        return PairedTest(
            value=self.metric,
            subset=self.subset,
            category=self.category,
            n=sum(int(np.count_nonzero(rows)) for rows in has_row),
            clusters=pair.clusters,
            mean_a=value_a,
            mean_b=value_b,
            ci_low=None if ends is None else ends.low,
            ci_high=None if ends is None else ends.high,
            p=p if pair.clusters > 1 else None,
            test="exact permutation" if is_exact(pair) else "permutation",
            p_mcnemar=self._mcnemar(pair) if is_share else None,
            effect=cohen_h(value_a, value_b) if is_share and len(self.a) == 1 else cohen_d(pair),
            effect_name="h" if is_share and len(self.a) == 1 else "d",
        )

    def _mcnemar(self, pair: PairedSums) -> float | None:
        """Return the p-value of McNemar's exact test; None unless rows are independent, and right or wrong."""
        (a, *others), (b, *_) = self.a, self.b
        counts_all = bool(a.columns[:, 1].all() and b.columns[:, 1].all())
        if others or not counts_all or pair.clusters != len(a.clusters):
            return None
        return mcnemar_exact(*([bool(value) for value in side.columns[:, 0]] for side in (a, b)))

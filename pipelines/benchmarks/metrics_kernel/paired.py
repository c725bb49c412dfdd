"""Metrics of two models on the same rows, as columns that `compare` sums by cluster."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import PairedTest
from pipelines.metrics.intervals import Term, ratio
from pipelines.metrics.paired import PairedSums, difference_test


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
    repeat_variance: float | None = None  # of B minus A, that is due to chance in the answers; None without repeats

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
        is_share = all(term.is_share for term in (*self.a, *self.b))
        is_fraction = is_share or any(term.statistic is not ratio for term in self.a)
        tested = difference_test(pair, is_fraction=is_fraction, is_share=is_share)
        if tested is None:
            return None
        has_row = [np.any([*a.columns.T, *b.columns.T], axis=0) for a, b in zip(self.a, self.b, strict=True)]
        return PairedTest(
            value=self.metric,
            subset=self.subset,
            category=self.category,
            n=sum(int(np.count_nonzero(rows)) for rows in has_row),
            clusters=pair.clusters,
            spread=tested.spread,
            mean_a=value_a,
            mean_b=value_b,
            ci_low=None if tested.ends is None else tested.ends.low,
            ci_high=None if tested.ends is None else tested.ends.high,
            p=tested.p,
            spread_freedom=tested.spread_freedom,
            repeats=max(term.repeats for term in self.a),
            repeat_variance=self.repeat_variance,
        )

    @property
    def is_constant(self) -> bool:
        """Whether all rows of both models have one value; not if they have none."""
        if len(self.a) != 1 or self.a[0].statistic is not ratio:
            return False
        rows = np.vstack([self.a[0].columns, self.b[0].columns])
        return bool(rows.any() and (rows == rows[0]).all())

    @property
    def content(self) -> tuple[bytes, ...] | None:
        """The rows' values of both models, which another name of the same score has too; None of what is no mean."""
        if any(term.statistic is not ratio for term in self.a):
            return None
        pair = PairedSums.of(self.a, self.b)
        return self.subset.encode(), self.category.encode(), pair.a.tobytes(), pair.b.tobytes()

"""Metrics of two models on the same rows, as columns whose sums `compare` swaps and resamples by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.aggregation import Column, Statistic, ratio
from pipelines.benchmarks.records import PairedTest
from pipelines.metrics.agreement import mcnemar_exact
from pipelines.metrics.paired import (
    PairedSums,
    bootstrap_interval,
    cohen_d,
    cohen_h,
    is_exact,
    jackknife_interval,
    permutation_p,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedMetric:
    """One metric of A and B: `statistic` computes either from the sums of its columns over the same rows."""

    task: str
    setting: str
    metric: str
    a: tuple[Column, ...]  # (rows,) each
    b: tuple[Column, ...]
    clusters: NDArray[Any]  # (rows,), what shares media or origin
    statistic: Statistic = ratio
    subset: str = ""
    category: str = ""
    corpus: bool = False  # no mean over rows, such as BLEU: its interval is a bootstrap

    @classmethod
    def mean(cls, a: Column, b: Column, **fields: Any) -> PairedMetric:
        """Return the metric that is the mean of a column over all rows."""
        return cls(a=(a, np.ones(len(a))), b=(b, np.ones(len(b))), **fields)

    def test(self) -> PairedTest | None:
        """Compare A with B; None where the metric of either is undefined on these rows."""
        pair = PairedSums.of(self.a, self.b, self.clusters, self.statistic)
        value_a, value_b = pair.values
        p = permutation_p(pair)
        if p is None:
            return None
        interval = bootstrap_interval(pair) if self.corpus else jackknife_interval(pair)
        is_share = self._is_share()
        return PairedTest(
            metric=self.metric,
            subset=self.subset,
            category=self.category,
            n=int(np.count_nonzero(np.any([*self.a, *self.b], axis=0))),
            clusters=pair.clusters,
            value_a=value_a,
            value_b=value_b,
            ci_low=None if interval is None else interval.low,
            ci_high=None if interval is None else interval.high,
            interval="bootstrap" if self.corpus else "jackknife",
            p=p if pair.clusters > 1 else None,
            test="exact permutation" if is_exact(pair) else "permutation",
            p_mcnemar=self._mcnemar(pair),
            effect=cohen_h(value_a, value_b) if is_share else cohen_d(pair),
            effect_name="h" if is_share else "d",
        )

    def _is_share(self) -> bool:
        """Return whether the metric is a share of rows: a mean of zeros and ones."""
        return self.statistic is ratio and all(
            bool(np.isin(column, (0.0, 1.0)).all()) for column in (self.a[0], self.b[0])
        )

    def _mcnemar(self, pair: PairedSums) -> float | None:
        """Return the p-value of McNemar's exact test; None unless rows are independent, and right or wrong."""
        is_mean = self.statistic is ratio and np.all(self.a[1]) and np.all(self.b[1])
        if not is_mean or not self._is_share() or pair.clusters != len(self.clusters):
            return None
        return mcnemar_exact([bool(value) for value in self.a[0]], [bool(value) for value in self.b[0]])

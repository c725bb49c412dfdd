"""Compute metrics with 95% bootstrap intervals from columns over scored rows, resampling clusters (shared media).

A metric's statistic is computed from sums of columns over rows (MATE's `metrics.py` shows its use)::

    spec = MetricSpec(Metric(..., value=values.mean(), n=len(values)), (values, np.ones(len(values))))
    metrics = with_intervals([spec, ...], clusters)      # one draw of clusters for all of them

Statistics are `ratio`, `mean_of_ratios`, or any function from drawn sums, (draws,) each, to the
value on each draw. Draws are a pure function of the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric
from pipelines.metrics import stats
from pipelines.metrics.stats import FloatArray, drawn_tables, interval_of

Column: TypeAlias = NDArray[np.float64] | NDArray[np.bool_]  # one number a row, (rows,); 0 where a row does not count
Statistic: TypeAlias = Callable[..., NDArray[Any]]  # drawn sums, (draws,) each -> values, NaN if undefined
Precision: TypeAlias = Literal["float64", "float32"]  # counts are exact in both; float32 halves time and memory

_MAX_CACHED_CLUSTERS: Final = 1_200  # draws of more clusters, some 100 MB, are made block by block and not kept


def ratio(total: FloatArray, size: FloatArray) -> FloatArray:
    """Return the mean on every draw; NaN on a draw without rows."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: FloatArray = total / size
    return share


def mean_of_ratios(*sums: FloatArray) -> FloatArray:
    """Return the unweighted mean of several means, given as (total, size, total, size, ...)."""
    ratios = [ratio(total, size) for total, size in zip(sums[::2], sums[1::2], strict=True)]
    return sum(ratios[1:], start=ratios[0]) / len(ratios)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric without an interval, and how it follows from columns over rows; without columns it gets none."""

    metric: Metric
    columns: tuple[Column, ...] = ()
    statistic: Statistic = ratio
    rows: NDArray[np.intp] | None = None  # indices of the rows that the columns are over, (n,); None is all rows


def with_intervals(
    specs: Sequence[MetricSpec], clusters: NDArray[Any], precision: Precision = "float64"
) -> list[Metric]:
    """Return the metrics in order, with intervals where they have a value, columns and two clusters.

    `clusters`, (rows,), names what is resampled; clusters of which no spec has a row are not drawn.
    """
    sums = _sums_by_cluster(specs, clusters)
    draws = draw_sums(sums, precision) if len(sums) > 1 else None
    return [spec.metric for spec in specs] if draws is None else _with_all_ends(specs, sums, draws)


def _sums_by_cluster(specs: Sequence[MetricSpec], clusters: NDArray[Any]) -> FloatArray:
    """Return the sums of all columns, (clusters, columns); no clusters where no spec has a column."""
    columns = [(spec, column) for spec in specs for column in spec.columns]
    if not columns:
        return np.empty((0, 0))
    numbers, count = _number_clusters([spec for spec in specs if spec.columns], clusters)
    return np.stack(
        [np.bincount(numbers[_rows(spec)], weights=column, minlength=count) for spec, column in columns],
        axis=1,
        dtype=np.float64,
    )


def _with_all_ends(specs: Sequence[MetricSpec], sums: FloatArray, drawn: NDArray[Any]) -> list[Metric]:
    """Set the intervals of metrics from the sums of all columns by cluster and on every draw."""
    draws, totals = iter(drawn.T), iter(sums.T)
    return [
        _with_ends(spec, [next(draws) for _ in spec.columns], [next(totals) for _ in spec.columns]) for spec in specs
    ]


def _rows(spec: MetricSpec) -> NDArray[np.intp] | slice:
    return slice(None) if spec.rows is None else spec.rows


def _number_clusters(specs: Sequence[MetricSpec], clusters: NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    """Number the clusters of the rows that any spec covers, in the order of their names; -1 for other rows."""
    used = np.zeros(len(clusters), dtype=np.bool_)
    for spec in specs:
        used[_rows(spec)] = True
    names, inverse = np.unique(clusters[used], return_inverse=True)
    numbers = np.full(len(clusters), -1)
    numbers[used] = inverse.reshape(-1)
    return numbers, len(names)


def _with_ends(spec: MetricSpec, drawn: Sequence[NDArray[Any]], totals: Sequence[FloatArray]) -> Metric:
    """Set the interval of a metric, unless all of its rows are of one cluster or no draw defines it."""
    value = spec.metric.value
    if value is None or not drawn or np.count_nonzero(np.any(totals, axis=0)) < 2:
        return spec.metric
    ends = interval_of(spec.statistic(*drawn).astype(np.float64), value)
    return replace(spec.metric, ci_low=ends.low, ci_high=ends.high) if ends else spec.metric


def draw_sums(sums: FloatArray, precision: Precision = "float64") -> NDArray[Any]:
    """Return the sum of each column on every draw of clusters, (draws, columns), from sums by cluster."""
    return draw_tables([sums], precision)[0]


def draw_tables(tables: Sequence[FloatArray], precision: Precision = "float64") -> list[NDArray[Any]]:
    """Return `draw_sums` of tables of equally many clusters."""
    if len(tables[0]) > _MAX_CACHED_CLUSTERS:
        return list(drawn_tables(tables))
    draws = cluster_draws(len(tables[0]), precision)
    return [draws @ table.astype(precision) for table in tables]


@lru_cache(maxsize=8)
def cluster_draws(clusters: int, precision: Precision = "float64") -> NDArray[Any]:
    """Return how often each cluster is drawn, (draws, clusters); making them takes ten times as long as using them."""
    draws = stats.cluster_draws(clusters).astype(precision, copy=False)
    draws.setflags(write=False)
    return draws

"""Means over VAGUE's items with intervals, all of one set of items on the same draws.

A column holds one number an item, NaN where the item is not in the denominator. Differences of means are taken draw by
draw, so that they are paired also where failures leave the two sides with other items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import FloatArray, drawn_ratios, interval_of


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric without interval, and the column it is the mean of; with a second column their difference."""

    metric: Metric
    column: FloatArray | None = None
    minus: FloatArray | None = None


def with_intervals(measures: Sequence[MetricSpec], clusters: NDArray[np.str_]) -> list[Metric]:
    """The metrics in their order; those that have a column and a value get the ends of the 95% bootstrap interval.

    Args:
        measures: what is measured over the items.
        clusters: (items,), what shares a picture.
    """
    columns = [column for one in measures for column in (one.column, one.minus) if column is not None]
    if not columns or np.unique(clusters).size < 2:
        return [one.metric for one in measures]
    means = iter(_drawn_means(np.stack(columns, axis=1), clusters).T)
    found = []
    for one in measures:
        if one.column is None:
            found.append(one.metric)
            continue
        drawn = next(means) if one.minus is None else next(means) - next(means)
        found.append(_bounded(one, drawn, clusters))
    return found


def _bounded(one: MetricSpec, drawn: FloatArray, clusters: NDArray[np.str_]) -> Metric:
    sides = [~np.isnan(column) for column in (one.column, one.minus) if column is not None]
    if one.metric.value is None or any(np.unique(clusters[side]).size < 2 for side in sides):
        return one.metric
    ends = interval_of(drawn, one.metric.value)
    return replace(one.metric, ci_low=ends.low, ci_high=ends.high) if ends else one.metric


def _drawn_means(columns: FloatArray, clusters: NDArray[np.str_]) -> FloatArray:
    """The mean of every column on every draw of clusters, (draws, columns)."""
    known = ~np.isnan(columns)
    names, places = np.unique(clusters, return_inverse=True)
    totals, sizes = np.zeros((len(names), columns.shape[1])), np.zeros((len(names), columns.shape[1]))
    np.add.at(totals, places, np.where(known, columns, 0.0))
    np.add.at(sizes, places, known)
    return drawn_ratios(totals, sizes)

"""Macro F1 and shares of V-FLUTE's rows, on the rows themselves and on resamples of clusters.

An answer with one of two labels is right or wrong, so macro F1 follows from the number of right answers of each class.
One set of draws serves all metrics of a group of rows, because drawing for each takes twenty times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import PairedTest, Sample
from pipelines.benchmarks.vflute.facts import REPORTED_THRESHOLDS
from pipelines.benchmarks.vflute.scored_rows import Bools, SettingRows
from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.stats import LEVEL, RESAMPLES, FloatArray, Interval, bootstrap_replicates

if TYPE_CHECKING:
    import pandas as pd


def share(count: FloatArray, rows: FloatArray) -> FloatArray:
    """Divide counts by rows, (draws,) each; NaN without rows."""
    shares: FloatArray = np.divide(count, rows, out=np.full_like(count, np.nan), where=rows > 0)
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric that is a function of sums over rows."""

    name: str
    columns: tuple[Bools, ...]
    """(rows,) each."""
    statistic: Callable[..., FloatArray]
    """From the sum of each column, (draws,), to the value on each draw."""

    @property
    def value(self) -> float | None:
        """Value on the rows themselves; None where it is undefined."""
        value = float(self.statistic(*(np.array([float(np.count_nonzero(column))]) for column in self.columns))[0])
        return None if np.isnan(value) else value


def f1_spec(name: str, entailment: Bools, right: Bools) -> MetricSpec:
    """Build macro F1 of answers that are right or wrong."""
    columns = (right & entailment, right & ~entailment, np.ones_like(right))
    return MetricSpec(name=name, columns=columns, statistic=macro_f1)


def share_spec(name: str, rows: Bools, counted: Bools | None = None) -> MetricSpec:
    """Build the share of rows among those that are counted, or among all."""
    counted = np.ones_like(rows) if counted is None else counted
    return MetricSpec(name=name, columns=(rows & counted, counted), statistic=share)


def intervals(specs: Sequence[MetricSpec], clusters: NDArray[Any]) -> list[Interval | None]:
    """Compute the 95% intervals of metrics over resamples of clusters, equal to `metrics.stats.bootstrap_ci`.

    Args:
        specs: metrics over the same rows.
        clusters: (rows,), the unit that is resampled.

    Returns:
        An interval each; None with fewer than two clusters, or where no draw has a value.
    """
    names, numbers = np.unique(clusters, return_inverse=True)
    if len(names) < 2 or not specs:
        return [None] * len(specs)
    sums = iter(_sums([column for spec in specs for column in spec.columns], numbers.reshape(-1), len(names)))
    return [_interval(spec.statistic(*(next(sums) for _ in spec.columns))) for spec in specs]


def _sums(columns: Sequence[Bools], numbers: NDArray[np.intp], count: int) -> list[FloatArray]:
    """Return each column's sum on every draw. Counts of this size are exact in single precision."""
    totals = np.stack([np.bincount(numbers, weights=column, minlength=count) for column in columns], 1)
    return list((_draws(count) @ totals.astype(np.float32)).T.astype(np.float64))


def _interval(replicates: FloatArray) -> Interval | None:
    defined = replicates[~np.isnan(replicates)]
    if not defined.size:
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Interval(float(low), float(high))


@lru_cache(maxsize=12)
def _draws(clusters: int) -> NDArray[np.float32]:
    """Return how often each cluster is drawn, (draws, clusters)."""
    every = np.arange(clusters)
    counts = bootstrap_replicates(every, every, statistic=lambda _values, weights: weights).astype(np.float32)
    counts.setflags(write=False)
    return counts


# ------------------------------------------------------------------------------------------------ baselines


def all_entailment_f1(entailment: int, contradiction: int) -> float:
    """Return macro F1 of a model that always answers entailment."""
    right = np.array([float(entailment)])
    return float(macro_f1(right, np.zeros(1), right + contradiction)[0])


@lru_cache(maxsize=64)
def chance_f1(entailment: int, contradiction: int) -> float:
    """Return the exact mean of macro F1 of a fair coin, over all numbers of right answers of either class."""
    from scipy.stats import binom

    e, c = np.arange(entailment + 1.0), np.arange(contradiction + 1.0)
    chance = np.outer(binom.pmf(e, entailment, 0.5), binom.pmf(c, contradiction, 0.5))
    right_e, right_c = np.meshgrid(e, c, indexing="ij")
    value = macro_f1(right_e.ravel(), right_c.ravel(), np.full(chance.size, float(entailment + contradiction)))
    return float((value * chance.ravel()).sum())


# --------------------------------------------------------------------------------------------- paired tests


def paired_columns(entailment: Bools, right_a: Bools, right_b: Bools) -> tuple[Bools, ...]:
    """Return the columns whose sums `f1_of_a`, `f1_of_b` and `f1_gain` take; all over the same rows."""
    rows = np.ones_like(right_a)
    return right_a & entailment, right_a & ~entailment, right_b & entailment, right_b & ~entailment, rows


def f1_of_a(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of A from the sums of `paired_columns`."""
    return macro_f1(sums[0], sums[1], sums[4])


def f1_of_b(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of B from the sums of `paired_columns`."""
    return macro_f1(sums[2], sums[3], sums[4])


def f1_gain(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of B minus that of A from the sums of `paired_columns`."""
    return f1_of_b(*sums) - f1_of_a(*sums)


def koehn_p(entailment: Bools, right_a: Bools, right_b: Bools) -> float:
    """Test one-sided that A has the higher macro F1 on the same rows, by resampling rows (Koehn 2004).

    Args:
        entailment: (rows,), whether gold is entailment.
        right_a: (rows,), A's right answers.
        right_b: (rows,), B's right answers.

    Returns:
        p = (1 + draws on which A is not better) / (draws + 1).
    """
    sums = _sums(paired_columns(entailment, right_a, right_b), np.arange(len(entailment)), len(entailment))
    return (1 + int(np.count_nonzero(~(f1_gain(*sums) < 0)))) / (RESAMPLES + 1)


def koehn_tests(a: pd.DataFrame, b: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> list[PairedTest]:
    """Test F1 of labels, and F1 at the thresholds where the explanations of both models are scored.

    Args:
        a: scores of the first model, as `Benchmark.reduce` takes them.
        b: scores of the second on the same rows.
        setting: of both.
        samples: by id.

    Raises:
        ValueError: the rows are not the same.
    """
    frames = (frame.sort_values("sample_id", kind="stable") for frame in (a, b))
    rows_a, rows_b = (SettingRows.of(frame, setting, samples) for frame in frames)
    if list(rows_a.ids) != list(rows_b.ids):
        raise ValueError(f"vflute {setting}: {len(rows_a.ids)} and {len(rows_b.ids)} rows, which are not the same")
    if not len(rows_a.ids):
        return []
    tests = [_koehn_test("label_f1", rows_a, rows_a.labelled_right(), rows_b.labelled_right())]
    for k in REPORTED_THRESHOLDS if setting != "label-only" else ():
        at_a, at_b = rows_a.right_at(k), rows_b.right_at(k)
        if not (at_a.unknown.any() or at_b.unknown.any()):
            tests.append(_koehn_test(f"f1_at_{k}", rows_a, at_a.right, at_b.right))
    return tests


def _koehn_test(metric: str, rows: SettingRows, right_a: Bools, right_b: Bools) -> PairedTest:
    columns = paired_columns(rows.entailment, right_a, right_b)
    spec_a, spec_b, gain = (
        MetricSpec(name=metric, columns=columns, statistic=statistic) for statistic in (f1_of_a, f1_of_b, f1_gain)
    )
    (interval,) = intervals([gain], rows.cluster)
    one_sided = min(koehn_p(rows.entailment, right_a, right_b), koehn_p(rows.entailment, right_b, right_a))
    return PairedTest(
        metric=metric,
        n=len(rows.ids),
        value_a=spec_a.value or 0.0,
        value_b=spec_b.value or 0.0,
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        p=min(1.0, 2 * one_sided),
        test="Koehn",
    )

"""Metrics of requests that were asked several times: means over the repeats, and what several tries are worth.

- `pass_at_k`: one of k tries is right; `pass_hat_k`: all k are; both without bias from all tries (Chen et al. 2021).
- `majority`: the answer given most often is right; of several given as often each counts its share.
- `spread`: the standard deviation over repeats of the share of right answers.

A question is a sample and a variant; answered tries count, and questions with fewer than k of them do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.metrics_kernel.definitions import Estimate, mean_of, recorded_estimates
from pipelines.benchmarks.records import RIGHT, Metric, Sample, measures_labels, split_variant
from pipelines.metrics.intervals import FloatArray, Term

if TYPE_CHECKING:
    import pandas as pd

Reduce: TypeAlias = "Callable[[pd.DataFrame, Mapping[str, Sample]], list[Metric]]"
_Key: TypeAlias = tuple[str, ...]


def reduce_repeats(reduce: Reduce, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Return the metrics of one model, `scores` as of `Reporter.reduce` with the repeats of requests among the rows."""
    rows = with_repeats(scores)
    repeats = sorted({*rows["repeat"].tolist()})
    if repeats in ([], [0]):
        return reduce(scores, samples)
    runs: list[tuple[list[Metric], list[Estimate]]] = []
    for repeat in repeats:
        with recorded_estimates() as estimates:
            metrics = reduce(rows[rows["repeat"] == repeat].drop(columns="repeat").reset_index(drop=True), samples)
        runs.append((metrics, estimates))
    return [*_means(runs), *_metrics_of_tries(rows)]


def first_repeats(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are no repeats."""
    return scores[~scores["variant"].str.contains("#", regex=False)].reset_index(drop=True)


def with_repeats(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with variants without numbers of repeats, and these numbers in the column `repeat`."""
    parts = [split_variant(variant) for variant in scores["variant"]]
    return scores.assign(
        variant=[base for base, _ in parts], repeat=np.array([number for _, number in parts], np.int64)
    )


def right_answers(scores: pd.DataFrame) -> FloatArray:
    """Return 1 for right answers and 0 for wrong ones, (rows,); NaN for rows without an answer or a verdict."""
    right = np.full(len(scores), np.nan)
    for name in RIGHT:
        if name in scores:
            right = np.where(np.isnan(right), scores[name].to_numpy(np.float64), right)
    answered = (scores["status"] == "ok").to_numpy() & np.isin(right, (0.0, 1.0))
    return np.where(answered, right, np.nan)


def _key(metric: Metric) -> _Key:
    return metric.metric, metric.task, metric.setting, metric.subset, metric.category


def _means(runs: Sequence[tuple[list[Metric], list[Estimate]]]) -> Iterator[Metric]:
    metrics: dict[_Key, list[Metric]] = {}
    estimates: dict[_Key, list[Estimate]] = {}
    for run_metrics, recorded in runs:
        for metric in run_metrics:
            metrics.setdefault(_key(metric), []).append(metric)
        for estimate in recorded:
            estimates.setdefault(_key(estimate.metric), []).append(estimate)
    return (_mean(same, estimates.get(key, ()), len(runs)) for key, same in metrics.items())


def _mean(metrics: Sequence[Metric], estimates: Sequence[Estimate], repeats: int) -> Metric:
    """Return the mean of a metric over repeats; its interval is over clusters, all repeats of which belong together."""
    total: dict[str, Any] = {
        "n": sum(metric.n for metric in metrics),
        "n_failed": sum(metric.n_failed for metric in metrics),
    }
    if metrics[0].unit == "count":  # of those answers that it is a part of: one repeat's
        total["n"] = round(fmean(metric.n for metric in metrics))
    if measures_labels(metrics[0].metric):  # people label answers of one repeat
        return metrics[0]
    values = [metric.value for metric in metrics if metric.value is not None]
    if len(values) < len(metrics):
        return replace(next(metric for metric in metrics if metric.value is None), **total)
    value = sum(values) / (repeats if metrics[0].unit == "count" else len(values))  # a count that is absent is 0
    mean = replace(metrics[0], value=value, **total)
    varies = any(other != values[0] for other in values) or values[0] not in (0.0, 1.0)
    if varies and len(estimates) == len(metrics) == repeats and all(estimate.terms for estimate in estimates):
        joint = mean_of(estimates).with_interval()
        return replace(mean, ci_low=joint.ci_low, ci_high=joint.ci_high, ci_df=joint.ci_df)
    # Means of ends are wider than need be; where no row differs repeats are no further rows.
    lows = [metric.ci_low for metric in metrics if metric.ci_low is not None]
    highs = [metric.ci_high for metric in metrics if metric.ci_high is not None]
    if min(len(lows), len(highs)) < repeats:
        return replace(mean, ci_low=None, ci_high=None, ci_df=None)
    freedoms = [metric.ci_df for metric in metrics if metric.ci_df is not None]
    return replace(mean, ci_low=fmean(lows), ci_high=fmean(highs), ci_df=min(freedoms, default=None))


@dataclass(slots=True)
class _Tries:
    """The answered tries of one question."""

    cluster: str
    right: list[float] = field(default_factory=list)
    by_answer: defaultdict[Hashable, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def majority(self) -> float:
        """The share of right ones among the answers given most often; what could not be read has no vote."""
        votes = {answer: tries for answer, tries in self.by_answer.items() if answer is not None}
        most = max(map(len, votes.values()), default=0)
        return fmean(fmean(tries) for tries in votes.values() if len(tries) == most) if votes else 0.0


def _metrics_of_tries(rows: pd.DataFrame) -> Iterator[Metric]:
    rows = rows.assign(right=right_answers(rows))
    for (task, setting), group in rows.groupby(["task", "setting"], sort=False):
        answered = group[group["right"].notna()]
        if answered.empty:
            continue
        fields: dict[str, Any] = {
            "task": str(task),
            "setting": str(setting),
            "n_failed": int((group["status"] == "error").sum()),
        }
        tries: dict[tuple[str, str], _Tries] = {}
        names = ("sample_id", "variant", "cluster", "answer", "right")
        for sample, variant, cluster, answer, right in zip(*(answered[name] for name in names), strict=True):
            question = tries.setdefault((sample, variant), _Tries(cluster or sample))
            question.right.append(right)
            question.by_answer[answer if isinstance(answer, str) else None].append(right)
        yield from _question_metrics([*tries.values()], int(rows["repeat"].max()) + 1, fields)
        means = answered.groupby("repeat")["right"].mean()
        if len(means) > 1:
            note = f"lowest {100 * means.min():.1f}%, highest {100 * means.max():.1f}% of {len(means)} repeats"
            yield Metric(metric="spread", value=stdev(means), n=len(answered), note=note, **fields)


def _question_metrics(questions: Sequence[_Tries], repeats: int, fields: Mapping[str, Any]) -> Iterator[Metric]:
    numbers = np.array([len(question.right) for question in questions])
    right = np.array([int(sum(question.right)) for question in questions])
    clusters = np.array([question.cluster for question in questions], dtype=object)
    for k in range(1, repeats + 1):
        has_tries = numbers >= k
        pairs = [*zip(numbers[has_tries].tolist(), right[has_tries].tolist(), strict=True)]
        some = np.array([1 - comb(n - count, k) / comb(n, k) for n, count in pairs])
        every = np.array([comb(count, k) / comb(n, k) for n, count in pairs])
        yield from (
            _share(name, values, clusters[has_tries], fields)
            for name, values in ((f"pass_at_{k}", some), (f"pass_hat_{k}", every))
            if len(values)
        )
    yield _share("majority", np.array([question.majority for question in questions]), clusters, fields)


def _share(name: str, values: FloatArray, clusters: NDArray[Any], fields: Mapping[str, Any]) -> Metric:
    metric = Metric(metric=name, value=float(values.mean()), n=len(values), **fields)
    return Estimate(metric, (Term(np.stack([values, np.ones(len(values))], axis=1), clusters),)).with_interval()

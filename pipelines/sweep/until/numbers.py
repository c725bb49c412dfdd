"""The headlines of a model over the clusters asked so far, and whether they are exact enough."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from pipelines.benchmarks.judges import without_verdicts
from pipelines.benchmarks.metrics_kernel.definitions import Estimate, recorded_estimates
from pipelines.metrics.intervals import FloatArray, Interval, ratio
from pipelines.metrics.sequential import ALPHA, exact_interval, log_evidence_of_order, sequential_interval
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.stopping.until import Cluster, StoppedNumber, Until, looks
from pipelines.report.entry_frame import EntryRequests, EntryScores
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_REACH = 0.02  # for which the bets of intervals are made where a ranking ends the run
Group: TypeAlias = tuple[str, str]
_DEVIATIONS: Final = 2.25
"""Standard deviations to either side of an exact interval at the look for which most of the error is spent."""
_ERROR: Final = 0.8 * ALPHA  # the error of exact intervals at all looks together: they hold more often than stated
_EARLY: Final = 0.95  # share of the error that is spent until then


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """One headline as sums by cluster, in the order in which clusters were asked."""

    metric: str
    totals: FloatArray
    sizes: FloatArray
    population: int  # clusters that the number has in the whole plan
    largest: float  # the most rows of one cluster that count
    counts: tuple[int, ...] = ()  # its clusters at each look so far
    clusters: int = 0  # of the whole benchmark

    def interval(self, reach: float) -> Interval:
        """Return the interval of the value of all clusters."""
        is_binary = self.counts and self.largest == 1 and np.isin(self.totals, (0.0, 1.0)).all()
        if not is_binary or len(self.totals) >= self.population:
            return sequential_interval(self.totals, self.sizes, self.population, self.largest, reach)
        hits, counts = (
            [int(row_values[:count].sum()) for count in self.counts] for row_values in (self.totals, self.sizes)
        )
        population = self.population - len(self.sizes) + counts[-1]  # failed clusters are outside of it too
        return exact_interval(hits, counts, population, spent(self.clusters, population, reach)[: len(counts)])


def spent(clusters: int, population: int, reach: float) -> list[float]:
    """Return the chance of an error that is spent by each look but the last: most when half right is exact enough."""
    times = [size / (clusters - size) for size in looks(clusters)[:-1]]  # variance falls with their inverse
    needed = (_DEVIATIONS / reach) ** 2 / 4 / population
    target = next((time for time in times if time >= needed), times[-1])
    parts = [time / target for time in times]
    return [_ERROR * (_EARLY * min(1.0, part**1.5) + (1 - _EARLY) * min(1.0, max(0.0, part - 1))) for part in parts]


def headlines(
    entry: ManifestEntry, requests: EntryRequests, out: Store, clusters: Sequence[Cluster], reached: int
) -> dict[Group, Number]:
    """Return a number for each task and setting that has one: the first of the main metrics that is a mean of rows.

    It is over the first `reached` of all clusters.
    """
    prefix = clusters[:reached]
    ids = {sample_id for cluster in prefix for sample_id in cluster.sample_ids}
    every = without_verdicts(EntryScores.read(out, entry).join(requests.columns))
    frame = every[every["sample_id"].isin(ids)].reset_index(drop=True)
    samples = {sample_id: requests.samples[sample_id] for sample_id in ids}
    with recorded_estimates() as record:
        entry.definition.reduce(frame, samples)
    names = entry.definition.main_metrics
    means = [estimate for estimate in record if estimate.metric.metric in names and is_mean_of_rows(estimate)]
    by_group: dict[Group, dict[str, list[Estimate]]] = {}
    for estimate in sorted(means, key=lambda mean: names.index(mean.metric.metric)):
        group = (estimate.metric.task, estimate.metric.setting)
        by_group.setdefault(group, {}).setdefault(estimate.metric.metric, []).append(estimate)
    firsts = {group: next(iter(group_totals.items())) for group, group_totals in by_group.items()}
    numbers = {
        group: _number(metric, estimates, _planned_rows(entry, every, group), prefix, len(clusters))
        for group, (metric, estimates) in firsts.items()
    }
    return {group: number for group, number in numbers.items() if number}


def is_mean_of_rows(estimate: Estimate) -> bool:
    """Return whether a number is the mean over rows of its whole group, with scores from 0 to 1."""
    metric, terms = estimate.metric, estimate.terms
    if metric.subset or metric.category or len(terms) != 1 or terms[0].statistic is not ratio:
        return False
    columns = terms[0].columns
    return columns.shape[1] == 2 and bool(((columns >= 0) & (columns <= 1)).all())


def _planned_rows(entry: ManifestEntry, frame: "pd.DataFrame", group: Group) -> Counter[str]:
    """Count the planned rows of a number by cluster."""
    tasks = entry.definition.derived_tasks.get(group[0], (group[0],))
    rows = frame[frame["task"].isin(tasks) & (frame["setting"] == group[1])]
    return Counter(np.where(rows["cluster"] != "", rows["cluster"], rows["sample_id"]).tolist())


def _number(
    metric: str, estimates: Sequence[Estimate], planned: Counter[str], prefix: Sequence[Cluster], clusters: int
) -> Number | None:
    names = [cluster.name for cluster in prefix if planned[cluster.name]]
    index = {name: number for number, name in enumerate(names)}
    sums = np.zeros((len(names), 2))
    for estimate in estimates:  # one a repeat
        (term,) = estimate.terms
        rows = [index[str(name)] for name in term.clusters if str(name) in index]
        if len(rows) < len(term.clusters):
            return None
        np.add.at(sums, rows, term.columns)
    # How many of a cluster's planned rows count, such as one a question, is the same in clusters not asked.
    rows_of = np.array([planned[name] for name in names], dtype=np.float64)
    counting = float((sums[:, 1] / rows_of).max(initial=0.0))
    if not counting:
        return None
    largest = max(counting * max(planned.values()), float(sums[:, 1].max()))
    counts = np.cumsum([cluster.name in index for cluster in prefix])
    at_looks = tuple(int(counts[size - 1]) for size in looks(clusters) if size <= len(prefix))
    return Number(metric, sums[:, 0], sums[:, 1], len(planned), largest, at_looks, clusters)


def is_exact_enough(until: Until, by_model: Mapping[str, Mapping[Group, Number]]) -> bool:
    """Return whether the numbers of every model allow to stop; a model without one does not."""
    if not all(by_model.values()):
        return False
    if until.reach is None:
        return _is_ranked([*by_model.values()])
    intervals = (number.interval(until.reach) for numbers in by_model.values() for number in numbers.values())
    return all(interval.high - interval.low <= 2 * until.reach for interval in intervals)


def _is_ranked(models: Sequence[Mapping[Group, Number]]) -> bool:
    """Return whether of each two models one is better, with 95% for both orders of all pairs (Bonferroni)."""
    needed = math.log(2 * math.comb(len(models), 2) / ALPHA) if len(models) > 1 else 0.0
    for first, second in combinations(models, 2):
        for group in first.keys() & second.keys():
            a, b = first[group], second[group]
            if len(a.totals) < a.population and not any(
                log_evidence_of_order(x.totals, y.totals, a.population, max(a.largest, b.largest)) >= needed
                for x, y in ((a, b), (b, a))
            ):
                return False
    return True


def stopped_numbers(numbers: Mapping[Group, Number], until: Until) -> tuple[StoppedNumber, ...]:
    """Return the numbers of a model with their intervals, as `run.json` holds them."""
    ends = {group: number.interval(until.reach or DEFAULT_REACH) for group, number in numbers.items()}
    return tuple(
        StoppedNumber(task=group[0], setting=group[1], metric=numbers[group].metric, low=end.low, high=end.high)
        for group, end in ends.items()
    )

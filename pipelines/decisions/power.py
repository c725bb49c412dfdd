"""How many rows a difference needs, and what difference the rows of an output can show."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from models.errors import suggest
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import RIGHT, is_person
from pipelines.decisions.evidence import NORMAL, POWER, Evidence
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE, FloatArray, student_p
from pipelines.metrics.paired import least_clusters
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.report.compare import SIGNIFICANCE, Difference, compare
from pipelines.report.measured import Measured
from pipelines.report.metrics_file import load_metrics
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store

_SAME: Final = 1e-9
_MOST_CLUSTERS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """What the rows of two models can show of a metric, and what a difference needs."""

    benchmark: str
    model: str
    other: str = ""  # the model with which the rows were paired; '' for another of the same spread, not paired
    task: str
    setting: str
    metric: str
    value: float
    n: int
    clusters: int
    tests: int  # that Holm's correction is over
    standard_error: float  # of the difference
    detectable: float | None  # the smallest difference found in 80% of cases; None: too few clusters for any
    rows_needed: int  # for the difference asked for
    rows_needed_low: int  # these two: if the spread is at an end of its 95% interval
    rows_needed_high: int
    clusters_needed: int
    clusters_needed_low: int
    clusters_needed_high: int


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """The spread of a difference as measured, and the test that it is for."""

    standard_error: float
    n: int
    clusters: int
    freedom: float  # of the test, on these clusters
    spread_freedom: float  # by how much the spread itself may be off, as that of so many normal values plus one
    tests: int = 1

    @property
    def least(self) -> int:
        """The fewest clusters that are asked for."""
        return least_clusters(SIGNIFICANCE / self.tests)

    def power(self, difference: float, clusters: int) -> float:
        """Return the mean power over what the true spread may be, for a difference and a number of clusters."""
        noncentral = self._scales * difference / self.standard_error * math.sqrt(clusters / self.clusters)
        return float(self._weights @ self._found(noncentral, clusters))

    def needed(self, difference: float) -> int:
        """Return the clusters that find a difference in 80% of cases."""
        return self._search(partial(self.power, difference))

    def needed_within(self, difference: float) -> tuple[int, int]:
        """Return the clusters that are needed if the spread is at the ends of its 95% interval."""
        cumulated = np.cumsum(self._weights)
        ends = [float(self._scales[np.searchsorted(cumulated, share)]) for share in (0.975, 0.025)]
        low, high = (
            self._search(lambda clusters, at=scale: self._power_at(at, difference, clusters)) for scale in ends
        )
        return low, high

    def detectable(self) -> float | None:
        """Return the smallest difference that these clusters find in 80% of cases."""
        if self.clusters < self.least:
            return None
        low, high = 0.0, self.standard_error
        while self.power(high, self.clusters) < POWER:
            low, high = high, 2 * high
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.power(middle, self.clusters) < POWER else (low, middle)
        return high

    def _power_at(self, scale: float, difference: float, clusters: int) -> float:
        noncentral = np.array([scale * difference / self.standard_error * math.sqrt(clusters / self.clusters)])
        return float(self._found(noncentral, clusters)[0])

    def _found(self, noncentral: FloatArray, clusters: int) -> FloatArray:
        """Return the chance that Student's t of a difference is beyond the limit."""
        freedom = max(1.0, self.freedom * (clusters - 1) / max(1, self.clusters - 1))
        limit = _limit(SIGNIFICANCE / self.tests, freedom)
        spread = math.sqrt(1 + limit**2 / (2 * freedom))  # of a noncentral t (Johnson and Welch 1940)
        return np.array([NORMAL.cdf(value) for value in (noncentral - limit) / spread])

    def _search(self, power: Callable[[int], float]) -> int:
        low = high = self.least
        while power(high) < POWER:
            low, high = high, 2 * high
            if high > _MOST_CLUSTERS:
                return _MOST_CLUSTERS
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if power(middle) < POWER else (low, middle)
        return high

    @cached_property
    def _scales(self) -> FloatArray:
        """Measured spreads in units of the true one."""
        return np.linspace(0.005, 1 + 6 / math.sqrt(2 * self.spread_freedom), 400)

    @cached_property
    def _weights(self) -> FloatArray:
        """How likely each scale is: the root of chi-square over its degrees of freedom."""
        logs = (self.spread_freedom - 1) * np.log(self._scales) - self.spread_freedom * self._scales**2 / 2
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())


def _limit(alpha: float, freedom: float) -> float:
    """Return the t whose two-sided p-value is alpha."""
    low, high = 0.0, 2.0
    while student_p(high, freedom) > alpha:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > alpha else (low, middle)
    return high


def power(out: Store, difference: float, metric: str = "", models: Sequence[str] = ()) -> list[PowerRow]:
    """Return what each pair of models of an output can show in whole metrics, its headlines without a metric.

    A benchmark with a single model sets it beside one of the same spread whose answers have nothing in common with its
    own, which is the most that it takes.

    Raises UsageError for a difference that is no share, or a metric that no number of the output has.
    """
    if not 0 < difference <= DIFFERENCE[1]:
        raise UsageError(f"--difference is {difference:g}, expected a fraction such as 0.02")
    numbers = [n for n in load_metrics(out) or () if n.is_whole and n.value is not None and not is_person(n.model)]
    run = load_existing_run(out)
    chosen = [n for n in numbers if n.metric == (metric or benchmark(n.benchmark).headline)]
    if not chosen:
        hint = suggest(metric, {n.metric for n in numbers}) if metric else "; run `vlmsweep report` first"
        raise UsageError(f"{out.uri} has no value of {metric or 'a headline metric'}{hint}")
    entries = {(entry.benchmark, entry.model): entry for entry in run.entries}
    names = sorted({model for _, model in entries})
    differences = compare(out, None, models).differences if len(names) > 1 else ()
    pairs = list(_pairs(chosen, differences, difference))
    paired = {row.benchmark for row in pairs}
    singles = [n for n in chosen if n.benchmark not in paired and (not models or n.model in models)]
    return [*pairs, *(row for n in singles for row in _single(n, out, entries.get((n.benchmark, n.model)), difference))]


def _pairs(chosen: Sequence[Measured], differences: Sequence[Difference], asked: float) -> Iterator[PowerRow]:
    """Yield the pairs of which a test has the metric, or verdicts of rows whose means are its values."""
    numbers = {(n.benchmark, n.model, n.task, n.setting): n for n in chosen}
    tests = {
        family: sum(row.family == family and row.p is not None for row in differences)
        for family in ("headline", "other")
    }
    for row in differences:
        a, b = (numbers.get((row.benchmark, model, row.task, row.setting)) for model in (row.model_a, row.model_b))
        if a is None or b is None or row.standard_error is None or not _is_metric(row, a, b):
            continue
        pilot = Pilot(
            standard_error=row.standard_error,
            n=row.n,
            clusters=row.clusters,
            freedom=row.freedom,
            spread_freedom=row.spread_freedom,
            tests=max(1, tests[row.family]),
        )
        yield PowerRow(**_names(a), other=row.model_b, **_needed(pilot, asked))


def _is_metric(row: Difference, a: Measured, b: Measured) -> bool:
    if (row.subset, row.category) != ("", "") or row.value not in {a.metric, *RIGHT}:
        return False
    return row.value == a.metric or max(abs(row.mean_a - (a.value or 0)), abs(row.mean_b - (b.value or 0))) < _SAME


def _single(number: Measured, out: Store, entry: ManifestEntry | None, asked: float) -> Iterator[PowerRow]:
    if number.value is None or number.ci_low is None or number.ci_high is None or entry is None or not number.n:
        return
    freedom = number.ci_df or math.inf
    error = math.sqrt(2) * Evidence(number.value, number.ci_low, number.ci_high, number.n, freedom).standard_error
    texts = ScoreRows.read(out, entry).texts
    tasks = benchmark(number.benchmark).derived_tasks.get(number.task, (number.task,))
    cell = np.isin(texts["task"], tasks) & (texts["setting"] == number.setting)
    rows = cell & (texts["status"] == "ok")
    if number.n > rows.sum():  # a metric that counts failed rows as wrong
        rows = cell & np.isin(texts["status"], ["ok", "error"])
    clusters = len({*texts["cluster"][rows]})
    freedom = number.ci_df or max(1.0, clusters - 1.0)
    pilot = Pilot(standard_error=error, n=number.n, clusters=clusters, freedom=freedom, spread_freedom=freedom)
    yield PowerRow(**_names(number), **_needed(pilot, asked))


def _names(number: Measured) -> Mapping[str, Any]:
    return {name: getattr(number, name) for name in ("benchmark", "model", "task", "setting", "metric", "value")}


def _needed(pilot: Pilot, asked: float) -> Mapping[str, Any]:
    clusters = pilot.needed(asked), *pilot.needed_within(asked)
    rows = [math.ceil(count * pilot.n / pilot.clusters) for count in clusters]
    return {
        **{name: getattr(pilot, name) for name in ("n", "clusters", "tests", "standard_error")},
        "detectable": pilot.detectable(),
        **dict(zip(("clusters_needed", "clusters_needed_low", "clusters_needed_high"), clusters, strict=True)),
        **dict(zip(("rows_needed", "rows_needed_low", "rows_needed_high"), rows, strict=True)),
    }

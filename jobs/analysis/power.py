"""How many rows a difference needs, and what difference the rows of an output can show."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, Self

import numpy as np

from jobs.shared.output import print_result, table
from models.errors import suggest
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import RIGHT, is_person
from pipelines.decisions.evidence import NORMAL, POWER, Evidence
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE, FloatArray, student_quantile
from pipelines.metrics.paired import least_clusters
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.plan.selection import check_names
from pipelines.report.compare import SIGNIFICANCE, Difference, compare_models
from pipelines.report.metrics_file import Measured, load_metrics
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store

_POWER = ("what", "models", "n (clusters)", "can show", "rows needed", "clusters")
_SAME: Final = 1e-9
_REPEATS: Final = (1, 2, 4, 8, 16)
_MOST_CLUSTERS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """What the rows of two models can show of a metric, and what a difference needs; None is not known from them."""

    benchmark: str
    model: str
    other: str = ""  # the model with which the rows were paired; '' for another of the same spread, not paired
    task: str
    setting: str
    metric: str
    value: float
    n: int
    clusters: int
    is_percent: bool
    tests: int = 1  # that Holm's correction is for
    standard_error: float | None = None  # of the difference
    detectable: float | None = None  # the smallest difference found in 80% of cases
    rows_needed: int | None = None  # for the difference that is asked for
    rows_needed_low: int | None = None  # these two: if the spread is at an end of its 95% interval
    rows_needed_high: int | None = None
    clusters_needed: int | None = None
    clusters_needed_low: int | None = None
    clusters_needed_high: int | None = None
    repeats: int = 1  # answers to each question
    clusters_needed_by_repeats: Mapping[int, int] = field(default_factory=dict)
    """What more or fewer repeats bring; empty if these rows have none."""
    note: str = ""  # why something is not known


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """The spread of a difference as measured, and the test that it is for."""

    standard_error: float
    n: int
    clusters: int
    freedom: float  # of the test, on these clusters
    spread_freedom: float  # by how much the spread itself may be off, as that of so many normal values plus one
    tests: int = 1
    repeats: int = 1
    repeat_share: float = 0.0  # of the variance: due to chance in the answers, which more repeats make smaller

    @property
    def least(self) -> int:
        """The fewest clusters that are asked for."""
        return least_clusters(SIGNIFICANCE / self.tests)

    def power(self, difference: float, clusters: int) -> float:
        """Return the mean power over what the true spread may be, for a difference and a number of clusters."""
        noncentral = self._scales * difference / self.standard_error * math.sqrt(clusters / self.clusters)
        return float(self._weights @ self._power_of_each(noncentral, clusters))

    def needed(self, difference: float) -> int:
        """Return the clusters that find a difference in 80% of cases."""
        return self._search(partial(self.power, difference))

    def needed_within(self, difference: float) -> tuple[int, int]:
        """Return the clusters that are needed if the spread is at the ends of its 95% interval."""
        cumulated = np.cumsum(self._weights)
        ends = [float(self._scales[np.searchsorted(cumulated, share)]) for share in (0.975, 0.025)]
        low, high = (self._search(partial(self._power_at, scale, difference)) for scale in ends)
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

    def with_repeats(self, repeats: int) -> Self:
        """Return the spread with so many answers to each question (Miller 2024)."""
        change = 1 - self.repeat_share * (1 - self.repeats / repeats)
        return replace(
            self,
            standard_error=self.standard_error * math.sqrt(max(change, _SAME)),
            repeats=repeats,
            repeat_share=self.repeat_share * self.repeats / repeats / max(change, _SAME),
        )

    def _power_at(self, scale: float, difference: float, clusters: int) -> float:
        noncentral = np.array([scale * difference / self.standard_error * math.sqrt(clusters / self.clusters)])
        return float(self._power_of_each(noncentral, clusters)[0])

    def _power_of_each(self, noncentral: FloatArray, clusters: int) -> FloatArray:
        """Return the chance that Student's t of a difference is beyond the limit."""
        freedom = max(1.0, self.freedom * (clusters - 1) / max(1, self.clusters - 1))
        limit = student_quantile(freedom, 1 - SIGNIFICANCE / self.tests)
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


def power(out: Store, difference: float, metric: str = "", models: Sequence[str] = ()) -> list[PowerRow]:
    """Return what each pair of models of an output can show in whole metrics, its headlines without a metric.

    `models`: empty for all. A model without another on the same rows is set beside one of the same spread whose answers
    have nothing in common with its own, which is the most that it takes.

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
    check_names("model", models, names)
    differences = compare_models(out, models).differences if len(models or names) > 1 else ()
    pairs = list(_pairs(chosen, differences, difference))
    paired = {(row.benchmark, row.task, row.setting, model) for row in pairs for model in (row.model, row.other)}
    for n in chosen:
        if (n.benchmark, n.task, n.setting, n.model) not in paired and (not models or n.model in models):
            pairs += _single(n, out, entries.get((n.benchmark, n.model)), difference)
    return pairs


def _pairs(chosen: Sequence[Measured], differences: Sequence[Difference], planned: float) -> Iterator[PowerRow]:
    """Yield the pairs of which a test has the metric, or verdicts of rows whose means are its values."""
    numbers = {(n.benchmark, n.model, n.task, n.setting): n for n in chosen}
    for row in differences:
        a, b = (numbers.get((row.benchmark, model, row.task, row.setting)) for model in (row.model_a, row.model_b))
        if a is None or b is None or not _is_metric(row, a, b):
            continue
        names = {**_names(a), "other": row.model_b, "n": row.n, "clusters": row.clusters, "tests": row.tests}
        if row.spread is None or row.standard_error is None:
            yield PowerRow(**names, repeats=row.repeats, note=_no_spread(row))
            continue
        pilot = Pilot(
            standard_error=row.standard_error,
            n=row.n,
            clusters=row.clusters,
            freedom=row.spread.freedom,
            spread_freedom=row.spread_freedom,
            tests=row.tests,
            repeats=row.repeats,
            repeat_share=min(1.0, (row.repeat_variance or 0.0) / row.standard_error**2),
        )
        yield PowerRow(**names, **_needed(pilot, planned, has_repeats=row.repeat_variance is not None))


def _no_spread(row: Difference) -> str:
    if row.clusters < 2:
        return "only one clip, picture or scene, so it is not known how much a difference varies"
    alike = "score alike on every row" if abs(row.delta) < _SAME else "differ alike everywhere"
    return f"{row.model_a} and {row.model_b} {alike}, so it is not known how much a difference varies"


def _is_metric(row: Difference, a: Measured, b: Measured) -> bool:
    """Whether a test is of the metric: it, the headline, or verdicts of rows whose means are its values."""
    if (row.subset, row.category) != ("", "") or row.value not in {a.metric, *RIGHT}:
        return False
    if row.value == a.metric or (row.family == "headline" and a.metric == benchmark(row.benchmark).headline):
        return True
    return max(abs(row.mean_a - (a.value or 0)), abs(row.mean_b - (b.value or 0))) < _SAME


def _single(number: Measured, out: Store, entry: ManifestEntry | None, planned: float) -> Iterator[PowerRow]:
    if number.value is None or number.ci_low is None or number.ci_high is None or entry is None or not number.n:
        return
    freedom = number.ci_df or math.inf
    error = math.sqrt(2) * Evidence(number.value, number.ci_low, number.ci_high, number.n, freedom).standard_error
    texts = ScoreRows.read(out, entry).texts
    tasks = benchmark(number.benchmark).derived_tasks.get(number.task, (number.task,))
    in_group = np.isin(texts["task"], tasks) & (texts["setting"] == number.setting)
    rows = in_group & (texts["status"] == "ok")
    if number.n > rows.sum():  # a metric that counts failed rows as wrong
        rows = in_group & np.isin(texts["status"], ["ok", "error"])
    clusters = len({*texts["cluster"][rows]})
    freedom = number.ci_df or max(1.0, clusters - 1.0)
    pilot = Pilot(standard_error=error, n=number.n, clusters=clusters, freedom=freedom, spread_freedom=freedom)
    yield PowerRow(**_names(number), n=number.n, clusters=clusters, **_needed(pilot, planned, has_repeats=False))


def _names(number: Measured) -> dict[str, Any]:
    names = ("benchmark", "model", "task", "setting", "metric", "value")
    return {**{name: getattr(number, name) for name in names}, "is_percent": number.unit == "fraction"}


def _needed(pilot: Pilot, planned: float, *, has_repeats: bool) -> Mapping[str, Any]:
    clusters = pilot.needed(planned), *pilot.needed_within(planned)
    rows = [math.ceil(count * pilot.n / pilot.clusters) for count in clusters]
    few = f"{pilot.clusters} clips, pictures or scenes are too few to rely on; plan with at least {pilot.least}"
    return {
        "standard_error": pilot.standard_error,
        "detectable": pilot.detectable(),
        **dict(zip(("clusters_needed", "clusters_needed_low", "clusters_needed_high"), clusters, strict=True)),
        **dict(zip(("rows_needed", "rows_needed_low", "rows_needed_high"), rows, strict=True)),
        "repeats": pilot.repeats,
        "clusters_needed_by_repeats": {
            repeats: pilot.with_repeats(repeats).needed(planned) for repeats in (_REPEATS if has_repeats else ())
        },
        "note": few if pilot.clusters < pilot.least else "",
    }


def show_power(rows: Sequence[PowerRow], difference: float, *, as_json: bool) -> None:
    """Print what the numbers of an output can show."""
    text = (
        f"Rows and clusters to find a difference of {100 * difference:g} points (of a fraction) in 80% of cases, "
        "two-sided at 5%, after Holm's correction for all pairs; in brackets, what the uncertainty of the spread "
        "allows. Two models: as a pair on the same rows; one model: against another of the same spread, on other rows."
    )
    if not rows:
        text = "No value has an interval, from which this follows: it takes two clips, pictures or scenes with answers."
    print_result(
        as_json, [asdict(row) for row in rows], table(_POWER, [_power(row) for row in rows]), text, *_power_notes(rows)
    )


def _power_notes(rows: Sequence[PowerRow]) -> Iterator[str]:
    """Yield what is not known of some rows, and what repeats bring."""
    yield from dict.fromkeys(f"note: {row.benchmark} {row.task} {row.setting}: {row.note}" for row in rows if row.note)
    for row in rows:
        if by_repeats := row.clusters_needed_by_repeats:
            counts = ", ".join(f"{clusters:,} with {repeats}" for repeats, clusters in by_repeats.items())
            pair = f"{row.model} / {row.other} {row.task} {row.setting}"
            yield f"{pair}: clusters needed by answers to a question: {counts}"


def _power(row: PowerRow) -> list[str]:
    times, digits = (100, 1) if row.is_percent else (1, 4)
    return [
        f"{row.benchmark} {row.task} {row.setting} {row.metric}",
        f"{row.model} / {row.other}" if row.other else row.model,
        f"{row.n:,} ({row.clusters:,})",
        "-" if row.detectable is None else f"{times * row.detectable:.{digits}f}",
        _range(row.rows_needed, row.rows_needed_low, row.rows_needed_high),
        _range(row.clusters_needed, row.clusters_needed_low, row.clusters_needed_high),
    ]


def _range(value: int | None, low: int | None, high: int | None) -> str:
    return "-" if value is None or low is None or high is None else f"{value:,} [{low:,}, {high:,}]"

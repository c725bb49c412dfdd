"""Records of a nightly run, and its metrics beside those of the night before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.nightly.history import History, Pair
from jobs.nightly.judge_drift import JudgeDrift
from jobs.nightly.regressions import Comparison, MetricPair, PairName
from pipelines.benchmarks import benchmark
from pipelines.hashing import stable_id
from pipelines.report.metrics_file import Measured, identity

BASIS = ("cells", "dataset", "prompt")
"""Parts of a pair under which the same samples are asked the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """A pair of the configuration, and why it has to run; `why` is '' if it is unchanged."""

    model: str
    benchmark: str
    parts: Mapping[str, str]
    why: str
    before: Pair | None

    @property
    def fingerprint(self) -> str:
        """Return the hash of all parts."""
        return stable_id(dict(self.parts))

    @property
    def basis(self) -> str:
        """Return the hash of the parts under which samples of two nights are pairs."""
        return stable_id({name: self.parts.get(name, "") for name in BASIS})


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneMetric:
    """A number of the last measurement that tonight's lacks."""

    key: tuple[str, ...]  # benchmark, task, model, setting, subset, category, metric
    before: float
    since: str  # the night of the earlier number

    @property
    def whole(self) -> bool:
        """Return whether it is of no subset or category."""
        return self.key[4] == "" and self.key[5] == ""

    @property
    def is_alarm(self) -> bool:
        """Return whether it is over a whole benchmark: a category may have lost its last row."""
        return self.whole


@dataclass(slots=True)
class NightlyResult:
    """The result of a night."""

    name: str
    pairs: list[Pair] = field(default_factory=list)
    metrics: list[Measured] = field(default_factory=list)  # measured tonight
    gone: list[GoneMetric] = field(default_factory=list)
    comparison: Comparison = field(default_factory=Comparison)
    drifts: list[JudgeDrift] = field(default_factory=list)
    judging_usd: float = 0.0  # of the answers that were judged again
    warnings: list[str] = field(default_factory=list)
    over_budget: list[str] = field(default_factory=list)  # models with more failed rows than allowed
    summary: str = ""
    report: str = ""
    """Path of the page of the joint report; '' when none was made."""

    def pairs_in(self, state: str) -> list[Pair]:
        """Return the pairs with state `ran`, `unchanged`, `failed` or `waiting`."""
        return [pair for pair in self.pairs if pair.state == state]

    @property
    def has_alarm(self) -> bool:
        """Return whether a score changed, a number is gone, a model failed, or too many rows failed."""
        is_gone = any(metric.is_alarm for metric in self.gone)
        return bool(self.pairs_in("failed") or self.over_budget or self.comparison.alarms or is_gone)

    @property
    def all_failed(self) -> bool:
        """Return whether every pair that was due failed."""
        return bool(self.pairs_in("failed")) and not self.pairs_in("ran")

    @property
    def cost_usd(self) -> float:
        """Return the sum of the known costs."""
        return sum(pair.cost_usd or 0.0 for pair in self.pairs) + self.judging_usd


def gone_metrics(night: NightlyResult, statuses: Sequence[PairStatus], history: History) -> Iterator[GoneMetric]:
    """Yield the numbers of the last measurement that tonight's lacks."""
    for _, since, row, now in _rows(night, statuses, history):
        if row.value is not None and _has_interval(row) and (now is None or now.value is None):
            yield GoneMetric(key=identity(row), before=row.value, since=since)


def metric_pairs(
    night: NightlyResult, statuses: Sequence[PairStatus], history: History, bases: Mapping[PairName, str]
) -> list[MetricPair]:
    """Return the main metrics of the pairs whose data, prompts or selection changed since they were measured.

    `bases` are those of the levels: a night that failed records the parts that it would have measured.
    """
    return [
        MetricPair(before=row, now=now, since=since)
        for status, since, row, now in _rows(night, statuses, history)
        if now and _is_main(row) and _has_interval(row) and _has_interval(now) and _has_other_basis(status, bases)
    ]


def _has_other_basis(status: PairStatus, bases: Mapping[PairName, str]) -> bool:
    if (basis := bases.get((status.model, status.benchmark))) is not None:
        return basis != status.basis
    before = status.before.parts if status.before else {}
    return any(before.get(name, "") != status.parts.get(name, "") for name in BASIS)


def _is_main(row: Measured) -> bool:
    return row.is_whole and row.metric in benchmark(row.benchmark).main_metrics


def _has_interval(row: Measured) -> bool:
    return None not in (row.value, row.ci_low, row.ci_high)


def _rows(
    night: NightlyResult, statuses: Sequence[PairStatus], history: History
) -> Iterator[tuple[PairStatus, str, Measured, Measured | None]]:
    """Yield the earlier metrics of the pairs that ran, each with its night and tonight's metric."""
    now = {(row.benchmark, row.model, row.key): row for row in night.metrics}
    ran = {(pair.model, pair.benchmark) for pair in night.pairs_in("ran")}
    earlier: dict[str, list[Measured]] = {}
    for status in statuses:
        since = status.before.measured if status.before else ""
        if not since or (status.model, status.benchmark) not in ran:
            continue
        if since not in earlier:
            earlier[since] = history.metrics(since)
        for row in earlier[since]:
            if (row.model, row.benchmark) == (status.model, status.benchmark):
                yield status, since, row, now.get((row.benchmark, row.model, row.key))

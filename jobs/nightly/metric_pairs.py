"""Metrics of tonight and of the last night that measured the same pair."""

from collections.abc import Iterator, Mapping, Sequence

from jobs.nightly.history import History
from jobs.nightly.records import BASIS, GoneMetric, NightlyResult, PairStatus
from jobs.nightly.regressions import MetricPair, PairName
from pipelines.benchmarks import benchmark
from pipelines.report.metrics_file import Measured, identity


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

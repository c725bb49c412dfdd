"""Rows of the leaderboard: the headline metrics of outputs, and the published numbers of the same measures."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from jobs.leaderboard.conditions import conditions_of, notes_of
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import is_person
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.report.measured import TABLES, Measured, MetricKey
from pipelines.report.metrics_file import load_metrics
from pipelines.report.references import References
from pipelines.storage.store import Store

Board: TypeAlias = tuple[str, str, str, str, str]
"""Benchmark, metric, task, setting and subset: the rows that are compared with each other."""
Origin: TypeAlias = Literal["measured", "baseline", "people", "chance", "published", "reported"]
"""Only measured rows have a rank. Baselines are models that guess; chance is by arithmetic; others report in files."""

OF_OTHERS: Final = ("published", "reported")
_PUBLISHED_PEOPLE: Final = ("Human", "Humans")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRow:
    """One number of one model."""

    board: Board
    model: str
    value: float | None
    unit: str
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None  # rows in the denominator; None where a paper does not say
    n_failed: int | None = None
    origin: Origin = "measured"
    source: str  # label of the output, or the paper's table
    revision: str = ""  # of the weights
    notes: tuple[str, ...] = ()
    rank: int | None = None  # among the measured rows of its board; None where these are not comparable
    rank_low: int | None = None  # the best rank that simultaneous tests of all pairs allow
    rank_high: int | None = None  # the worst
    scored: tuple[Store, ManifestEntry] | None = field(default=None, repr=False, compare=False)
    """Where its rows were scored; None for a number that several models make together."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What the number was measured on and with, by kind; a kind that is unknown or irrelevant is absent."""


def measured_rows(out: Store, run: RunManifest, label: str, benchmarks: Sequence[str] = ()) -> list[LeaderboardRow]:
    """Return the rows of an output, of some benchmarks or of all.

    Raises:
        UsageError: there is no report yet.
        StoreError: a file is damaged, or the store cannot be reached.
    """
    metrics = load_metrics(out)
    if metrics is None:
        raise UsageError(f"{out.uri}: no report/metrics.json yet; `vlmsweep report` writes it")
    numbers = [number for number in metrics if number.source == TABLES]
    entries: dict[str, dict[str, ManifestEntry]] = {}
    for entry in run.entries:
        entries.setdefault(entry.benchmark, {})[entry.model] = entry
    rows = []
    for number in numbers:
        name, of_benchmark = number.benchmark, entries.get(number.benchmark, {})
        if of_benchmark and name in (benchmarks or (name,)) and _is_shown(number, benchmark(name), of_benchmark):
            # Numbers that several models make together have no entry of their own; their members agree in conditions.
            entry = of_benchmark.get(number.model, next(iter(of_benchmark.values())))
            rows.append(_measured_row(number, entry, out, run, label))
    return [*rows, *_chance_rows(rows, numbers, run, label)]


def _chance_rows(
    rows: Sequence[LeaderboardRow], numbers: Sequence[Measured], run: RunManifest, label: str
) -> Iterator[LeaderboardRow]:
    """Yield chance by arithmetic for each board of an output, on the rows of its best model."""
    best: dict[Board, LeaderboardRow] = {}
    for row in rows:
        if row.origin == "measured" and row.value is not None:
            sign = -1 if row.board[1] in benchmark(row.board[0]).lower_is_better else 1
            held = best.setdefault(row.board, row)
            if sign * (row.value - (held.value or 0.0)) > 0:
                best[row.board] = row
    of_benchmark = {
        name: References(benchmark(name), [number for number in numbers if number.benchmark == name], run.baselines)
        for name in {board[0] for board in best}
    }
    index = {(number.benchmark, number.model, number.key): number for number in numbers}
    for (name, metric, task, setting, subset), row in best.items():
        number = index[name, row.model, MetricKey(metric, task, setting, subset)]
        chance = of_benchmark[name].chance(number)
        if chance is not None and not chance.baseline:
            yield LeaderboardRow(
                board=row.board, model="Chance", value=chance.value, unit=row.unit, origin="chance", source=label
            )


def published_rows(measured: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Return the published numbers of the boards that have a measured row."""
    boards = dict.fromkeys(row.board for row in measured)
    return [
        row for name in dict.fromkeys(board[0] for board in boards) for row in _published(name) if row.board in boards
    ]


def _measured_row(number: Measured, entry: ManifestEntry, out: Store, run: RunManifest, label: str) -> LeaderboardRow:
    board: Board = (number.benchmark, number.metric, number.task, number.setting, number.subset)
    return LeaderboardRow(
        board=board,
        **{name: getattr(number, name) for name in ("model", "value", "unit", "ci_low", "ci_high", "n", "n_failed")},
        origin="people" if is_person(number.model) else "baseline" if number.model in run.baselines else "measured",
        source=label,
        revision=str(entry.target.fingerprint.get("revision") or "") if entry.model == number.model else "",
        scored=(out, entry) if entry.model == number.model else None,
        notes=tuple(notes_of(entry, board[2], board[3])),
        conditions=conditions_of(entry, out, run, metric=board[1], task=board[2], setting=board[3]),
    )


def _is_shown(number: Measured, definition: BenchmarkDefinition, models: Collection[str]) -> bool:
    """Return whether a metric is a headline of the whole, or of a part that the paper prints; of runs only the mean."""
    ensemble = definition.ensemble
    runs = [model for model in models if ensemble and ensemble.is_member(model)]
    if ensemble and ensemble.replaces_members and number.model in runs and len(runs) > 1:
        return False
    if number.metric not in definition.main_metrics or number.category:
        return False
    return not number.subset or any(
        (value.metric, value.subset, value.category) == (number.metric, number.subset, "")
        for value in definition.published
    )


def _published(name: str) -> Iterator[LeaderboardRow]:
    settings = benchmark(name).publication.settings
    for value in benchmark(name).published:
        if value.category or value.value is None:
            continue
        setting = settings.get(value.setting, value.setting)
        printed_as = (f"setting in print: {value.setting}",) if value.setting and value.setting != setting else ()
        yield LeaderboardRow(
            board=(name, value.metric, value.task, setting, value.subset),
            model=value.model,
            value=value.value,
            unit=value.unit or "fraction",
            origin="people" if value.model in _PUBLISHED_PEOPLE else "published",
            source=f"paper, {value.table}",
            notes=(*printed_as, *filter(None, (value.note,))),
        )

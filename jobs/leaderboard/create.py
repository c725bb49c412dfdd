"""Join outputs and published rows with their ranks; write CSV and a page whose script is allowed by hash."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

from jobs.leaderboard.rows import (
    EXTERNAL_ORIGINS,
    Board,
    LeaderboardRow,
    measured_rows,
    published_rows,
    reported_rows,
    shortened,
)
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import RIGHT, Sample
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.metrics.intervals import DIFFERENCE, LEVEL, interval, student_p, student_quantile
from pipelines.metrics.paired import PairedSums, holm
from pipelines.plan.run_manifest import ManifestEntry, load_existing_runs
from pipelines.rendering.environment import csv_text, environment, page_head
from pipelines.rendering.formats import format_value
from pipelines.report.scored_pair import ScoredPair, ScoreRows
from pipelines.storage.backend import short_labels
from pipelines.storage.store import Store, publish_files

_SAME = 1e-9


class PairReader:
    """Reads the score rows of each model once, and aligns two models once."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._rows = lru_cache(maxsize=None)(self._read_rows)
        self._samples = lru_cache(maxsize=None)(self._read_samples)
        self._pairs: dict[tuple[str, ...], list[PairedMetric]] = {}
        self._entries: dict[tuple[str, str, str], tuple[Store, ManifestEntry]] = {}

    def metric(self, a: LeaderboardRow, b: LeaderboardRow) -> PairedMetric | None:
        """Return the metric of two rows of a board on the rows that both scored; None without such scores."""
        if a.scored is None or b.scored is None:
            return None
        keys = [self._key(*a.scored), self._key(*b.scored)]
        pair = self._pairs.setdefault((*keys[0], *keys[1]), [])
        if not pair:
            pair.extend(self._metrics(*keys))
        _, name, *group = a.board
        metrics = {m.metric: m for m in pair if [m.task, m.setting, m.subset] == group and not m.category}
        return metrics.get(name) or next(
            (metrics[n] for n in RIGHT if n in metrics and _has_values(metrics[n], a, b)), None
        )

    def _key(self, out: Store, entry: ManifestEntry) -> tuple[str, str, str]:
        key = (out.uri, entry.benchmark, entry.model)
        self._entries[key] = (out, entry)
        return key

    def _read_rows(self, key: tuple[str, str, str]) -> ScoreRows:
        return ScoreRows.read(*self._entries[key])

    def _read_samples(self, data: str, name: str) -> Mapping[str, Sample]:
        try:
            return {sample.sample_id: sample for sample in Dataset.open(Store(data), name).samples()}
        except (DatasetError, StoreError):  # the board is then ranked by intervals
            return {}

    def _metrics(self, a: tuple[str, str, str], b: tuple[str, str, str]) -> Iterator[PairedMetric]:
        first, second = self._entries[a][1], self._entries[b][1]
        pair = ScoredPair(a=first, b=second, rows_a=self._rows(a), rows_b=self._rows(b))
        if pair.unscored:
            return
        yield from (metric for metric, _, _ in pair.score_means())
        samples = self._samples(second.data, second.benchmark) if first.definition.measures else {}
        for rows in pair.answered() if samples else ():
            with_data = rows[0]["sample_id"].isin(list(samples)).to_numpy()
            rows_a, rows_b = (side[with_data].reset_index(drop=True) for side in rows)
            if len(rows_a):
                yield from first.definition.paired_metrics(rows_a, rows_b, samples)


def _has_values(metric: PairedMetric, a: LeaderboardRow, b: LeaderboardRow) -> bool:
    """Return whether the means of two models' verdicts are the values of their rows."""
    values = PairedSums.of(metric.a, metric.b).values
    return all(abs(value - (row.value or 0.0)) < _SAME for value, row in zip(values, (a, b), strict=True))


def rank_ranges(rows: Sequence[LeaderboardRow], pairs: PairReader) -> list[tuple[int, int]]:
    """Return the lowest and highest rank of each row of a board, the rows having values."""
    sign = -1 if rows and rows[0].board[1] in benchmark(rows[0].board[0]).lower_is_better else 1
    places = list(combinations(range(len(rows)), 2))
    tests = [_test(rows[i], rows[j], pairs.metric(rows[i], rows[j])) for i, j in places]
    better = [0] * len(rows)  # how many are better than each, for certain
    worse = [0] * len(rows)
    for (i, j), (gain, _), p in zip(places, tests, holm([p for _, p in tests]), strict=True):
        if p is not None and p < 1 - LEVEL:
            winner, loser = (j, i) if sign * gain > 0 else (i, j)
            better[loser] += 1
            worse[winner] += 1
    return [(1 + above, len(rows) - below) for above, below in zip(better, worse, strict=True)]


def _test(a: LeaderboardRow, b: LeaderboardRow, metric: PairedMetric | None) -> tuple[float, float]:
    """Return B minus A and its two-sided p-value; 1 where nothing says how sure the difference is."""
    if metric is not None:
        return paired_p(metric, DIFFERENCE if a.unit == "fraction" else (-math.inf, math.inf))
    if a.value is None or b.value is None:
        return 0.0, 1.0
    gain = b.value - a.value
    low, high = (a, b) if gain > 0 else (b, a)
    if low.value is None or high.value is None or low.ci_high is None or high.ci_low is None or not gain:
        return gain, 1.0
    # Half widths of 95% intervals on the sides that face each other (Zou and Donner 2008).
    reach = math.hypot(low.ci_high - low.value, high.value - high.ci_low)
    return gain, student_p(abs(gain) / reach * student_quantile(10_000), math.inf) if reach else 1.0


def paired_p(metric: PairedMetric, ends: tuple[float, float]) -> tuple[float, float]:
    """Return B minus A and the p-value by which its interval of the same level would leave out 0.

    Where the difference is the same in each cluster, it is that of a sign test over clusters.
    """
    pair = PairedSums.of(metric.a, metric.b)
    value_a, value_b = pair.values
    gain = value_b - value_a
    if math.isnan(gain) or not gain or pair.clusters < 2:
        return gain, 1.0
    reached = interval([*metric.b, *(replace(term, weight=-term.weight) for term in metric.a)], ends)
    if reached is None:
        return gain, 2.0 ** (1 - pair.clusters)
    reach = max(reached.high - gain, gain - reached.low)  # one side may be cut at an end of the scale
    return gain, student_p(abs(gain) / reach * student_quantile(reached.freedom), reached.freedom)


PAGE: Final = "leaderboard.html"
CSV_FILE: Final = "leaderboard.csv"
COLUMNS: Final = (
    *("benchmark", "metric", "task", "setting", "subset", "rank", "rank_low", "rank_high", "model", "value"),
    *("unit", "ci_low", "ci_high", "n", "n_failed", "origin", "source", "revision", "notes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A condition in which the rows of a benchmark differ that would stand in one table."""

    benchmark: str
    kind: str
    values: Mapping[str, Sequence[str]]  # value -> `OUTPUT (MODEL)` of the rows that have it

    def __str__(self) -> str:
        sides = [f"{value} in {shortened(sources)}" for value, sources in self.values.items()]
        return f"{self.benchmark}: {self.kind}: {'; '.join(sides)}"


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Rows in order of benchmarks, tables and values, and in what those of one table differ."""

    rows: tuple[LeaderboardRow, ...]
    conflicts: tuple[Conflict, ...]


def join_outputs(
    uris: Sequence[str], benchmarks: Sequence[str] = (), *, allow_mixed: bool = False, reported: Sequence[str] = ()
) -> Leaderboard:
    """Join the headline metrics of outputs with the published ones, and with those of records in `reported` locations.

    Raises:
        UsageError: an output has no run or report, none has a headline metric, or rows of one table were measured on
            other data, prompts or settings and `allow_mixed` is not set. With it they are marked, and have no rank.
            Or as `reported_rows`.
        StoreError: a file is damaged, or a store cannot be reached.
    """
    uris = list(dict.fromkeys(uris))
    outs = [Store(uri) for uri in uris]
    runs = zip(outs, load_existing_runs(outs), short_labels(uris), strict=True)
    rows = [row for out, run, label in runs for row in measured_rows(out, run, label, benchmarks)]
    measured = [row for row in rows if row.origin != "chance"]
    if not measured:
        raise UsageError(f"no headline metric in {', '.join(uris)}; a leaderboard needs the report of a run")
    conflicts = find_conflicts(measured)
    if conflicts and not allow_mixed:
        differences = "\n".join(f"  {conflict}" for conflict in conflicts)
        raise UsageError(
            f"results are not comparable:\n{differences}\nLeave an output out, choose --benchmarks, or give "
            "--allow-mixed, which marks the rows"
        )
    marks = conflict_notes(measured)
    noted = [
        replace(row, notes=tuple(dict.fromkeys((*row.notes, *mark)))) for row, mark in zip(measured, marks, strict=True)
    ]
    ranked = _with_ranks(noted, {row.board for row, mark in zip(measured, marks, strict=True) if mark})
    chance = [row for row in rows if row.origin == "chance"]
    other_rows = [*chance, *published_rows(measured), *reported_rows(reported, measured)]
    return Leaderboard(tuple(_ordered([*ranked, *other_rows])), tuple(conflicts))


def write_leaderboard(leaderboard: Leaderboard, to: Store) -> list[str]:
    """Write page and CSV to a folder or store; return their addresses."""
    texts = {
        PAGE: leaderboard_page(leaderboard.rows, leaderboard.conflicts),
        CSV_FILE: leaderboard_csv(leaderboard.rows),
    }
    publish_files(to, {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()})
    return [f"{to.uri}/{name}" for name in (PAGE, CSV_FILE)]


def leaderboard_csv(rows: Iterable[LeaderboardRow]) -> str:
    """Return one line a row, unrounded; text that a spreadsheet would run as a formula is preceded by an apostrophe."""
    names = COLUMNS[COLUMNS.index("rank") : -1]
    groups = ((*row.board, *(getattr(row, name) for name in names), "; ".join(row.notes)) for row in rows)
    return csv_text(COLUMNS, groups)


def _with_ranks(rows: Sequence[LeaderboardRow], mixed: set[tuple[str, ...]]) -> list[LeaderboardRow]:
    """Rank the models of each table, the best first; those of a table whose rows differ in conditions have no rank."""
    boards: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        if row.origin == "measured" and row.value is not None and row.board not in mixed:
            boards.setdefault(row.board, []).append(place)
    ranked, pairs = list(rows), PairReader()
    for board, places in boards.items():
        ranked_rows = [rows[place] for place in places]
        losses = [_loss(board, row.value) for row in ranked_rows if row.value is not None]
        for place, loss, ends in zip(places, losses, rank_ranges(ranked_rows, pairs), strict=True):
            rank = 1 + sum(other < loss for other in losses)
            low, high = min(rank, ends[0]), max(rank, ends[1])
            ranked[place] = replace(rows[place], rank=rank, rank_low=low, rank_high=high)
    return ranked


def _loss(board: tuple[str, ...], value: float) -> float:
    """Return a number that is smaller for the better value."""
    name, metric, *_ = board
    return value if metric in benchmark(name).lower_is_better else -value


def _ordered(rows: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """Sort by benchmark, metric, task and setting in their declared order, then by value, the best first."""
    names = benchmark_names()

    def key(row: LeaderboardRow) -> tuple[object, ...]:
        name, metric, task, setting, subset = row.board
        definition = benchmark(name)
        metrics = definition.main_metrics
        groups = [(of, each) for of, settings in definition.tasks.items() for each in settings]
        column = groups.index((task, setting)) if (task, setting) in groups else len(groups)
        is_last = row.origin == "reported" and row.ci_low is None
        value = float("inf") if row.value is None or is_last else _loss(row.board, row.value)
        return names.index(name), metrics.index(metric), column, task, setting, subset, value, row.model, row.source

    return sorted(rows, key=key)


_PACKAGE: Final = "jobs.leaderboard"
_REVISION_LENGTH: Final = 12


def leaderboard_page(rows: Sequence[LeaderboardRow], conflicts: Iterable[Conflict]) -> str:
    """Return the page of rows in their order; `conflicts` are shown as warnings."""
    names = dict.fromkeys(row.board[0] for row in rows)
    return (
        environment(_PACKAGE)
        .get_template("leaderboard.html.j2")
        .render(
            **page_head("leaderboard.css", "leaderboard.js", _PACKAGE),
            conflicts=[str(conflict) for conflict in conflicts],
            parts=[_part(name, [row for row in rows if row.board[0] == name]) for name in names],
            has_reported=any(row.origin == "reported" for row in rows),
            outputs=list(
                dict.fromkeys(row.source for row in rows if row.origin not in EXTERNAL_ORIGINS and row.n is not None)
            ),
        )
    )


def _part(name: str, rows: Sequence[LeaderboardRow]) -> dict[str, Any]:
    definition = benchmark(name)
    boards = list(dict.fromkeys(row.board for row in rows))
    return {
        "name": name,
        "title": definition.title,
        "measure": definition.measure,
        "boards": [
            (str(number), f"{metric_label(metric)}: {', '.join(filter(None, parts))}")
            for number, (_, metric, *parts) in enumerate(boards)
        ],
        "main": str(boards.index(_main_board(rows, definition))),
        "rows": [_line(row, boards.index(row.board)) for row in rows],
    }


def _main_board(rows: Sequence[LeaderboardRow], definition: BenchmarkDefinition) -> Board:
    """Return the table shown first: the headline on the whole, where it stands for the benchmark."""
    counts = Counter(row.board for row in rows)
    group = definition.headline_group({board[2:4] for board in counts if board[1] == definition.headline})
    return max(
        counts, key=lambda board: (board[1] == definition.headline, board[2:4] == group, not board[4], counts[board])
    )


def _line(row: LeaderboardRow, board: int) -> dict[str, Any]:
    numbers = (row.value, row.ci_low, row.ci_high)
    value, low, high = (format_value(number, row.unit) for number in numbers)
    is_share = row.unit == "fraction" and all(0 <= number <= 1 for number in numbers if number is not None)
    return {
        "row": row,
        "board": str(board),
        "rank": "" if row.rank is None else _rank_text(row),
        "value": value,
        "interval": f"{low}\N{EN DASH}{high}" if low and high else "",
        "revision": row.revision[:_REVISION_LENGTH],
        "percent": ["" if n is None else f"{100 * n:.2f}" for n in numbers] if is_share else None,
    }


def _rank_text(row: LeaderboardRow) -> str:
    """Return the ranks that a row may have, such as `1-4`."""
    ends = dict.fromkeys((row.rank_low, row.rank_high))
    return "\N{EN DASH}".join(map(str, ends))


def leaderboard_files(outs: Sequence[str], benchmarks: Sequence[str]) -> dict[str, str]:
    """Return the files of a leaderboard of outputs, its page first, for a site; UsageError as `join_outputs`."""
    board = join_outputs(outs, benchmarks, allow_mixed=True)
    return {PAGE: leaderboard_page(board.rows, board.conflicts), CSV_FILE: leaderboard_csv(board.rows)}


def find_conflicts(rows: Iterable[LeaderboardRow]) -> list[Conflict]:
    """Return in what the rows of one table differ, once for each benchmark and kind."""
    differing: dict[tuple[str, str], dict[str, list[str]]] = {}
    for board_rows in _by_board(rows).values():
        for kind in _differing_kinds(board_rows):
            values = differing.setdefault((board_rows[0].board[0], kind), {})
            for row in board_rows:
                if kind in row.conditions:
                    values.setdefault(row.conditions[kind], []).append(f"{row.source} ({row.model})")
    return [
        Conflict(
            benchmark=name, kind=kind, values={value: [*dict.fromkeys(sources)] for value, sources in values.items()}
        )
        for (name, kind), values in differing.items()
    ]


def conflict_notes(rows: Sequence[LeaderboardRow]) -> list[tuple[str, ...]]:
    """Return for each row its own values of the conditions in which its table differs."""
    differing = {board: _differing_kinds(board_rows) for board, board_rows in _by_board(rows).items()}
    return [
        tuple(f"{kind} {row.conditions[kind]}" for kind in differing[row.board] if kind in row.conditions)
        for row in rows
    ]


def _by_board(rows: Iterable[LeaderboardRow]) -> dict[tuple[str, ...], list[LeaderboardRow]]:
    boards: dict[tuple[str, ...], list[LeaderboardRow]] = {}
    for row in rows:
        boards.setdefault(row.board, []).append(row)
    return boards


def _differing_kinds(rows: Sequence[LeaderboardRow]) -> list[str]:
    distinct = Counter(kind for kind, _ in {item for row in rows for item in row.conditions.items()})
    return sorted(kind for kind, values in distinct.items() if values > 1)

"""Join outputs and published rows, and write them as a page and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.errors import UsageError
from pipelines.leaderboard.conditions import Conflict, conflict_notes, find_conflicts
from pipelines.leaderboard.page import leaderboard_page
from pipelines.leaderboard.reported import reported_rows
from pipelines.leaderboard.rows import LeaderboardRow, measured_rows, published_rows
from pipelines.plan.run_manifest import load_existing_runs
from pipelines.rendering.escaping import csv_cell
from pipelines.storage.backend import short_labels
from pipelines.storage.published_files import publish_files
from pipelines.storage.store import Store

PAGE: Final = "leaderboard.html"
CSV_FILE: Final = "leaderboard.csv"
COLUMNS: Final = (
    *("benchmark", "metric", "task", "setting", "subset", "rank", "model", "value", "unit", "ci_low", "ci_high", "n"),
    *("n_failed", "origin", "source", "revision", "notes"),
)


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
    measured = [row for out, run, label in runs for row in measured_rows(out, run, label, benchmarks)]
    if not measured:
        raise UsageError(f"no headline metric in {', '.join(uris)}; a leaderboard needs the report of a run")
    conflicts = find_conflicts(measured)
    if conflicts and not allow_mixed:
        differences = "\n".join(f"  {conflict}" for conflict in conflicts)
        raise UsageError(
            f"these numbers were not measured alike:\n{differences}\nLeave an output out, choose --benchmarks, or give "
            "--allow-mixed, which marks the rows"
        )
    marks = conflict_notes(measured)
    noted = [
        replace(row, notes=tuple(dict.fromkeys((*row.notes, *mark)))) for row, mark in zip(measured, marks, strict=True)
    ]
    ranked = _with_ranks(noted, {row.board for row, mark in zip(measured, marks, strict=True) if mark})
    of_others = [*published_rows(measured), *reported_rows(reported, measured)]
    return Leaderboard(tuple(_ordered([*ranked, *of_others])), tuple(conflicts))


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        numbers = (row.value, row.unit, row.ci_low, row.ci_high, row.n, row.n_failed)
        cells = (*row.board, row.rank, row.model, *numbers, row.origin, row.source, row.revision, "; ".join(row.notes))
        writer.writerow(["" if cell is None else csv_cell(str(cell)) for cell in cells])
    return text.getvalue()


def _with_ranks(rows: Sequence[LeaderboardRow], mixed: set[tuple[str, ...]]) -> list[LeaderboardRow]:
    """Rank the models of each table, the best first; those of a table whose rows differ in conditions have no rank."""
    values: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row.origin == "measured" and row.value is not None and row.board not in mixed:
            values.setdefault(row.board, []).append(row.value)
    return [
        replace(row, rank=1 + sum(_loss(row.board, other) < _loss(row.board, row.value) for other in values[row.board]))
        if row.origin == "measured" and row.value is not None and row.board in values
        else row
        for row in rows
    ]


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
        cells = [(of, each) for of, settings in definition.tasks.items() for each in settings]
        column = cells.index((task, setting)) if (task, setting) in cells else len(cells)
        is_last = row.origin == "reported" and row.ci_low is None
        value = float("inf") if row.value is None or is_last else _loss(row.board, row.value)
        return names.index(name), metrics.index(metric), column, task, setting, subset, value, row.model, row.source

    return sorted(rows, key=key)

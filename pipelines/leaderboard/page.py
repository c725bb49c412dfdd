"""The leaderboard as one HTML file: its own script and style, allowed by hash; it needs no network.

Without scripts all rows are shown, in the order of the CSV. Names and notes are cleaned, then escaped; no foreign text
is inside the script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.leaderboard.conditions import Conflict
from pipelines.leaderboard.rows import OF_OTHERS, Board, LeaderboardRow
from pipelines.rendering.environment import environment, inline_file

_PACKAGE: Final = "pipelines.leaderboard"
_REVISION_LENGTH: Final = 12


def leaderboard_page(rows: Sequence[LeaderboardRow], conflicts: Iterable[Conflict]) -> str:
    """Return the page of rows in their order; `conflicts` are shown as warnings."""
    (css, css_source), (script, script_source) = (
        inline_file(name, _PACKAGE) for name in ("leaderboard.css", "leaderboard.js")
    )
    policy = (
        f"default-src 'none'; style-src {css_source}; script-src {script_source}; base-uri 'none'; form-action 'none'"
    )
    names = dict.fromkeys(row.board[0] for row in rows)
    return (
        environment(_PACKAGE)
        .get_template("leaderboard.html.j2")
        .render(
            policy=policy,
            css=css,
            script=script,
            conflicts=[str(conflict) for conflict in conflicts],
            parts=[_part(name, [row for row in rows if row.board[0] == name]) for name in names],
            has_reported=any(row.origin == "reported" for row in rows),
            outputs=list(
                dict.fromkeys(row.source for row in rows if row.origin not in OF_OTHERS and row.n is not None)
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
        "boards": [(str(number), _board_title(board)) for number, board in enumerate(boards)],
        "main": str(boards.index(_main_board(rows, definition))),
        "rows": [_line(row, boards.index(row.board)) for row in rows],
    }


def _main_board(rows: Sequence[LeaderboardRow], definition: BenchmarkDefinition) -> Board:
    """Return the table shown first: the headline on the whole, where it stands for the benchmark."""
    counts = Counter(row.board for row in rows)
    cell = definition.headline_cell({board[2:4] for board in counts if board[1] == definition.headline})
    return max(
        counts, key=lambda board: (board[1] == definition.headline, board[2:4] == cell, not board[4], counts[board])
    )


def _board_title(board: Board) -> str:
    _, metric, task, setting, subset = board
    return f"{metric_label(metric)}: {', '.join(filter(None, (task, setting, subset)))}"


def _line(row: LeaderboardRow, board: int) -> dict[str, Any]:
    has_interval = row.ci_low is not None and row.ci_high is not None
    is_share = row.unit == "fraction" and all(
        0 <= v <= 1 for v in (row.value, row.ci_low, row.ci_high) if v is not None
    )
    return {
        "row": row,
        "board": str(board),
        "value": _text(row.value, row.unit),
        "interval": f"{_text(row.ci_low, row.unit)}\N{EN DASH}{_text(row.ci_high, row.unit)}" if has_interval else "",
        "revision": row.revision[:_REVISION_LENGTH],
        "percent": [_percent(value) for value in (row.value, row.ci_low, row.ci_high)] if is_share else None,
    }


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}" if unit == "fraction" else f"{value:,.3f}".rstrip("0").rstrip(".")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"

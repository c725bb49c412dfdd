"""Tables of repeated requests: what several tries are worth and where scores vary; and of verdicts of others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.repeats import right_answers, with_repeats
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.logged_answers.matching import reader
from pipelines.metrics.intervals import FloatArray
from pipelines.report.judge_tables import ComparedVerdicts
from pipelines.report.metrics_file import Measured
from pipelines.report.worded import worded, worded_if_any

FACTORS: Final = ("items", "settings", "prompts")  # axes of the scores before the last one, the repeats


def variance_components(scores: FloatArray) -> Mapping[str, float]:
    """Return the variance of each part: those of `FACTORS` with two levels or more, `interaction`, `repeats`.

    Crossed random effects by the method of moments: mean squares less what the parts within them contribute, at least
    0 (Searle, Casella and McCulloch 1992, Variance Components, 4.7; interactions pooled). With one repeat
    `interaction` holds the variance of repeats too, and `repeats` is absent.

    `scores` are (items, settings, prompts, repeats), all there.
    """
    *levels, repeats = scores.shape
    cells = scores.mean(axis=3)
    count, rest, degrees = cells.size, cells - cells.mean(), cells.size - 1
    squares = {}
    for axis, name in enumerate(FACTORS):
        if levels[axis] < 2:
            continue
        others = tuple(other for other in range(3) if other != axis)
        effect = cells.mean(axis=others, keepdims=True) - cells.mean()
        per_level = count // levels[axis] * repeats
        squares[name] = (per_level * float((effect**2).sum()) / (levels[axis] - 1), per_level)
        rest, degrees = rest - effect, degrees - (levels[axis] - 1)
    within = float(((scores - cells[..., None]) ** 2).sum()) / (count * (repeats - 1)) if repeats > 1 else 0.0
    between = repeats * float((rest**2).sum()) / degrees if degrees else within
    parts = {name: max(0.0, (square - between) / per_level) for name, (square, per_level) in squares.items()}
    if degrees:
        parts["interaction"] = max(0.0, (between - within) / repeats)
    if repeats > 1:
        parts["repeats"] = within
    return parts


PARTS: Final = ("items", "settings", "prompts", "interaction", "repeats")


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceRow:
    """Where the variance of one model's scores in one task lies."""

    benchmark: str
    model: str
    task: str
    levels: tuple[int, int, int, int]  # items, settings, sets of prompts and repeats
    parts: Mapping[str, float]  # as of `variance_components`


def variance_rows(name: str, model: str, frames: Sequence[pd.DataFrame]) -> Iterator[VarianceRow]:
    """Yield a row a task from the scored rows of each set of prompts; none where each request was asked once."""
    scored = [with_repeats(frame).assign(right=right_answers(frame)) for frame in frames]
    if len(frames) < 2 and not scored[0]["repeat"].any():
        return
    for task in dict.fromkeys(scored[0]["task"]):
        values = _complete([frame[(frame["task"] == task) & frame["right"].notna()] for frame in scored])
        if values.size and len(values) > 1:
            yield VarianceRow(
                benchmark=name, model=model, task=str(task), levels=values.shape, parts=variance_components(values)
            )


def _complete(frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Return the scores of items that have one everywhere, (items, settings, prompts, repeats)."""
    rows = pd.concat([frame.assign(prompts=number) for number, frame in enumerate(frames)])
    table = rows.pivot_table(
        index=["sample_id", "variant"], columns=["setting", "prompts", "repeat"], values="right", aggfunc="last"
    )
    levels = [rows[name].nunique() for name in ("setting", "prompts", "repeat")]
    whole = table.dropna().to_numpy(np.float64)
    # Settings that not all sets of prompts have leave holes: then nothing is crossed.
    return whole.reshape(-1, *levels) if whole.size and table.shape[1] == np.prod(levels) else np.empty((0, 1, 1, 1))


def variance_table(name: str, rows: Sequence[VarianceRow]) -> Table | None:
    """Return where the variance lies, by task and model; None where nothing was asked several times."""
    lines = []
    for row in (row for row in rows if row.benchmark == name):
        total = sum(row.parts.values())
        shares = [row.parts[part] / total if total and part in row.parts else None for part in PARTS]
        lines.append(TableRow(label=row.model, cells=(row.task, *row.levels, *shares)))
    return worded_if_any("variance", lines, name=name, title=benchmark(name).title)


def tries_table(name: str, metrics: Sequence[Measured]) -> Table | None:
    """Return what several tries at one request are worth, by model, task and setting; None without repeats."""
    try_metrics = [row for row in metrics if row.benchmark == name and _counts_tries(row.metric)]
    if not try_metrics:
        return None
    cells = {(row.model, row.task, row.setting, row.metric): row.cell for row in try_metrics}
    most = max(int(row.metric.removeprefix("pass_at_")) for row in try_metrics if row.metric.startswith("pass_at_"))
    shown = sorted({1, 2, most})
    columns = (*(f"pass_at_{k}" for k in shown), *(f"pass_hat_{k}" for k in shown[1:]), "majority", "spread")
    lines = [
        TableRow(label=model, cells=(task, setting, *(cells.get((model, task, setting, column)) for column in columns)))
        for model, task, setting in dict.fromkeys(key[:3] for key in cells)
    ]
    return worded("repeats", lines, columns, name=name, title=benchmark(name).title)


def _counts_tries(metric: str) -> bool:
    return metric in ("majority", "spread") or metric.startswith(("pass_at_", "pass_hat_"))


def verdict_table(name: str, verdicts: Sequence[ComparedVerdicts]) -> Table | None:
    """Return how many logged verdicts differ, by reader and by how; None where no log came with verdicts."""
    rows = [row for group in verdicts if group.benchmark == name for row in _rows(group)]
    return worded_if_any("other_verdicts", rows, name=name, title=benchmark(name).title)


def _rows(group: ComparedVerdicts) -> Iterator[TableRow]:
    start = (group.task, group.setting, group.rule, reader(group.rule))
    kinds: dict[str, tuple[TableCell, ...]] = {
        kind: (len(ids), group.rows, group.examples(kind)) for kind, ids in group.differing.items()
    }
    for kind, cells in (kinds or {"nothing": (0, group.rows, "")}).items():
        yield TableRow(label=group.model, cells=(*start, kind, *cells))

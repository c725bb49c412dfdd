"""Tables of repeated requests: what several tries are worth and where scores vary; and of verdicts of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.repeats import right_answers, with_repeats
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.import_logs.verdicts import reader
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.variance import variance_components
from pipelines.report.measured import Measured
from pipelines.report.other_verdicts import ComparedVerdicts

if TYPE_CHECKING:
    import pandas as pd


PARTS: Final = ("items", "settings", "prompts", "interaction", "repeats")
_VARIANCE_NOTE: Final = (
    "Variance of right (1) and wrong (0) answers, split by crossed random effects (method of moments) over the items "
    "that have an answer in every setting, set of prompts and repeat; percent of their sum."
)
_PARTS_NOTE: Final = (
    "Items: questions differ in difficulty. Interaction: which items are hard depends on setting or prompts. Repeats: "
    "answers to one request differ. Empty: a single level, so nothing to measure; with one repeat the interaction "
    "holds the variance of repeats too."
)
_TRIES_NOTE: Final = (
    "Percent; in brackets the 95% interval over clips, pictures or scenes. pass_at_k: one of k tries is right; "
    "pass_hat_k: all k are; majority: the answer given most often is right. Each further k is in metrics.json. "
    "spread: standard deviation over repeats of the share of right answers, in points."
)


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
                benchmark=name,
                model=model,
                task=str(task),
                levels=values.shape,
                parts=variance_components(values),
            )


def _complete(frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Return the scores of items that have one everywhere, (items, settings, prompts, repeats)."""
    import pandas as pd

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
    shown = [row for row in rows if row.benchmark == name]
    if not shown:
        return None
    lines = []
    for row in shown:
        total = sum(row.parts.values())
        shares = [row.parts[part] / total if total and part in row.parts else None for part in PARTS]
        lines.append(TableRow(label=row.model, cells=(row.task, *row.levels, *shares)))
    return Table(
        id=f"{name}_variance",
        title=f"{benchmark(name).title}: where the variance of scores lies",
        columns=("Task", "Items", "Settings", "Prompt sets", "Repeats", *(f"{part.capitalize()} %" for part in PARTS)),
        rows=tuple(lines),
        style="percent1",
        notes=(_VARIANCE_NOTE, _PARTS_NOTE),
    )


def tries_table(name: str, metrics: Sequence[Measured]) -> Table | None:
    """Return what several tries at one request are worth, by model, task and setting; None without repeats."""
    of_tries = [row for row in metrics if row.benchmark == name and _is_of_tries(row.metric)]
    if not of_tries:
        return None
    cells = {(row.model, row.task, row.setting, row.metric): row.cell for row in of_tries}
    most = max(int(row.metric.removeprefix("pass_at_")) for row in of_tries if row.metric.startswith("pass_at_"))
    shown = sorted({1, 2, most})
    columns = (*(f"pass_at_{k}" for k in shown), *(f"pass_hat_{k}" for k in shown[1:]), "majority", "spread")
    lines = [
        TableRow(label=model, cells=(task, setting, *(cells.get((model, task, setting, column)) for column in columns)))
        for model, task, setting in dict.fromkeys(key[:3] for key in cells)
    ]
    return Table(
        id=f"{name}_repeats",
        title=f"{benchmark(name).title}: repeats of requests",
        columns=("Task", "Setting", *columns),
        rows=tuple(lines),
        style="percent1",
        notes=(_TRIES_NOTE,),
    )


def _is_of_tries(metric: str) -> bool:
    return metric in ("majority", "spread") or metric.startswith(("pass_at_", "pass_hat_"))


def verdict_table(name: str, verdicts: Sequence[ComparedVerdicts]) -> Table | None:
    """Return how many logged verdicts differ, by reader and by how; None where no log came with verdicts."""
    groups = [group for group in verdicts if group.benchmark == name]
    if not groups:
        return None
    return Table(
        id=f"{name}_other_verdicts",
        title=f"{benchmark(name).title}: verdicts of other harnesses beside ours",
        columns=("Task", "Setting", "Reader", "How it reads", "What differs", "Rows", "Of", "Samples"),
        rows=tuple(row for group in groups for row in _rows(group)),
        notes=("Answers that were imported from logs. Of: rows with a verdict of the harness and one of ours.",),
    )


def _rows(group: ComparedVerdicts) -> Iterator[TableRow]:
    start = (group.task, group.setting, group.rule, reader(group.rule))
    kinds: dict[str, tuple[TableCell, ...]] = {
        kind: (len(ids), group.rows, group.examples(kind)) for kind, ids in group.differing.items()
    }
    for kind, cells in (kinds or {"nothing": (0, group.rows, "")}).items():
        yield TableRow(label=group.model, cells=(*start, kind, *cells))

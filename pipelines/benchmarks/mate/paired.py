"""MATE's metrics that are no mean over the rows of one task, of two models: OSE, and accuracy over two tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pipelines.benchmarks.aggregation import Column, mean_of_ratios
from pipelines.benchmarks.mate.metrics import KINDS
from pipelines.benchmarks.mate.rows import CROSSMODAL
from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample

if TYPE_CHECKING:
    import pandas as pd


def paired_metrics(a: pd.DataFrame, b: pd.DataFrame, _samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    """Yield OSE of each cross-modal task and of both, and exact match over the two tasks of each kind."""
    setting, task = str(a["setting"].iloc[0]), a["task"].to_numpy()
    for kind, tasks in KINDS.items():
        masks = [task == name for name in tasks]
        rows = masks[0] | masks[1]
        if all(mask.any() for mask in masks):
            yield PairedMetric(
                task=kind,
                setting=setting,
                metric="exact_match",
                a=_by_task(a, tasks, rows),
                b=_by_task(b, tasks, rows),
                clusters=a["cluster"].to_numpy()[rows],
                statistic=mean_of_ratios,
            )
    groups = {name: task == name for name in CROSSMODAL}
    for name, rows in {**groups, "crossmodal": np.isin(task, CROSSMODAL)}.items():
        if rows.any():
            sides = _outside(a[rows]), _outside(b[rows])
            clusters = a["cluster"].to_numpy()[rows]
            yield PairedMetric(task=name, setting=setting, metric="ose", a=sides[0], b=sides[1], clusters=clusters)


def _by_task(frame: pd.DataFrame, tasks: tuple[str, str], rows: Column) -> tuple[Column, ...]:
    task, correct = frame["task"].to_numpy()[rows], frame["correct"].to_numpy(dtype=np.float64)[rows]
    return tuple(column for name in tasks for column in (correct * (task == name), task == name))


def _outside(frame: pd.DataFrame) -> tuple[Column, ...]:
    """Return which answers name nothing in the scene, and which are wrong: OSE is the first of the second."""
    wrong = frame["correct"].to_numpy(dtype=np.float64) == 0
    return wrong & (frame["in_scene"].to_numpy(dtype=np.float64) == 0), wrong

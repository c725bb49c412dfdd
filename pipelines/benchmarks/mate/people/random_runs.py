"""The authors' random baseline: ten runs, of which the paper prints the mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.mate.metrics import reduce_scores
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import mean_of
from pipelines.benchmarks.tables import TableValue

if TYPE_CHECKING:
    import pandas as pd

_RUN: Final = re.compile(r"(?P<model>.+) run \d+")


def is_run(model: str) -> bool:
    """Return whether a model's name is that of one of several runs."""
    return _RUN.fullmatch(model) is not None


def mean_of_runs(frames: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]) -> dict[str, list[Metric]]:
    """Return the mean over runs of every metric, by the name under which it is shown; without intervals."""
    runs: dict[str, list[list[Metric]]] = {}
    for name, frame in frames.items():
        if match := _RUN.fullmatch(name):
            runs.setdefault(match["model"], []).append(reduce_scores(frame, samples))
    return {f"{model}, mean of {len(metrics)} runs": _means(metrics) for model, metrics in runs.items()}


def _means(runs: list[list[Metric]]) -> list[Metric]:
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric in (metric for metrics in runs for metric in metrics):
        key = (metric.task, metric.setting, metric.subset, metric.category, metric.metric)
        groups.setdefault(key, []).append(metric)
    return [
        replace(
            same[0],
            value=mean_of([TableValue(value=metric.value) for metric in same]) if len(same) == len(runs) else None,
            ci_low=None,
            ci_high=None,
            note=same[0].note or ("" if len(same) == len(runs) else "not every run has it"),
        )
        for same in groups.values()
    ]

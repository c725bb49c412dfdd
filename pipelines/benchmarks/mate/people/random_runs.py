"""The authors' random baseline: ten runs, of which the paper prints the mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.mate.metrics import reduce_scores
from pipelines.benchmarks.people.comparison import mean_metrics
from pipelines.benchmarks.records import Metric, Sample

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
    return {f"{model}, mean of {len(metrics)} runs": mean_metrics(metrics) for model, metrics in runs.items()}

"""The reporter of a benchmark that defines none: accuracy with intervals, a table and a figure of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec, with_intervals
from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results, filled, with_interval
from pipelines.benchmarks.tables import Table, TableRow

if TYPE_CHECKING:
    import pandas as pd

_METRIC: Final = "accuracy"
_COLUMN: Final = "correct"  # the value of `Reading` that accuracy is the mean of


class DefaultReporter:
    """Reports the mean of the value `correct` of answered rows, by task and setting, whole and by subset and category.

    Error rows are counted, but not in the denominator. Intervals resample clusters.
    """

    def reduce(self, scores: pd.DataFrame, _samples: Mapping[str, Sample], /) -> list[Metric]:
        """Return the accuracies of one model."""
        groups = [
            (str(task), str(setting), rows) for (task, setting), rows in scores.groupby(["task", "setting"], sort=False)
        ]
        return [metric for task, setting, rows in groups for metric in _accuracies(rows, task, setting)]

    def tables(self, results: Results, /) -> list[Table]:
        """Lay out one table of accuracy: one row per model, one column per task and setting."""
        keys = _whole_keys(results)
        rows = filled(
            TableRow(label=model, cells=tuple(with_interval(results.find(key.of(model))) for key in keys))
            for model in results.models()
        )
        if not rows:
            return []
        return [
            Table(
                id=f"{results.benchmark}_accuracy",
                title=f"{results.benchmark}: accuracy",
                columns=tuple(map(_label, keys)),
                rows=tuple(rows),
                style="percent1",
                better=tuple("higher" for _ in keys),
                notes=("Percent. In brackets the 95% bootstrap interval; n is the number of answers.",),
            )
        ]

    def figures(self, results: Results, /) -> list[Figure]:
        """Lay out bars of accuracy, a group a task and setting."""
        keys = _whole_keys(results)
        if not keys:
            return []
        series = [Series.of(model, [results.find(key.of(model)) for key in keys]) for model in results.models()]
        return [
            Bars(
                id=f"{results.benchmark}_accuracy_figure",
                title=f"{results.benchmark}: accuracy",
                categories=tuple(map(_label, keys)),
                series=tuple(series),
                y_label="Accuracy",
            )
        ]


def _accuracies(rows: pd.DataFrame, task: str, setting: str) -> Iterator[Metric]:
    subsets, categories = (sorted(set(rows[name])) for name in ("subset", "category"))
    parts = [("", "")]
    parts += [(subset, "") for subset in subsets if len(subsets) > 1 and subset]
    parts += [("", category) for category in categories if len(categories) > 1 and category]
    status, clusters = rows["status"].to_numpy(), _clusters(rows)
    correct = rows[_COLUMN].to_numpy(dtype=np.float64) if _COLUMN in rows else np.full(len(rows), np.nan)
    specs = []
    for subset, category in parts:
        members = np.ones(len(rows), dtype=np.bool_)
        if subset:
            members &= (rows["subset"] == subset).to_numpy()
        if category:
            members &= (rows["category"] == category).to_numpy()
        indices = np.flatnonzero(members & (status == "ok") & ~np.isnan(correct))
        values = correct[indices]
        metric = Metric(
            task=task,
            setting=setting,
            subset=subset,
            category=category,
            metric=_METRIC,
            value=float(values.mean()) if values.size else None,
            n=int(values.size),
            n_failed=int((members & (status == "error")).sum()),
            note="" if values.size else "no row to measure",
        )
        specs.append(MetricSpec(metric, (values, np.ones(values.size)), rows=indices))
    yield from with_intervals(specs, clusters)


def _clusters(rows: pd.DataFrame) -> np.ndarray:
    """Return the cluster of each row, or its sample where it has none."""
    names = rows["cluster"].where(rows["cluster"] != "", rows["sample_id"])
    return names.to_numpy(dtype=np.str_)


def _whole_keys(results: Results) -> list[Key]:
    keys = (key._replace(model="") for key in results.ours if key.metric == _METRIC)
    return list(dict.fromkeys(key for key in keys if not key.subset and not key.category))


def _label(key: Key) -> str:
    return f"{key.task}, {key.setting}"


REPORTER: Final = DefaultReporter()

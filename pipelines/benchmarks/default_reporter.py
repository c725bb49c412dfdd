"""What a benchmark reports that defines nothing: accuracy with intervals, a table and a figure of it.

Accuracy is the mean of the value `correct` of answered rows, by task and setting, whole and by subset and category.
Error rows are counted, but not in the denominator. Intervals are over clusters.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.layout import Rows, TableDef
from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure, MetricDef, estimates, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results, with_interval
from pipelines.benchmarks.tables import Table

_METRIC: Final = "accuracy"
_ACCURACY: Final = MetricDef(
    name=_METRIC,
    value="correct",  # of `Reading`
    counted=lambda rows: rows.ok & ~np.isnan(rows.floats("correct")),
)


def reduce_scores(scores: pd.DataFrame, _samples: Mapping[str, Sample]) -> list[Metric]:
    """Return the accuracies of one model."""
    every, metrics = ScoredRows.of(scores), list[Metric]()
    for task, setting in dict.fromkeys(zip(scores["task"], scores["setting"], strict=True)):
        rows = every.where(task=task, setting=setting).named(task=str(task), setting=str(setting))
        metrics += with_intervals(estimates(_measures(rows)))
    return metrics


def make_tables(results: Results) -> list[Table]:
    """Lay out one table of accuracy: one row per model, one column per task and setting."""
    table = TableDef(
        id=f"{results.benchmark}_accuracy",
        title=f"{results.benchmark}: accuracy",
        columns=[(_label(key), key) for key in _whole_keys(results)],
        rows=[Rows()],
        show=with_interval,
        style="percent1",
        better="higher",
        notes=("Percent. In brackets the 95% interval; n is the number of answers.",),
    ).lay_out(results)
    return [table] if table.rows else []


def make_figures(results: Results) -> list[Figure]:
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


def _measures(rows: ScoredRows) -> Iterator[Measure]:
    yield Measure(definition=_ACCURACY, parts=(rows,))
    for column in ("subset", "category"):
        names = sorted(set(rows[column].tolist()))
        if len(names) > 1:
            groups = Grouping(names=tuple(filter(None, names)), column=column).groups(rows)
            yield from (Measure(definition=_ACCURACY, parts=(group,)) for group in groups)


def _whole_keys(results: Results) -> list[Key]:
    keys = (key._replace(model="") for key in results.ours if key.metric == _METRIC)
    return list(dict.fromkeys(key for key in keys if not key.subset and not key.category))


def _label(key: Key) -> str:
    return f"{key.task}, {key.setting}"

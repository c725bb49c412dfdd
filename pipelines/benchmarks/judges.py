"""Several judges of one run: their verdicts as values of score rows, the metrics by judge, and how they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.benchmarks.base import Reporter
    from pipelines.benchmarks.records import Sample

UNREADABLE: Final = -1.0  # a reply of a judge that could not be read; it accepts nothing
PAIR_COUNTS: Final = ("judges_yes_yes", "judges_yes_no", "judges_no_yes", "judges_no_no")
"""Counts of answers by the verdicts of two judges, whose names are the category: `first / second`."""
UNREAD_COUNT: Final = "judge_unread"
_VERDICT: Final = "verdict of "


def verdict_value(judge: str) -> str:
    """Return the name of the value that holds a judge's verdict: 1, 0 or `UNREADABLE`."""
    return f"{_VERDICT}{judge}"


def is_verdict_value(name: str) -> bool:
    """Return whether a value of a score row is a verdict of one of several judges."""
    return name.startswith(_VERDICT)


def metric_by(metric: str, judge: str) -> str:
    """Return the name of a metric by the verdicts of one judge."""
    return f"{metric}@{judge}"


def pair_name(first: str, second: str) -> str:
    """Return the category of the counts of two judges."""
    return f"{first} / {second}"


def metrics_by_judge(
    frame: pd.DataFrame, samples: Mapping[str, Sample], reporter: Reporter, names: Sequence[str]
) -> list[Metric]:
    """Return the metrics of these names by every judge, and counts of agreement; nothing unless several judged.

    `frame` and `samples` are as of `Reporter.reduce`, with a column of verdicts by judge.
    """
    columns = [str(name) for name in frame.columns if is_verdict_value(str(name))]
    if len(columns) < 2:
        return []
    verdicts = frame[columns].to_numpy(dtype=np.float64)
    has_verdict = ~np.isnan(verdicts).all(axis=1)  # a rule decided the others, for every judge alike
    plain = frame.drop(columns=columns)
    metrics = []
    for index, column in enumerate(columns):
        judge = column.removeprefix(_VERDICT)
        seen = _as_judged(plain, verdicts[:, index], has_verdict)
        metrics += [
            replace(metric, metric=metric_by(metric.metric, judge))
            for metric in reporter.reduce(seen, samples)
            if metric.metric in names
        ]
    return [*metrics, *_agreement(frame, columns, verdicts, has_verdict)]


def without_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return scored rows without the columns of single judges."""
    return frame.drop(columns=[name for name in frame.columns if is_verdict_value(str(name))])


def _as_judged(frame: pd.DataFrame, verdicts: NDArray[Any], has_verdict: NDArray[np.bool_]) -> pd.DataFrame:
    """Return the rows as if this judge were the only one."""
    accepted = np.full(len(frame), np.nan)  # a verdict that gives no metric, such as UNPIE's on translations, has none
    if "accepted" in frame:
        accepted[:] = frame["accepted"].to_numpy(dtype=np.float64)
    accepted[has_verdict] = np.where(verdicts == UNREADABLE, 0.0, verdicts)[has_verdict]
    state = frame["verdict_state"].to_numpy(dtype=object).copy()
    state[has_verdict] = np.select([np.isnan(verdicts), verdicts == UNREADABLE], ["failed", "invalid"], "ok")[
        has_verdict
    ]
    return frame.assign(accepted=accepted, verdict_state=state)


def _agreement(
    frame: pd.DataFrame, columns: Sequence[str], verdicts: NDArray[Any], has_verdict: NDArray[np.bool_]
) -> Iterator[Metric]:
    """Yield, by task, the readable verdicts of each pair of judges as counts, and each judge's unreadable ones."""
    judges = [column.removeprefix(_VERDICT) for column in columns]
    for task in dict.fromkeys(frame["task"][has_verdict]):
        task_verdicts = verdicts[has_verdict & (frame["task"] == task).to_numpy()]
        for index, judge in enumerate(judges):
            unread = int((task_verdicts[:, index] == UNREADABLE).sum())
            yield _count(str(task), UNREAD_COUNT, judge, unread, len(task_verdicts))
        for first, second in combinations(range(len(judges)), 2):
            pair = task_verdicts[:, [first, second]]
            pair = pair[np.isin(pair, (0.0, 1.0)).all(axis=1)]
            for name, cell in zip(PAIR_COUNTS, ((1, 1), (1, 0), (0, 1), (0, 0)), strict=True):
                value = int((pair == cell).all(axis=1).sum())
                yield _count(str(task), name, pair_name(judges[first], judges[second]), value, len(pair))


def _count(task: str, name: str, category: str, value: int, n: int) -> Metric:
    return Metric(task=task, setting="", category=category, metric=name, value=value, n=n, unit="count")

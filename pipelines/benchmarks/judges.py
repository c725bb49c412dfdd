"""Several judges of one run: their verdicts as values of score rows, the metrics by judge, and how they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.metrics_kernel.definitions import MetricDef
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.records import CORRECTED, JUDGE_SENSITIVITY, JUDGE_SPECIFICITY, Metric, Row

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.benchmarks.metrics_kernel.repeats import Reduce
    from pipelines.benchmarks.records import Sample

UNREADABLE: Final = -1.0  # a reply of a judge that could not be read; it accepts nothing
PAIR_COUNTS: Final = ("judges_yes_yes", "judges_yes_no", "judges_no_yes", "judges_no_no")
"""Counts of answers by the verdicts of two judges, whose names are the category: `first / second`."""
UNREAD_COUNT: Final = "judge_unread"
_VERDICT: Final = "verdict of "
_CHECK: Final = "check, "  # before the name of a check: the first judge's verdict on the changed question
SWAPPED: Final = "swapped"
PADDED: Final = "padded"
CHECKS: Final = (SWAPPED, PADDED)
CHANGED: Final = "judge_changed"  # share of answers whose verdict a check turns; the check is the category
SHIFT: Final = "judge_shift"  # by how much more often the judge accepts them
SHIFT_P: Final = "judge_shift_p"  # p-value of no shift; in a report after Holm's correction over all of its shifts


def verdict_value(judge: str) -> str:
    """Return the name of the value that holds a judge's verdict: 1, 0 or `UNREADABLE`."""
    return f"{_VERDICT}{judge}"


def is_verdict_value(name: str) -> bool:
    """Return whether a value of a score row is a verdict of one of several judges, or on a changed question."""
    return name.startswith((_VERDICT, _CHECK))


def check_value(check: str) -> str:
    """Return the name of the value that holds the verdict on a changed question: 1 or 0."""
    return f"{_CHECK}{check}"


def changed_row(row: Row, check: str) -> Row | None:
    """Return a row whose question to the judge should have the same verdict; None where it cannot be changed.

    Padded: the answer stands there twice. Swapped: the references in the opposite order; a single one and the answer
    change places.
    """
    answer, data = row.output or "", row.sample.data
    if check == PADDED:
        return replace(row, output=f"{answer} {answer}")
    references, name = (data["answers"], "answers") if "answers" in data else ([data.get("sentence", "")], "sentence")
    if len(references) > 1:
        return replace(row, sample=replace(row.sample, data={**data, name: [*reversed(references)]}))
    if not references[0]:
        return None
    exchanged = {**data, name: [answer] if name == "answers" else answer}
    return replace(row, output=references[0], sample=replace(row.sample, data=exchanged))


def pair_name(first: str, second: str) -> str:
    """Return the category of the counts of two judges."""
    return f"{first} / {second}"


def metrics_by_judge(
    frame: pd.DataFrame, samples: Mapping[str, Sample], reduce: Reduce, names: Sequence[str]
) -> dict[str, list[Metric]]:
    """Return the metrics of these names by every judge; nothing unless several judged.

    `frame` and `samples` are as of `Reporter.reduce`, with a column of verdicts by judge.
    """
    verdicts = _verdicts(frame)
    if len(verdicts) < 2:
        return {}
    plain, has_verdict = without_verdicts(frame), _has_verdict(verdicts)
    return {
        judge: [
            metric
            for metric in reduce(_as_judged(plain, judge_verdicts, has_verdict), samples)
            if metric.metric.removesuffix(CORRECTED) in (*names, JUDGE_SENSITIVITY, JUDGE_SPECIFICITY)
        ]
        for judge, judge_verdicts in verdicts.items()
    }


def without_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return scored rows without the columns of single judges."""
    return frame.drop(columns=[name for name in frame.columns if is_verdict_value(str(name))])


def _verdicts(frame: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return each judge's verdicts; NaN where it has none."""
    columns = [str(name) for name in frame.columns if str(name).startswith(_VERDICT)]
    return {name.removeprefix(_VERDICT): frame[name].to_numpy(dtype=np.float64) for name in columns}


def _has_verdict(verdicts: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return which rows have a verdict; a rule decided the others, for every judge alike."""
    return np.asarray(~np.isnan([*verdicts.values()]).all(axis=0))


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


def judge_agreement(frame: pd.DataFrame) -> list[Metric]:
    """Return, by task, readable verdicts of each pair of judges as counts, and unreadable ones of each; none of one."""
    verdicts = _verdicts(frame)
    if len(verdicts) < 2:
        return []
    has_verdict, metrics = _has_verdict(verdicts), []
    for task in dict.fromkeys(frame["task"][has_verdict]):
        is_counted = has_verdict & (frame["task"] == task).to_numpy()
        n = int(is_counted.sum())
        for judge, judge_verdicts in verdicts.items():
            unread = int((judge_verdicts[is_counted] == UNREADABLE).sum())
            metrics.append(_count(str(task), UNREAD_COUNT, judge, unread, n))
        for first, second in combinations(verdicts, 2):
            pair = np.stack([verdicts[first], verdicts[second]], axis=1)[is_counted]
            pair = pair[np.isin(pair, (0.0, 1.0)).all(axis=1)]
            for name, outcome in zip(PAIR_COUNTS, ((1, 1), (1, 0), (0, 1), (0, 0)), strict=True):
                value = int((pair == outcome).all(axis=1).sum())
                metrics.append(_count(str(task), name, pair_name(first, second), value, len(pair)))
    return metrics


def _count(task: str, name: str, category: str, value: int, n: int) -> Metric:
    return Metric(task=task, setting="", category=category, metric=name, value=value, n=n, unit="count")


def check_metrics(frame: pd.DataFrame, checks: Sequence[str] = CHECKS) -> list[Metric]:
    """Return, by task and setting, what changed questions do to the verdicts; nothing without `--judge-checks`."""
    metrics = []
    for check in checks:
        if (column := check_value(check)) not in frame:
            continue
        rows = ScoredRows.of(frame)
        rows = rows.where(~np.isnan(rows.floats(column)) & ~np.isnan(rows.floats("accepted")))
        for task, setting in dict.fromkeys(zip(rows["task"], rows["setting"], strict=True)):
            checked = rows.where(task=task, setting=setting).named(task=str(task), setting=str(setting), category=check)
            shift = checked.floats(column) - checked.floats("accepted")
            values = {CHANGED: (shift != 0, "fraction"), SHIFT: (shift, "")}
            metrics += [
                MetricDef(name=name, value="shift", unit=unit)
                .estimate(checked.with_columns(shift=np.asarray(changes, np.float64)))
                .with_interval()
                for name, (changes, unit) in values.items()
            ]
            sides = (checked.floats("accepted"), checked.floats(column))
            test = PairedMetric.mean(*sides, checked["cluster"], task=task, setting=setting, metric=SHIFT).test()
            metrics.append(checked.metric(SHIFT_P, test.p if test else None, len(checked), unit="", n_failed=0))
    return metrics

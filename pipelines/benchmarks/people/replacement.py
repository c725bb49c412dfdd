"""May a judge replace people: how often it agrees with a person, beside how often another person does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pipelines.benchmarks.human import OutputKey
from pipelines.benchmarks.people.comparison import paired_metrics
from pipelines.benchmarks.records import JUDGE_AGREEMENT, Metric
from pipelines.benchmarks.results import Key

if TYPE_CHECKING:
    import pandas as pd

MARGIN: Final = 0.05  # by how much less than people a judge may agree with people
_LABELS: Final = ("task", "setting", "sample_id", "variant", "cluster")
Replaceable: TypeAlias = Literal["yes", "no", "undecided"]


def replacement_metrics(
    scores: pd.DataFrame, labels: Mapping[OutputKey, Mapping[str, float]], model: str
) -> list[Metric]:
    """Return agreement of judge and people by task and setting, from the answers that at least two people labelled.

    `judge_agreement` is the share of people's labels that the verdict equals, a mean over answers; `_of_people` the
    share of pairs of people with equal labels; `_minus_people` the difference, with an interval over clusters.
    """
    import pandas as pd

    if "accepted" not in scores or not labels:
        return []
    judged = scores[scores["verdict_state"].isin(["ok", "invalid"]) & scores["accepted"].notna()]
    rows = [
        {
            **dict(zip(_LABELS, row, strict=False)),
            "model": fmean(vote == row[-1] for vote in votes),
            "person": fmean(first == second for first, second in combinations(votes, 2)),
        }
        for row in judged[[*_LABELS, "accepted"]].itertuples(index=False, name=None)
        if len(votes := [*labels.get((model, *row[:4]), {}).values()]) > 1
    ]
    metrics: list[Metric] = []
    for (task, setting), of_cell in pd.DataFrame(rows).groupby(["task", "setting"], sort=False) if rows else ():
        shared = of_cell.reset_index(drop=True)
        metrics += paired_metrics(shared, Key(JUDGE_AGREEMENT, str(task), str(setting)))
    return metrics


def may_replace(low: float | None, high: float | None, margin: float = MARGIN) -> Replaceable:
    """Return whether a judge agrees with people at most the margin less than people do, by the interval's ends."""
    if low is None or high is None:
        return "undecided"
    return "yes" if low > -margin else "no" if high < -margin else "undecided"

"""MAIA's unimodal row: several language models score bare statements and choose together.

The paper's "highest probability among the five models" is ambiguous: the highest log-probability per token decides the
row, and the models' majority vote is reported next to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines.benchmarks.maia.answers import unimodal_choice, unimodal_vote
from pipelines.benchmarks.maia.metrics import reduce_scores
from pipelines.benchmarks.records import Metric, Sample

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["sample_id", "variant"]
_SCORES = ["true_logprob", "false_logprob"]


def reduce_unimodal(scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]) -> dict[str, list[Metric]]:
    """Return rule -> joint metrics of all models that scored statements; empty for fewer than two, or unequal pairs."""
    frames = {model: _unimodal_rows(frame) for model, frame in scores.items() if "true_logprob" in frame}
    frames = {model: frame for model, frame in frames.items() if len(frame)}
    if len(frames) < 2:
        return {}
    first, *rest = frames.values()
    if any(not frame[_KEYS].equals(first[_KEYS]) for frame in rest):
        return {}
    rules: dict[str, Callable[[Sequence[float], Sequence[float]], bool]] = {
        f"best of {len(frames)} text models": unimodal_choice,
        f"vote of {len(frames)} text models": unimodal_vote,
    }
    return {name: reduce_scores(_joint_rows(list(frames.values()), rule), samples) for name, rule in rules.items()}


def _unimodal_rows(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame[(frame["task"] == "vsv") & (frame["setting"] == "unimodal")]
    return rows.sort_values(_KEYS, ignore_index=True)


def _joint_rows(
    frames: Sequence[pd.DataFrame], rule: Callable[[Sequence[float], Sequence[float]], bool]
) -> pd.DataFrame:
    """Return the first model's rows with the joint choice; a pair that any model failed to score is an error."""
    import pandas as pd

    rows = frames[0]
    scored = [list(zip(*(frame[name].tolist() for name in ("status", *_SCORES)), strict=True)) for frame in frames]
    status: list[str] = []
    correct: list[float] = []
    answers: list[str | None] = []
    for pair, at_a in zip(zip(*scored, strict=True), rows["ts_at_a"].tolist(), strict=True):
        failures = [state for state, _, _ in pair if state != "ok"]
        true, false = [float(score) for _, score, _ in pair], [float(score) for _, _, score in pair]
        readable = not failures and not any(math.isnan(score) for score in (*true, *false))
        is_correct = readable and rule(true, false)
        status.append(failures[0] if failures else "ok")
        correct.append(math.nan if failures else float(is_correct))
        answers.append(("A" if (at_a == 1.0) == is_correct else "B") if readable else None)
    return rows.assign(status=status, correct=correct, answer=pd.Series(answers, rows.index, dtype=object))

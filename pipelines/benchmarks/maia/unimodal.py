"""MAIA's unimodal row: several language models score bare statements, and choose together.

The paper's "highest probability among the five models" can be read in two ways. The best log-probability a token of
any model decides the row; the models' vote stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines.benchmarks.maia.answers import unimodal_choice, unimodal_vote
from pipelines.benchmarks.maia.metrics import reduce_maia
from pipelines.benchmarks.records import Metric, Sample

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["sample_id", "variant"]
_SCORES = ["true_logprob", "false_logprob"]


def reduce_unimodal(scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]) -> dict[str, list[Metric]]:
    """The metrics of all models that scored statements, as one; none for fewer than two.

    Args:
        scores: by model, as `Benchmark.reduce` gets them.
        samples: by id.
    """
    frames = {model: _bare(frame) for model, frame in scores.items() if "true_logprob" in frame}
    frames = {model: frame for model, frame in frames.items() if len(frame)}
    if len(frames) < 2:
        return {}
    first, *others = frames.values()
    if any(not frame[_KEYS].equals(first[_KEYS]) for frame in others):
        return {}  # asked about different samples: no pair has all models' scores
    names: dict[str, Callable[[Sequence[float], Sequence[float]], bool]] = {
        f"best of {len(frames)} text models": unimodal_choice,
        f"vote of {len(frames)} text models": unimodal_vote,
    }
    return {name: reduce_maia(_chosen(list(frames.values()), rule), samples) for name, rule in names.items()}


def _bare(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame[(frame["task"] == "vsv") & (frame["setting"] == "unimodal")]
    return rows.sort_values(_KEYS, ignore_index=True)


def _chosen(frames: Sequence[pd.DataFrame], rule: Callable[[Sequence[float], Sequence[float]], bool]) -> pd.DataFrame:
    """The first model's rows with what all choose together; a pair that one could not score is an error."""
    import pandas as pd

    made = frames[0]
    scored = [list(zip(*(frame[name].tolist() for name in ("status", *_SCORES)), strict=True)) for frame in frames]
    status: list[str] = []
    correct: list[float] = []
    answers: list[str | None] = []
    for pair, at_a in zip(zip(*scored, strict=True), made["ts_at_a"].tolist(), strict=True):
        bad = [state for state, _, _ in pair if state != "ok"]
        true, false = [float(score) for _, score, _ in pair], [float(score) for _, _, score in pair]
        readable = not bad and not any(math.isnan(score) for score in (*true, *false))
        right = readable and rule(true, false)
        status.append(bad[0] if bad else "ok")
        correct.append(math.nan if bad else float(right))
        answers.append(("A" if (at_a == 1.0) == right else "B") if readable else None)
    return made.assign(status=status, correct=correct, answer=pd.Series(answers, made.index, dtype=object))

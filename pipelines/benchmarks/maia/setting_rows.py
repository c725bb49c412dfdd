"""MAIA's scored rows in one setting: eight pairs and one open answer a question, and what follows for questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipelines.benchmarks.maia.facts import COLUMNS, POOL_SIZE
from pipelines.benchmarks.metrics_kernel.rows import (
    Bools,
    ScoredRows,
    aligned,
    coverage_note,
    not_run_note,
    worst_status,
)
from pipelines.metrics.intervals import FloatArray

if TYPE_CHECKING:
    import pandas as pd


def prepare(scores: pd.DataFrame) -> pd.DataFrame:
    """Sort the scores by question and pair. A category that is none of the twelve columns raises ValueError."""
    unknown = sorted(set(scores["category"]) - set(COLUMNS))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no category column of MAIA; there are {', '.join(COLUMNS)}")
    return scores.sort_values(["sample_id", "variant"], kind="stable", ignore_index=True)


def check_pools(pairs: ScoredRows) -> None:
    """Assert that every question has its eight pairs, as it has in the scores of one model."""
    ids, counts = np.unique(pairs["sample_id"].astype(str), return_counts=True)
    assert (counts == POOL_SIZE).all(), f"{ids[counts != POOL_SIZE][0]} has not {POOL_SIZE} rows in this setting"
    variants = [str(index) for index in range(POOL_SIZE)] * len(ids)
    assert pairs["variant"].tolist() == variants, "a pair of a pool occurs twice"


def every(rows: ScoredRows) -> Bools:
    """Count every row."""
    return np.ones(len(rows), dtype=np.bool_)


def right(rows: ScoredRows) -> Bools:
    """Return the pairs whose true statement was chosen."""
    return np.asarray(rows.ok & (rows.floats("correct") == 1), dtype=np.bool_)


def accepted(rows: ScoredRows) -> FloatArray:
    """Return 1 where the judge accepts, 0 where not or where the request failed, NaN without a verdict."""
    return np.where(rows.failed, 0.0, rows.floats("accepted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """The rows of one setting; a question with an excluded row is left out, so that a pool always holds eight pairs."""

    tasks: frozenset[str]  # that are part of the sweep in this setting
    pairs: ScoredRows  # of `vsv`
    pools: ScoredRows  # a row a question of `vsv`: `right` pairs, their `share`, whether the `pool` is right
    answers: ScoredRows  # of `oevqa`
    joint: ScoredRows  # a row a question of both: `pool`, and `judged` as of `accepted`
    not_run: int  # requests of both tasks without a result, which leave metrics over questions without a value

    @classmethod
    def of(cls, rows: ScoredRows) -> SettingRows:
        """Split the rows of one setting, as `prepare` returns them, by task."""
        tasks = {name: rows.where(task=name).named(task=name) for name in ("vsv", "oevqa")}
        excluded = {name: set(part.where(part.excluded)["sample_id"]) for name, part in tasks.items()}
        pairs, answers = (
            part.where(np.array([name not in excluded[task] for name in part["sample_id"]], dtype=np.bool_))
            for task, part in tasks.items()
        )
        not_run = int(pairs.missing.sum() + answers.missing.sum())
        blocked, pools = not_run_note(not_run), _pools(pairs)
        # A question of one task alone lacks the requests of the other task, unless these are excluded.
        ids, open_ids = set(pools["sample_id"]), set(answers["sample_id"])
        unmatched = len(ids - open_ids - excluded["oevqa"]) + POOL_SIZE * len(open_ids - ids - excluded["vsv"])
        first, second = aligned(pools, answers, "sample_id")
        joint = first.with_columns(
            judged=accepted(second),
            status=worst_status(first["status"], second["status"]),
            verdict_state=second.texts("verdict_state"),
        )
        return cls(
            tasks=frozenset(name for name, part in tasks.items() if len(part)),
            pairs=pairs.named(note=coverage_note(pairs)),
            pools=pools.named(blocked=blocked),
            answers=answers.named(note=coverage_note(answers), blocked=blocked),
            joint=joint.named(task="aggregate", blocked=not_run_note(not_run + unmatched)),
            not_run=not_run,
        )

    def is_planned(self, task: str) -> bool:
        """Return whether a task is part of the sweep in this setting."""
        return task in self.tasks


def _pools(pairs: ScoredRows) -> ScoredRows:
    """Return a row a question with eight pairs."""
    _, counts = np.unique(pairs["sample_id"].astype(str), return_counts=True)
    whole = pairs.where(np.repeat(counts == POOL_SIZE, counts))
    is_right = right(whole).reshape(-1, POOL_SIZE)
    return whole.at(np.arange(0, len(whole), POOL_SIZE)).with_columns(
        right=is_right.sum(axis=1),
        share=is_right.mean(axis=1),
        pool=np.asarray(is_right.all(axis=1)),
        status=worst_status(*whole["status"].reshape(-1, POOL_SIZE).T),
    )

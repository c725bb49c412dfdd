"""MAIA's metrics: from the scored rows of one model to the numbers of the paper, and to ours.

The paper's (Testa et al., Findings of EMNLP 2025, arXiv 2502.16989), for the whole and for each of twelve categories:

- `statement_accuracy`: share of statement pairs read right; `pool_accuracy`: share of questions with all eight right.
- `oevqa_accuracy`: share of open answers that the judge accepts; `agg_acc`: share of questions with both.
- `rouge`, `bertscore`, `bleu`, `meteor`, `cider` of the open answers.

A failed request is a wrong answer. One that was never run makes its setting incomplete, and then no metric over
questions is given. Intervals resample videos, with all their questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.maia.aggregate import MetricSpec
from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.benchmarks.maia.scored_rows import POOL, Bools, QuestionGrid, SettingScores, not_run, prepare
from pipelines.benchmarks.maia.similarity import similarity_metrics
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

SETTINGS: Final = ("black-video", "1-frame", "32-frames", "unimodal")
"""In the paper's order."""

_SLACK: Final = 1e-9  # sums of doubles
_NAMED: Final = 10  # contradictory pools in one note


def reduce_maia(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """All metrics of one model.

    Args:
        scores: see `Benchmark.reduce`; a column that no row has may be absent. Every question of a `vsv` cell has rows
            for its eight pairs, those of status `missing` among them.
        samples: by id.

    Returns:
        Metrics by setting and task. What cannot be given is None, and its note says why.

    Raises:
        ValueError: a category is none of the twelve columns.
    """
    frame = prepare(scores)
    present = set(frame["setting"])
    ordered = [name for name in SETTINGS if name in present] + sorted(present - set(SETTINGS))
    cells = {name: SettingScores.of(frame[frame["setting"] == name], name) for name in ordered}
    found: list[Metric] = []
    for cell in cells.values():
        here: list[Metric] = []
        if cell.vsv.asked:
            here += [*_vsv(cell), *_vsv_counts(cell, samples)]
        if cell.oevqa.asked:
            here += [*_oevqa(cell), *similarity_metrics(cell.oevqa, cell.setting, samples), *_oevqa_counts(cell)]
        if cell.vsv.asked and cell.oevqa.asked:
            here += _aggregate(cell)
        _check_identities(here)
        found += here
    return found + _gain(cells)


def _over_questions(cell: SettingScores, task: str, grid: QuestionGrid) -> partial[MetricSpec]:
    return partial(
        MetricSpec,
        task=task,
        setting=cell.setting,
        column=grid.column,
        video=grid.video,
        failed=grid.hit,
        counted=np.ones(len(grid.ids), dtype=np.bool_),
        blocked=cell.incomplete,
    )


def _vsv(cell: SettingScores) -> Iterator[Metric]:
    grid = cell.vsv
    ok, side = grid.ok.ravel(), grid.floats("ts_at_a").ravel()
    over_pairs = partial(
        MetricSpec,
        task="vsv",
        setting=cell.setting,
        column=grid.column.repeat(POOL),
        video=grid.video.repeat(POOL),
        failed=grid.failed.ravel(),
        note=not_run(grid.never_run),
    )
    right, unread = grid.right.ravel().astype(np.float64), grid.unread.ravel().astype(np.float64)
    over_questions = _over_questions(cell, "vsv", grid)
    yield from over_pairs(metric="statement_accuracy", values=right, counted=~grid.missing.ravel()).metrics()
    yield from over_questions(metric="pool_accuracy", values=grid.pools).metrics()
    # The mean of differences is, on every draw of videos, the difference of the means: a paired interval.
    gap = grid.right.mean(axis=1) - grid.pools
    yield over_questions(metric="statement_minus_pool", values=gap, unit="").whole()
    yield over_pairs(metric="none_rate", values=unread, counted=ok).whole()
    for letter, here in (("a", side == 1), ("b", side == 0)):
        yield over_pairs(metric=f"accuracy_ts_{letter}", values=right, counted=here & ok).whole()


def _vsv_counts(cell: SettingScores, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    grid, blocked = cell.vsv, cell.incomplete
    count = partial(_count, cell, "vsv")
    failed, rule, questions = int(grid.failed.sum()), grid.texts("rule"), len(grid.ids)
    for name in ("elimination", "echo"):
        found = int(((rule == name) & grid.ok).sum())
        yield count(metric=f"{name}_count", value=found, n=int(grid.ok.sum()), n_failed=failed)
    yield count(metric="errors", value=failed, n=int((~grid.missing).sum()), n_failed=failed)
    histogram = np.bincount(grid.right.sum(axis=1), minlength=POOL + 1)
    hit = int(grid.hit.sum())
    for right, found in enumerate(histogram.tolist()):
        value = None if blocked else found
        yield count(metric=f"pool_right_{right}", value=value, n=questions, n_failed=hit, note=blocked)
    clashing = [name for name in grid.ids if _contradictory(samples[name])]
    more = f" and {len(clashing) - _NAMED:,} more" if len(clashing) > _NAMED else ""
    note = f"a false statement is also a true one: {', '.join(clashing[:_NAMED])}{more}" if clashing else ""
    yield count(metric="contradictory_pools", value=len(clashing), n=questions, note=note)


def _contradictory(sample: Sample) -> bool:
    """Whether a false statement of the pool is also one of its true ones."""
    return not set(sample.data["true"]).isdisjoint(sample.data["false"])


def _gain(cells: Mapping[str, SettingScores]) -> list[Metric]:
    """Pool accuracy at 32 frames minus that at one frame, where both were asked the same questions."""
    if not {"1-frame", "32-frames"} <= cells.keys():
        return []
    one, many = cells["1-frame"], cells["32-frames"]
    if not many.vsv.asked or not np.array_equal(one.vsv.ids, many.vsv.ids):
        return []
    measure = _over_questions(many, "vsv", many.vsv)(
        metric="pool_gain_over_1_frame",
        values=many.vsv.pools - one.vsv.pools,
        unit="",
        failed=one.vsv.hit | many.vsv.hit,
        blocked=not_run(sum(grid.never_run for cell in (one, many) for grid in (cell.vsv, cell.oevqa))),
    )
    return [measure.whole()]


def _oevqa(cell: SettingScores) -> Iterator[Metric]:
    grid = cell.oevqa
    over_questions = _over_questions(cell, "oevqa", grid)
    lacks = partial(_unjudged, grid.texts("verdict_state")[:, 0])
    yield from over_questions(metric="oevqa_accuracy", values=grid.accepted, lacks=lacks).metrics()


def _oevqa_counts(cell: SettingScores) -> Iterator[Metric]:
    grid = cell.oevqa
    answers, failed = int(grid.ok.sum()), int(grid.failed.sum())
    count = partial(_count, cell, "oevqa", n_failed=failed)
    states = grid.texts("verdict_state")[grid.ok]
    judged = not answers or bool(np.isin(states, ["ok", "invalid"]).any())
    note = "" if judged else _unjudged(states, np.ones(answers, dtype=np.bool_))
    invalid = int((states == "invalid").sum())
    yield count(metric="judge_error_count", value=invalid if judged else None, n=answers, note=note)
    yield count(metric="truncated_count", value=grid.flagged("truncated"), n=answers)
    yield count(metric="errors", value=failed, n=int((~grid.missing).sum()))


def _unjudged(states: NDArray[Any], rows: Bools) -> str:
    """Why answers have no verdict, from the states of the verdicts, (Q,)."""
    failed = int((states[rows] == "failed").sum())
    return f"{failed:,} verdict{'s' if failed > 1 else ''} failed" if failed else "no judge"


def _aggregate(cell: SettingScores) -> Iterator[Metric]:
    vsv, oevqa = cell.vsv, cell.oevqa
    _, left, right = np.intersect1d(vsv.ids, oevqa.ids, return_indices=True)
    # A question of one task alone lacks the other's requests, unless these could not be asked.
    lacking = len(set(vsv.ids) - set(oevqa.ids) - oevqa.left_out)
    lacking += POOL * len(set(oevqa.ids) - set(vsv.ids) - vsv.left_out)
    pool, accepted, column = vsv.pools[left], oevqa.accepted[right], vsv.column[left]
    over_questions = partial(
        MetricSpec,
        task="aggregate",
        setting=cell.setting,
        column=column,
        video=vsv.video[left],
        failed=vsv.hit[left] | oevqa.hit[right],
        counted=np.ones(len(left), dtype=np.bool_),
        blocked=not_run(vsv.never_run + oevqa.never_run + lacking),
        lacks=partial(_unjudged, oevqa.texts("verdict_state")[right, 0]),
    )
    agg = list(over_questions(metric="agg_acc", values=pool * accepted).metrics())
    yield from agg
    yield over_questions(metric="oevqa_minus_pool", values=accepted - pool, unit="").whole()
    for one in agg:
        if one.metric == "agg_acc":
            here = column == COLUMNS.index(one.category) if one.category else np.ones(len(left), dtype=np.bool_)
            yield from _contingency(cell, one, pool[here], accepted[here])


def _contingency(cell: SettingScores, agg: Metric, pool: FloatArray, accepted: FloatArray) -> Iterator[Metric]:
    """Questions by what became of them in both tasks, for one row of Agg-Acc."""
    count = partial(_count, cell, "aggregate", n=agg.n, n_failed=agg.n_failed, category=agg.category, note=agg.note)
    kinds = {"both": (1, 1), "pool_only": (1, 0), "judge_only": (0, 1), "neither": (0, 0)}
    for name, (pool_is, judge_is) in kinds.items():
        found = int(((pool == pool_is) & (accepted == judge_is)).sum())
        yield count(metric=f"agg_{name}", value=None if agg.value is None else found)


def _count(cell: SettingScores, task: str, *, metric: str, value: float | None, n: int, **more: Any) -> Metric:
    return Metric(task=task, setting=cell.setting, metric=metric, value=value, n=n, unit="count", **more)


def _check_identities(metrics: list[Metric]) -> None:
    """Assert what holds of any model in any one setting, where the denominators are the same questions."""
    found = {(one.metric, one.category): (one.value, one.n) for one in metrics if one.value is not None}
    for category in ("", *COLUMNS):
        statement, pairs = found.get(("statement_accuracy", category), (None, 0))
        pool, questions = found.get(("pool_accuracy", category), (None, 0))
        oevqa, answers = found.get(("oevqa_accuracy", category), (None, 0))
        agg, both = found.get(("agg_acc", category), (None, 0))
        if statement is not None and pool is not None and pairs == POOL * questions:
            _assert_between(pool, 1 - POOL * (1 - statement), statement, f"pool accuracy {category}")
        if agg is not None and pool is not None and oevqa is not None and questions == answers == both:
            _assert_between(agg, max(0.0, pool + oevqa - 1), min(pool, oevqa), f"Agg-Acc {category}")


def _assert_between(value: float, low: float, high: float, name: str) -> None:
    assert low - _SLACK <= value <= high + _SLACK, f"{name} is {value}, which must lie in {low}..{high}"

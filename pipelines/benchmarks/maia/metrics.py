"""Compute MAIA's metrics from the scored rows of one model.

The paper's (Testa et al., Findings of EMNLP 2025, arXiv 2502.16989), for the whole and for each of twelve categories:

- `statement_accuracy`: share of correct statement pairs; `pool_accuracy`: share of questions with all eight correct.
- `oevqa_accuracy`: share of open answers that the judge accepts; `agg_acc`: share of questions with both.
- `rouge`, `bertscore`, `bleu`, `meteor`, `cider` of the open answers.

A failed request is wrong. One never run makes metrics over its setting's questions null. Intervals resample videos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.aggregation import SharedDraws
from pipelines.benchmarks.maia.aggregate import MeanMetric
from pipelines.benchmarks.maia.categories import COLUMNS, POOL_SIZE
from pipelines.benchmarks.maia.gains import gains
from pipelines.benchmarks.maia.people.leave_one_out import LEAVE_ONE_OUT, leave_one_out_metrics
from pipelines.benchmarks.maia.scored_rows import BoolArray, QuestionGrid, SettingScores, not_run_note, prepare
from pipelines.benchmarks.maia.similarity import similarity_metrics
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

SETTINGS: Final = ("black-video", "1-frame", "32-frames", "unimodal")  # in the paper's order

_TOLERANCE: Final = 1e-9  # of sums of doubles
_MAX_LISTED: Final = 10  # contradictory pools in one note


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, by setting and task; one without a value is None, with a note.

    `scores` are as of `Reporter.reduce`; every question of a `vsv` setting has rows for its eight pairs, also those of
    status `missing`. A category that is none of the twelve columns raises ValueError.
    """
    prepared = prepare(scores)
    is_people = prepared["setting"] == LEAVE_ONE_OUT
    frame = prepared[~is_people]
    present = set(frame["setting"])
    ordered = [name for name in SETTINGS if name in present] + sorted(present - set(SETTINGS))
    draws = SharedDraws()
    settings = {name: SettingScores.from_rows(frame[frame["setting"] == name], name, draws) for name in ordered}
    metrics = leave_one_out_metrics(prepared[is_people], draws)
    for setting in settings.values():
        setting_metrics: list[Metric] = []
        if setting.vsv.is_planned:
            setting_metrics += [*_vsv(setting), *_vsv_counts(setting, samples)]
        if setting.oevqa.is_planned:
            similarity = similarity_metrics(setting, samples)
            setting_metrics += [*_oevqa(setting), *similarity, *_oevqa_counts(setting)]
        if setting.vsv.is_planned and setting.oevqa.is_planned:
            setting_metrics += _aggregate(setting)
        _check_identities(setting_metrics)
        metrics += setting_metrics
    return draws.complete([*metrics, *gains(settings)])


def _over_questions(scores: SettingScores, task: str, grid: QuestionGrid) -> partial[MeanMetric]:
    return partial(
        MeanMetric,
        draws=scores.draws,
        task=task,
        setting=scores.setting,
        column=grid.column,
        video=grid.video,
        failed=grid.has_error,
        counted=np.ones(len(grid.ids), dtype=np.bool_),
        blocked=scores.incomplete,
    )


def _vsv(scores: SettingScores) -> Iterator[Metric]:
    grid = scores.vsv
    ok, side = grid.ok.ravel(), grid.floats("ts_at_a").ravel()
    over_pairs = partial(
        MeanMetric,
        draws=scores.draws,
        task="vsv",
        setting=scores.setting,
        column=grid.column.repeat(POOL_SIZE),
        video=grid.video.repeat(POOL_SIZE),
        failed=grid.failed.ravel(),
        note=not_run_note(grid.missing_requests),
    )
    correct, unreadable = grid.correct.ravel().astype(np.float64), grid.unreadable.ravel().astype(np.float64)
    over_questions = _over_questions(scores, "vsv", grid)
    yield from over_pairs(metric="statement_accuracy", values=correct, counted=~grid.missing.ravel()).metrics()
    yield from over_questions(metric="pool_accuracy", values=grid.pool_correct).metrics()
    # On every draw of videos the mean of differences is the difference of the means: the interval is paired.
    gap = grid.correct.mean(axis=1) - grid.pool_correct
    yield over_questions(metric="statement_minus_pool", values=gap, unit="").whole()
    yield over_pairs(metric="none_rate", values=unreadable, counted=ok).whole()
    for letter, is_side in (("a", side == 1), ("b", side == 0)):
        yield over_pairs(metric=f"accuracy_ts_{letter}", values=correct, counted=is_side & ok).whole()


def _vsv_counts(scores: SettingScores, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    grid, blocked = scores.vsv, scores.incomplete
    count = partial(_count, scores, "vsv")
    failed, rule, questions = int(grid.failed.sum()), grid.texts("rule"), len(grid.ids)
    for name in ("elimination", "echo"):
        answers = int(((rule == name) & grid.ok).sum())
        yield count(metric=f"{name}_count", value=answers, n=int(grid.ok.sum()), n_failed=failed)
    yield count(metric="errors", value=failed, n=int((~grid.missing).sum()), n_failed=failed)
    histogram = np.bincount(grid.correct.sum(axis=1), minlength=POOL_SIZE + 1)
    with_error = int(grid.has_error.sum())
    for correct, pools in enumerate(histogram.tolist()):
        value = None if blocked else pools
        yield count(metric=f"pool_right_{correct}", value=value, n=questions, n_failed=with_error, note=blocked)
    ids = [sample_id for sample_id in grid.ids if _is_contradictory(samples[sample_id])]
    more = f" and {len(ids) - _MAX_LISTED:,} more" if len(ids) > _MAX_LISTED else ""
    note = f"a false statement is also a true one: {', '.join(ids[:_MAX_LISTED])}{more}" if ids else ""
    yield count(metric="contradictory_pools", value=len(ids), n=questions, note=note)


def _is_contradictory(sample: Sample) -> bool:
    return not set(sample.data["true"]).isdisjoint(sample.data["false"])


def _oevqa(scores: SettingScores) -> Iterator[Metric]:
    grid = scores.oevqa
    over_questions = _over_questions(scores, "oevqa", grid)
    missing_reason = partial(_unjudged, grid.texts("verdict_state")[:, 0])
    yield from over_questions(metric="oevqa_accuracy", values=grid.accepted, missing_reason=missing_reason).metrics()


def _oevqa_counts(scores: SettingScores) -> Iterator[Metric]:
    grid = scores.oevqa
    answers, failed = int(grid.ok.sum()), int(grid.failed.sum())
    count = partial(_count, scores, "oevqa", n_failed=failed)
    states = grid.texts("verdict_state")[grid.ok]
    judged = not answers or bool(np.isin(states, ["ok", "invalid"]).any())
    note = "" if judged else _unjudged(states, np.ones(answers, dtype=np.bool_))
    invalid = int((states == "invalid").sum())
    yield count(metric="judge_error_count", value=invalid if judged else None, n=answers, note=note)
    yield count(metric="truncated_count", value=grid.count_flag("truncated"), n=answers)
    yield count(metric="errors", value=failed, n=int((~grid.missing).sum()))


def _unjudged(states: NDArray[Any], rows: BoolArray) -> str:
    """Return why answers have no verdict, from the states of the verdicts, (Q,)."""
    failed = int((states[rows] == "failed").sum())
    return f"{failed:,} verdict{'s' if failed > 1 else ''} failed" if failed else "no judge"


def _aggregate(scores: SettingScores) -> Iterator[Metric]:
    vsv, oevqa = scores.vsv, scores.oevqa
    _, left, right = np.intersect1d(vsv.ids, oevqa.ids, return_indices=True)
    # A question of one task alone lacks the requests of the other task, unless these are excluded.
    unmatched = len(set(vsv.ids) - set(oevqa.ids) - oevqa.excluded_ids)
    unmatched += POOL_SIZE * len(set(oevqa.ids) - set(vsv.ids) - vsv.excluded_ids)
    pool, accepted, column = vsv.pool_correct[left], oevqa.accepted[right], vsv.column[left]
    over_questions = partial(
        MeanMetric,
        draws=scores.draws,
        task="aggregate",
        setting=scores.setting,
        column=column,
        video=vsv.video[left],
        failed=vsv.has_error[left] | oevqa.has_error[right],
        counted=np.ones(len(left), dtype=np.bool_),
        blocked=not_run_note(vsv.missing_requests + oevqa.missing_requests + unmatched),
        missing_reason=partial(_unjudged, oevqa.texts("verdict_state")[right, 0]),
    )
    agg_metrics = list(over_questions(metric="agg_acc", values=pool * accepted).metrics())
    yield from agg_metrics
    yield over_questions(metric="oevqa_minus_pool", values=accepted - pool, unit="").whole()
    for agg in agg_metrics:
        if agg.metric == "agg_acc":
            rows = column == COLUMNS.index(agg.category) if agg.category else np.ones(len(left), dtype=np.bool_)
            yield from _contingency(scores, agg, pool[rows], accepted[rows])


def _contingency(scores: SettingScores, agg: Metric, pool: FloatArray, accepted: FloatArray) -> Iterator[Metric]:
    """Count the questions of one row of Agg-Acc by their results in both tasks."""
    count = partial(_count, scores, "aggregate", n=agg.n, n_failed=agg.n_failed, category=agg.category, note=agg.note)
    kinds = {"both": (1, 1), "pool_only": (1, 0), "judge_only": (0, 1), "neither": (0, 0)}
    for name, (pool_value, judge_value) in kinds.items():
        questions = int(((pool == pool_value) & (accepted == judge_value)).sum())
        yield count(metric=f"agg_{name}", value=None if agg.value is None else questions)


def _count(scores: SettingScores, task: str, *, metric: str, value: float | None, n: int, **more: Any) -> Metric:
    return Metric(task=task, setting=scores.setting, metric=metric, value=value, n=n, unit="count", **more)


def _check_identities(metrics: list[Metric]) -> None:
    """Assert the identities that hold for any model in one setting where the denominators are the same questions."""
    values = {(m.metric, m.category): (m.value, m.n) for m in metrics if m.value is not None}
    for category in ("", *COLUMNS):
        statement, pairs = values.get(("statement_accuracy", category), (None, 0))
        pool, questions = values.get(("pool_accuracy", category), (None, 0))
        oevqa, answers = values.get(("oevqa_accuracy", category), (None, 0))
        agg, both = values.get(("agg_acc", category), (None, 0))
        if statement is not None and pool is not None and pairs == POOL_SIZE * questions:
            _assert_between(pool, 1 - POOL_SIZE * (1 - statement), statement, f"pool accuracy {category}")
        if agg is not None and pool is not None and oevqa is not None and questions == answers == both:
            _assert_between(agg, max(0.0, pool + oevqa - 1), min(pool, oevqa), f"Agg-Acc {category}")


def _assert_between(value: float, low: float, high: float, name: str) -> None:
    assert low - _TOLERANCE <= value <= high + _TOLERANCE, f"{name} is {value}, which must lie in {low}..{high}"

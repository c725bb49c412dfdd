"""Compute MATE's metrics from the scored rows of one model.

The paper's (ACL 2025, arXiv 2503.03854): `exact_match` by task, object count, target attribute and linking type, `ose`
(errors that name nothing in the scene), `cot_delta`, and the answers where only coordinates link. Ours: the lenient
reading, the share of readable answers, splits by pointer, by number of links and by whether an example gives the answer
away, and `chance`, the closed form of a guess.

A failed request is not in the denominator; it is counted, and `exact_match_failures_wrong` is the value if it were
wrong. Intervals are the 95% percentile bootstrap over scenes (`benchmarks.aggregation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec, mean_of_ratios, with_intervals
from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS
from pipelines.benchmarks.mate.rows import COT, CROSSMODAL, SETTINGS
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY, HEADS, Scored, ScoredRows, facts_of
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.stats import bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd

KINDS: Final[Mapping[str, tuple[str, str]]] = {"crossmodal": ("img2txt", "txt2img"), "unimodal": ("img2img", "txt2txt")}
_OTHER_READINGS: Final = {"exact_match_lenient": "lenient", "format_ok": "format_ok"}
_CLOSER: Final = {
    "closer_than_average": "closer",
    "closer_in_depth": "closer_depth",
    "closer_horizontally": "closer_horizontal",
    "alone_of_its_overlap": "closer_alone",
}
_MATCHED: Final = (4.0, 3.0)
_MISSED: Final = (2.0, 1.0, 0.0)


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, setting by setting; `scores` as of `Reporter.reduce`.

    A metric without rows is absent, or None with a note.
    """
    table = ScoredRows.of(facts_of(scores, samples))
    specs: list[MetricSpec] = []
    by_setting = {name: rows for name in SETTINGS if len(rows := table.where(setting=name))}
    for setting, rows in by_setting.items():
        for task in dict.fromkeys(task for tasks in KINDS.values() for task in tasks):
            specs += _task(rows.where(task=task), task, setting)
        for kind, tasks in KINDS.items():
            specs += _kind(rows.where(kind=kind), kind, tasks, setting)
        specs += _crossmodal(rows.where(kind="crossmodal"), setting)
    metrics = with_intervals(specs, table.scenes)
    if {"2-shot", COT} <= by_setting.keys():
        metrics += _cot(by_setting["2-shot"].where(kind="crossmodal"), by_setting[COT].where(kind="crossmodal"))
    generated = sum(bool(sample.data.get("generated")) for sample in samples.values())
    if generated:
        note = "made by a generator: these numbers stand beside no published ones"
        metrics.append(
            Metric(task="", setting="", metric="generated", value=generated, n=len(samples), unit="count", note=note)
        )
    return metrics


def _task(rows: ScoredRows, task: str, setting: str) -> Iterator[MetricSpec]:
    if not len(rows):
        return
    cell = _Cell(task, setting)
    yield from cell.whole(rows)
    for target in HEADS:
        selected = rows.where(target=target)
        yield from cell.accuracy(selected, HEADS[target])
        yield from cell.chance(selected, HEADS[target])
    for pointer in HEADS:
        yield from cell.accuracy(rows.where(pointer=pointer), f"pointer={HEADS[pointer]}")
        for target in HEADS:
            pair_rows = rows.where(pointer=pointer, target=target)
            yield from cell.accuracy(pair_rows, f"pointer={HEADS[pointer]} target={HEADS[target]}")
    if setting != "0-shot":
        for shows in (True, False):
            yield from cell.accuracy(rows.where(shows=shows), f"shot_shows_target={str(shows).lower()}")
    if task in CROSSMODAL:
        yield cell.ose(rows)
    yield from cell.counts(rows)


def _kind(rows: ScoredRows, kind: str, tasks: tuple[str, str], setting: str) -> Iterator[MetricSpec]:
    if not len(rows):
        return
    cell = _Cell(kind, setting)
    parts = [rows.where(task=task) for task in tasks]
    for metric, column in {"exact_match": "correct", **_OTHER_READINGS}.items():
        yield cell.mean_of_tasks(parts, tasks, metric, [part.scored(column) for part in parts])
    worst = [part.scored("correct", failed_as=0.0) for part in parts]
    yield cell.mean_of_tasks(parts, tasks, "exact_match_failures_wrong", worst)
    guesses = [part.all("chance") for part in parts]
    if all(len(part) for part in parts):
        value = math.fsum(float(part.mean()) for part in guesses) / len(parts)
        yield MetricSpec(Metric(task=kind, setting=setting, metric="chance", value=value, n=len(rows)))
    for count in rows.counts():
        selected = rows.where(count=count)
        yield from cell.accuracy(selected, f"{count} objects")
        yield from cell.chance(selected, f"{count} objects")


def _crossmodal(rows: ScoredRows, setting: str) -> Iterator[MetricSpec]:
    if not len(rows):
        return
    cell = _Cell("crossmodal", setting)
    yield cell.ose(rows)
    for link in rows.links():
        yield from cell.accuracy(rows.where(link=link), link)
    for k in (1, 2, 3):
        yield from cell.accuracy(rows.where(k=k), f"links={k}")
    for count in rows.counts():
        for k in (1, 2, 3, 0):
            name = f"links={k}" if k else COORDS_ONLY
            yield from cell.accuracy(rows.where(k=k, count=count), f"{name} @{count} objects")
    yield from _coords_only(rows.where(k=0), cell)


def _coords_only(rows: ScoredRows, cell: _Cell) -> Iterator[MetricSpec]:
    """Count the answers where only coordinates link (section 6.2 of the paper)."""
    results = rows.scored("overlap")
    if not len(results):
        return
    code = {label: -1.0 if label == "-" else float(label) for label in OVERLAP_LABELS}
    for label in OVERLAP_LABELS:
        yield cell.proportion("share", results.same(code[label]), rows.failed, f"overlap={label}")
    match = results.where(np.isin(results.values, _MATCHED))
    yield cell.proportion("pct_correct_given_noncoord_match", match.same(code["4"]), rows.failed, COORDS_ONLY)
    missed = np.isin(results.values, _MISSED)
    mismatch = Scored(missed.astype(np.float64), results.rows)
    yield cell.proportion("pct_noncoord_mismatch", mismatch, rows.failed, COORDS_ONLY)
    yield cell.proportion("pct_closer_than_average", rows.scored("closer").where(missed), rows.failed, COORDS_ONLY)
    for metric, column in _CLOSER.items():
        for label in ("3", "2", "1", "0"):
            subset = rows.scored(column).where(results.values == code[label])
            if len(subset):
                yield cell.proportion(metric, subset, rows.failed, f"overlap={label}")
    moved = (results.values == -1.0) & (rows.scored("in_scene").values == 1.0)
    yield cell.count("in_scene_without_object", int(moved.sum()), rows, n=len(results))


def _cot(base: ScoredRows, cot: ScoredRows) -> Iterator[Metric]:
    """Compute the change from 2-shot to 2-shot with steps: of the mean over object counts, and at ten objects."""
    counts = sorted(set(base.counts()) | set(cot.counts()))
    for category, expected in (("", counts), ("10 objects", [10] if 10 in counts else [])):
        if not expected:
            continue
        before, after = (_mean_of_counts(rows, expected) for rows in (base, cot))
        note = "" if before is not None and after is not None else "some object count has no answer in one setting"
        low, high = _paired_interval(base, cot, expected) if not note else (None, None)
        yield Metric(
            task="crossmodal",
            setting=COT,
            category=category,
            metric="cot_delta",
            value=after - before if before is not None and after is not None else None,
            n=sum(len(cot.where(count=count).scored("correct")) for count in expected),
            n_failed=sum(rows.where(count=count).failed for rows in (base, cot) for count in expected),
            ci_low=low,
            ci_high=high,
            note=note,
        )


def _mean_of_counts(rows: ScoredRows, counts: Iterable[int]) -> float | None:
    parts = [rows.where(count=count).scored("correct").values for count in counts]
    return math.fsum(float(part.mean()) for part in parts) / len(parts) if all(map(len, parts)) else None


def _paired_interval(base: ScoredRows, cot: ScoredRows, counts: Sequence[int]) -> tuple[float | None, float | None]:
    """Resample scenes; None where the two settings did not answer the same questions."""
    before, after = base.answered(), cot.answered()
    if before.keys() != after.keys():
        return None, None
    keys = [key for key in sorted(before) if key[2] in counts]
    size = {count: sum(key[2] == count for key in keys) for count in counts}
    # Weights that make the mean over rows the mean over counts; on a draw nearly so.
    changes = [(after[key] - before[key]) * len(keys) / (len(size) * size[key[2]]) for key in keys]
    interval = bootstrap_ci(changes, [key[0] for key in keys])
    return (interval.low, interval.high) if interval else (None, None)


class _Cell:
    """Makes metrics of one task, or kind of tasks, in one setting."""

    def __init__(self, task: str, setting: str) -> None:
        self._task, self._setting = task, setting

    def whole(self, rows: ScoredRows) -> Iterator[MetricSpec]:
        """Yield the task's accuracy in all its readings, and chance."""
        yield from self.accuracy(rows, "")
        for metric, column in _OTHER_READINGS.items():
            yield self.proportion(metric, rows.scored(column), rows.failed)
        yield self.proportion("exact_match_failures_wrong", rows.scored("correct", failed_as=0.0), rows.failed)
        yield from self.chance(rows, "")

    def accuracy(self, rows: ScoredRows, category: str) -> Iterator[MetricSpec]:
        scored = rows.scored("correct")
        if len(scored) or rows.failed:
            yield self.proportion("exact_match", scored, rows.failed, category)

    def chance(self, rows: ScoredRows, category: str) -> Iterator[MetricSpec]:
        """Yield the score of guessing on these rows, answered or not."""
        guesses = rows.all("chance")
        if len(guesses):
            value = math.fsum(guesses) / len(guesses)
            yield self._metric("chance", value, len(guesses), 0, category)

    def ose(self, rows: ScoredRows) -> MetricSpec:
        """Yield the share of errors that name nothing in the scene, including those without JSON."""
        wrong = rows.scored("correct").values == 0.0
        outside = rows.scored("in_scene").where(wrong).same(0.0)
        return self.proportion("ose", outside, rows.failed, note="" if wrong.any() else "no errors")

    def counts(self, rows: ScoredRows) -> Iterator[MetricSpec]:
        answers = len(rows.scored("correct"))
        yield self.count("errors", rows.failed, rows, n=answers + rows.failed)
        yield self.count("no_json_count", answers - rows.scored("format_ok").total, rows, n=answers)
        yield self.count("truncated_count", rows.truncated, rows, n=answers)

    def mean_of_tasks(
        self, parts: Sequence[ScoredRows], tasks: Sequence[str], metric: str, values: Sequence[Scored]
    ) -> MetricSpec:
        """Yield the mean of two tasks' accuracies, which are of equal size in the data."""
        n, failed = sum(map(len, values)), sum(part.failed for part in parts)
        if lacking := [task for task, subset in zip(tasks, values, strict=True) if not len(subset)]:
            return self._metric(metric, None, n, failed, note=f"no answer of {' and '.join(lacking)}")
        mean = float(sum(Fraction(value.total, len(value)) for value in values) / len(values))
        return self._metric(metric, mean, n, failed, parts=tuple(values))

    def proportion(self, metric: str, scored: Scored, failed: int, category: str = "", note: str = "") -> MetricSpec:
        if not len(scored):
            return self._metric(metric, None, 0, failed, category, note=note or "nothing to measure")
        share = scored.total / len(scored)
        return self._metric(metric, share, len(scored), failed, category, parts=(scored,), note=note)

    def count(self, metric: str, value: int, rows: ScoredRows, *, n: int) -> MetricSpec:
        return MetricSpec(
            Metric(
                task=self._task,
                setting=self._setting,
                metric=metric,
                value=value,
                n=n,
                n_failed=rows.failed,
                unit="count",
            )
        )

    def _metric(  # noqa: PLR0913 - as `Metric`
        self,
        metric: str,
        value: float | None,
        n: int,
        failed: int,
        category: str = "",
        *,
        parts: tuple[Scored, ...] = (),
        note: str = "",
    ) -> MetricSpec:
        metric_row = Metric(
            task=self._task,
            setting=self._setting,
            category=category,
            metric=metric,
            value=value,
            n=n,
            n_failed=failed,
            note=note,
        )
        if not parts:
            return MetricSpec(metric_row)
        rows = np.concatenate([part.rows for part in parts])
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        values = np.concatenate([part.values for part in parts])
        columns = tuple(column for index in range(len(parts)) for column in (values * (owner == index), owner == index))
        return MetricSpec(metric_row, columns, mean_of_ratios, rows)

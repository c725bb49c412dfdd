"""What people's labels say of a judge: its metrics corrected, and how often it finds what people accept and reject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import (
    CORRECTED,
    JUDGE_LABELS,
    JUDGE_LABELS_NEEDED,
    JUDGE_SENSITIVITY,
    JUDGE_SPECIFICITY,
)
from pipelines.metrics.intervals import Term
from pipelines.metrics.judged import Corrected, corrected

if TYPE_CHECKING:
    from pipelines.benchmarks.metrics_kernel.definitions import Estimate, Measure, MetricDef
    from pipelines.benchmarks.metrics_kernel.rows import ScoredRows

REACHES: Final = (0.01, 0.02, 0.05)  # half widths for which the labels needed are reported
_OF: Final = "people's labels"


def label_estimates(measure: Measure) -> Iterator[Estimate]:
    """Yield what labels say of a measure of a judge's verdicts: for its mean over parts the corrected value alone.

    Rows have people's verdict in the column `human`, NaN without one. Nothing is yielded where fewer than two clusters
    of a part have labels, or the measure has no value.
    """
    definition = measure.definition
    if not definition.judged or np.isnan([label for rows in measure.parts for label in rows.floats("human")]).all():
        return
    parts = [_corrected(definition, rows) for rows in measure.parts]
    results = [part for part in parts if part is not None]
    if not results or len(results) < len(parts):
        return
    estimate = measure.joined([of_part for of_part, _ in results])
    yield replace(estimate, metric=replace(estimate.metric, metric=f"{estimate.metric.metric}{CORRECTED}"))
    if len(results) == 1 and not measure.parts[0].category:
        yield from _of_judge(results[0][0], definition, measure.parts[0], results[0][1])


def _corrected(definition: MetricDef, rows: ScoredRows) -> tuple[Estimate, Corrected] | None:
    plain = definition.estimate(rows)
    if plain.metric.value is None:
        return None
    counted = rows.at(np.flatnonzero(definition.counted(rows)))
    result = corrected(
        definition.columns(counted)[0][:, 0],
        counted.floats("human"),
        counted["cluster"],
        judged=counted.is_judged,
        strata=counted["category"].astype(str),
    )
    if result is None:
        return None
    note = f"prediction-powered: {result.labels:,} labels, verdicts weigh {result.weight:.2f}"
    return replace(plain, metric=replace(plain.metric, value=result.value, note=note), terms=result.terms), result


def _of_judge(plain: Estimate, definition: MetricDef, rows: ScoredRows, result: Corrected) -> Iterator[Estimate]:
    labelled = rows.where(definition.counted(rows) & rows.is_judged & ~np.isnan(rows.floats("human")))
    verdicts, people = definition.columns(labelled)[0][:, 0], labelled.floats("human")
    for name, truth in ((JUDGE_SENSITIVITY, 1.0), (JUDGE_SPECIFICITY, 0.0)):
        chosen = people == truth
        columns = np.stack([verdicts[chosen] == truth, np.ones(chosen.sum())], axis=1).astype(np.float64)
        value = float(columns[:, 0].mean()) if len(columns) else None
        metric = rows.metric(name, value, len(columns), n_failed=0, note=_OF)
        terms = (Term(columns, labelled["cluster"][chosen]),) if len(columns) else ()
        yield replace(plain, metric=metric, terms=terms)
    yield replace(plain, metric=rows.count(JUDGE_LABELS, result.labels, result.rows, n_failed=0), terms=())
    for reach in REACHES:
        needed = result.labels_for(reach)
        more = None if needed is None else max(0, needed - result.labels)
        note = "not even with a label on every judged answer" if more is None else ""
        metric = rows.named(category=f"{reach:g}").count(JUDGE_LABELS_NEEDED, more, result.rows, n_failed=0, note=note)
        yield replace(plain, metric=metric, terms=())

"""What people's labels say of a judge: its metrics corrected, and how often it finds what people accept and reject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import (
    CORRECTED,
    HUMAN_SPLIT,
    HUMAN_VERDICT,
    HUMAN_VOTES,
    JUDGE_LABELS,
    JUDGE_LABELS_NEEDED,
    JUDGE_SENSITIVITY,
    JUDGE_SPECIFICITY,
)
from pipelines.metrics.intervals import FloatArray, Term
from pipelines.metrics.judged import Corrected, corrected
from pipelines.metrics.people_labels import Votes

if TYPE_CHECKING:
    from pipelines.benchmarks.metrics_kernel.definitions import Estimate, Measure, MetricDef
    from pipelines.benchmarks.metrics_kernel.rows import ScoredRows

REACHES: Final = (0.01, 0.02, 0.05)  # half widths for which the labels needed are reported
DRAW_P: Final = 0.01  # below it labels are called no random part of the judged answers
NOT_RANDOM: Final = "labels are of no random part"
_OF: Final = "people's labels"


def label_estimates(measure: Measure) -> Iterator[Estimate]:
    """Yield what labels say of a measure of a judge's verdicts: for its mean over parts the corrected value alone.

    Rows have people's verdict in the column `human`, NaN without one. Nothing is yielded where fewer than two clusters
    of a part have labels, or the measure has no value.
    """
    definition = measure.definition
    if (
        not definition.judged
        or np.isnan([label for rows in measure.parts for label in rows.floats(HUMAN_VERDICT)]).all()
    ):
        return
    parts = [_corrected(definition, rows) for rows in measure.parts]
    results = [part for part in parts if part is not None]
    if not results or len(results) < len(parts):
        return
    estimate = measure.joined([part_estimate for part_estimate, _ in results])
    notes = [part_estimate.metric.note for part_estimate, _ in results if NOT_RANDOM in part_estimate.metric.note]
    note = (
        estimate.metric.note
        if len(results) == 1 or not notes
        else f"of {len(notes)} of {len(results)} parts {NOT_RANDOM}"
    )
    name = f"{estimate.metric.metric}{CORRECTED}"
    yield replace(estimate, metric=replace(estimate.metric, metric=name, note=note))
    if len(results) == 1 and not measure.parts[0].category:
        yield from _judge_estimates(results[0][0], definition, measure.parts[0], results[0][1])


def _corrected(definition: MetricDef, rows: ScoredRows) -> tuple[Estimate, Corrected] | None:
    plain = definition.estimate(rows)
    if plain.metric.value is None:
        return None
    counted = rows.at(np.flatnonzero(definition.counted(rows)))
    result = corrected(
        definition.columns(counted)[0][:, 0],
        counted.floats(HUMAN_VERDICT),
        counted["cluster"],
        judged=counted.is_judged,
        strata=counted["category"].astype(str),
        votes=Votes(counts=counted.floats(HUMAN_VOTES), split=counted.floats(HUMAN_SPLIT)),
    )
    if result is None:
        return None
    note = f"prediction-powered: {result.labels:,} labels, verdicts weigh {result.weight:.2f}"
    notes = [note, *_label_notes(result, counted.floats(HUMAN_VERDICT), counted.floats(HUMAN_SPLIT))]
    metric = replace(plain.metric, value=result.value, note="; ".join(notes))
    return replace(plain, metric=metric, terms=result.terms), result


def _label_notes(result: Corrected, labels: FloatArray, split: FloatArray) -> Iterator[str]:
    """Yield what a reader should know of the labels."""
    draw, people = result.draw, result.people
    if draw.p is not None and draw.outside is not None and draw.p < DRAW_P:
        yield (
            f"{NOT_RANDOM}: the judge accepts {draw.inside:.0%} of these answers and {draw.outside:.0%} of the others "
            f"(p {draw.p:.1g}), so the value may be biased"
        )
    if len(np.unique(labels[~np.isnan(labels)])) == 1:
        yield "all labels are equal: they say nothing of one kind of the judge's errors"
    twice = int((~np.isnan(split)).sum())
    if people is None and twice:
        yield f"people disagree about {np.nanmean(split):.0%} of the {twice:,} answers that two labelled: not corrected"
    elif people is None:
        yield "no two people labelled the same answer: their errors are not allowed for"
    elif not people.rate:
        yield f"people agree on all of the {twice:,} answers that two labelled"
    else:
        yield f"people err in about {people.rate:.1%} by their disagreement about {twice:,} answers, which is corrected"


def _judge_estimates(plain: Estimate, definition: MetricDef, rows: ScoredRows, result: Corrected) -> Iterator[Estimate]:
    labelled = rows.where(definition.counted(rows) & rows.is_judged & ~np.isnan(rows.floats(HUMAN_VERDICT)))
    verdicts, people = definition.columns(labelled)[0][:, 0], labelled.floats(HUMAN_VERDICT)
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

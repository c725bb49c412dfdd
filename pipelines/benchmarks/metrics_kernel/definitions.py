"""Definitions of metrics, and what follows from one: the number, its mean over groups, and its test for two models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows
from pipelines.benchmarks.records import (
    CORRECTED,
    HUMAN_SPLIT,
    HUMAN_VERDICT,
    HUMAN_VOTES,
    JUDGE_LABELS,
    JUDGE_LABELS_NEEDED,
    JUDGE_SENSITIVITY,
    JUDGE_SPECIFICITY,
    Metric,
    Sample,
)
from pipelines.metrics.intervals import DIFFERENCE, FRACTION, FloatArray, Statistic, Term, interval, ratio
from pipelines.metrics.judged import Corrected, Votes, corrected

if TYPE_CHECKING:
    import pandas as pd

Reason: TypeAlias = str | Callable[[ScoredRows], str]  # why there is no number, from the rows that lack it
Form: TypeAlias = Literal["single", "paired", "both"]
Measures: TypeAlias = "Callable[[pd.DataFrame, Mapping[str, Sample]], Iterable[Measure]]"

REACHES: Final = (0.01, 0.02, 0.05)  # half widths for which the labels needed are reported
DRAW_P: Final = 0.01  # below it labels are called no random part of the judged answers
NOT_RANDOM: Final = "labels are of no random part"
_LABELS_NOTE: Final = "people's labels"
NO_ROW: Final = "no row to measure"
_RECORD: ContextVar[list[Estimate] | None] = ContextVar("recorded estimates", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDef:
    """A metric: what rows are worth, which count, and how a number follows from their sums."""

    name: str
    value: str | Callable[[ScoredRows], NDArray[Any]]
    """A column, or a function of rows: (rows,) scores whose mean is the metric, or (rows, K) columns whose sums
    `statistic` takes. NaN is no score. A row with zeros in all columns is not counted in `n`."""
    counted: Callable[[ScoredRows], Bools] = lambda rows: rows.ok  # rows of the denominator
    failed_as: float | None = None  # score of failed rows, which then count
    statistic: Statistic = ratio
    from_totals: Callable[[FloatArray], float] | None = None  # the value by other code, from the sums of the columns
    unit: str = "fraction"
    missing: Reason = "not scored"  # why there is no value where a row that counts has no score
    empty: Reason = NO_ROW  # why there is no value where no row counts
    is_exact: bool = False  # without error, such as chance: no interval, no failed rows
    form: Form = "single"  # for one model, for two models, or for both
    judged: bool = False  # a share of answers that a judge accepts, which people's labels can correct

    def columns(self, rows: ScoredRows) -> tuple[FloatArray, Bools]:
        """Return the columns of all rows, (rows, K), and which rows count."""
        values = rows.floats(self.value) if isinstance(self.value, str) else np.asarray(self.value(rows), np.float64)
        counted = self.counted(rows)
        if self.failed_as is not None:
            values, counted = np.where(rows.failed, self.failed_as, values), counted | rows.failed
        return (np.stack([values, np.ones(len(rows))], axis=1) if values.ndim == 1 else values), counted

    def estimate(self, rows: ScoredRows) -> Estimate:
        """Compute the metric over rows; None with a note where a row has no score, or none counts."""
        columns, counted = self.columns(rows)
        columns = columns[counted]
        unscored = _lacks_score(columns)
        n = int(np.count_nonzero(columns.any(axis=1)))
        reason = rows.blocked
        if not reason and unscored.any():
            reason = _text(self.missing, rows.at(np.flatnonzero(counted)[unscored]))
        if not reason and not n:
            reason = _text(self.empty, rows)
        fields: dict[str, Any] = {"unit": self.unit, "note": reason or rows.note}
        if self.is_exact:
            fields["n_failed"] = 0
        value = None if reason else self._value(columns)
        metric = rows.metric(self.name, value, n, **fields)
        if value is None or self.is_exact:
            return Estimate(metric)
        return Estimate(metric, (Term(columns, rows["cluster"][counted], self.statistic),))

    def _value(self, columns: FloatArray) -> float:
        sums = np.array([column.sum() for column in np.ascontiguousarray(columns.T)])
        return float(self.statistic(*sums[:, None])[0]) if self.from_totals is None else self.from_totals(sums)

    def both(self, a: ScoredRows, b: ScoredRows) -> tuple[Term, Term]:
        """Return the columns of two models over the rows that count and have a score for both."""
        (columns_a, counted_a), (columns_b, counted_b) = self.columns(a), self.columns(b)
        counts = counted_a & counted_b
        scored = ~(_lacks_score(columns_a) | _lacks_score(columns_b))
        is_whole = self.statistic is ratio or bool(scored[counts].all())
        chosen, clusters = counts & scored & is_whole, a["cluster"]
        first, second = (Term(columns[chosen], clusters[chosen], self.statistic) for columns in (columns_a, columns_b))
        return first, second


def _lacks_score(columns: FloatArray) -> Bools:
    return np.asarray(np.isnan(columns).any(axis=1), dtype=np.bool_)


def _text(reason: Reason, rows: ScoredRows) -> str:
    return reason if isinstance(reason, str) else reason(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A metric and the terms that its value is the sum of; none where it has no value, or no interval."""

    metric: Metric
    terms: tuple[Term, ...] = ()

    def minus(self, other: Estimate, **labels: Any) -> Estimate:
        """Return the difference of two estimates, over clusters that may be the same ones."""
        a, b = self.metric.value, other.metric.value
        value = a - b if a is not None and b is not None else None
        return _combined([self, other], (1.0, -1.0), replace(self.metric, value=value, **labels))

    def noted(self, note: str) -> Estimate:
        """Return the estimate with another note."""
        return replace(self, metric=replace(self.metric, note=note))

    def with_interval(self) -> Metric:
        """Return the metric with its interval."""
        if (record := _RECORD.get()) is not None:
            record.append(self)
        ends = interval(self.terms, self._ends()) if self.terms else None
        if ends is None:
            return self.metric
        return replace(self.metric, ci_low=ends.low, ci_high=ends.high, ci_df=ends.freedom or None)

    def _ends(self) -> tuple[float, float]:
        """Return the ends of the values that the metric may have."""
        is_difference = any(term.weight < 0 for term in self.terms)
        if self.metric.unit in ("fraction", ""):
            return DIFFERENCE if is_difference or not self.metric.unit else FRACTION
        return (-math.inf if is_difference else 0.0), math.inf


def mean_of(parts: Sequence[Estimate], **labels: Any) -> Estimate:
    """Return the unweighted mean of several estimates; None where one of them is None, with its note."""
    metrics = [part.metric for part in parts]
    values = [metric.value for metric in metrics if metric.value is not None]
    complete = len(values) == len(metrics)
    fields = {
        "value": float(np.mean(values)) if complete else None,
        "n": sum(metric.n for metric in metrics),
        "n_failed": sum(metric.n_failed for metric in metrics),
        "note": next(metric.note for metric in metrics if complete or metric.value is None),
    }
    return _combined(parts, (1.0 / len(parts),) * len(parts), replace(metrics[0], **{**fields, **labels}))


def _combined(parts: Sequence[Estimate], weights: Sequence[float], metric: Metric) -> Estimate:
    if metric.value is None or not all(part.terms for part in parts):
        return Estimate(metric)
    return Estimate(
        metric,
        tuple(
            replace(term, weight=weight * term.weight)
            for part, weight in zip(parts, weights, strict=True)
            for term in part.terms
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A definition over rows, or the mean of it over several parts of them."""

    definition: MetricDef
    parts: tuple[ScoredRows, ...]
    labels: Mapping[str, str] = field(
        default_factory=dict
    )  # fields of the metric that differ from those of the first part
    compared: bool = True  # whether it is the one of its group that stands for it between two models

    def estimate(self) -> Estimate:
        """Compute the metric."""
        return self.joined([self.definition.estimate(rows) for rows in self.parts])

    def joined(self, parts: Sequence[Estimate]) -> Estimate:
        """Return the mean of the parts' estimates under the labels of the measure."""
        estimate = parts[0] if len(parts) == 1 else mean_of(parts)
        return replace(estimate, metric=replace(estimate.metric, **dict[str, Any](self.labels)))

    def paired(self, other: Measure) -> PairedMetric | None:
        """Compare with the same measure of another model over the same rows; None where nothing can be compared.

        Rows that do not count or have no score for both are left out; a statistic that is no mean needs all.
        """
        first = self.parts[0]
        fields = {name: getattr(first, name) for name in ("task", "setting", "subset", "category")}
        fields = {**fields, "metric": self.definition.name, **self.labels}
        pairs = [self.definition.both(*rows) for rows in zip(self.parts, other.parts, strict=True)]
        if not all(a.columns.size for a, _ in pairs):
            return None
        a, b = (tuple(replace(term, weight=1.0 / len(pairs)) for term in side) for side in zip(*pairs, strict=True))
        return PairedMetric(a=a, b=b, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """How a metric is split: over all rows, over each group of a column that occurs, and the mean of the groups."""

    names: tuple[str, ...]  # groups in the order of tables
    column: str = "category"  # of the rows; also the label of the metrics
    mean_category: str = ""  # category of the mean, where every group occurs
    mean_suffix: str = ""  # ending of the name of the mean, where groups differ in size

    def groups(self, rows: ScoredRows) -> list[ScoredRows]:
        """Return the rows of each group that occurs."""
        groups = [rows.where(rows[self.column] == name).named(**{self.column: name}) for name in self.names]
        return [group for group in groups if len(group)]

    def measures(self, definition: MetricDef, rows: ScoredRows) -> list[Measure]:
        """Return the measures of a metric; two models are compared by the mean of all groups where it has a name."""
        groups = self.groups(rows)
        measures = [Measure(definition=definition, parts=(part,)) for part in (rows, *groups)]
        if self.mean_category and len(groups) == len(self.names):
            labels = {self.column: self.mean_category}
            measures.append(Measure(definition=definition, parts=tuple(groups), labels=labels))
        elif self.mean_suffix and len({len(group) for group in groups}) > 1:
            labels = {self.column: "", "metric": f"{definition.name}{self.mean_suffix}"}
            measures.append(Measure(definition=definition, parts=tuple(groups), labels=labels))
        headline = measures[-1] if self.mean_category else measures[0]
        return [measure if measure is headline else replace(measure, compared=False) for measure in measures]


def compared(
    measures: Measures, a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]
) -> Iterator[PairedMetric]:
    """Yield the metrics of two models that their measures say are compared."""
    sides = [
        [m for m in measures(scores, samples) if m.compared and m.definition.form != "single"] for scores in (a, b)
    ]
    pairs = (first.paired(second) for first, second in zip(*sides, strict=True))
    return (pair for pair in pairs if pair is not None)


def estimates(measures: Iterable[Measure]) -> list[Estimate]:
    """Compute the metrics of one model, and what people's labels say of those of a judge."""
    single = [measure for measure in measures if measure.definition.form != "paired"]
    return [estimate for measure in single for estimate in (measure.estimate(), *label_estimates(measure))]


@contextmanager
def recorded_estimates() -> Iterator[list[Estimate]]:
    """Record, while the context is open, each estimate that becomes a metric, for intervals of another kind."""
    record: list[Estimate] = []
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


def with_intervals(rows: Iterable[Estimate]) -> list[Metric]:
    """Return the metrics with their intervals."""
    return [estimate.with_interval() for estimate in rows]


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
        metric = rows.metric(name, value, len(columns), n_failed=0, note=_LABELS_NOTE)
        terms = (Term(columns, labelled["cluster"][chosen]),) if len(columns) else ()
        yield replace(plain, metric=metric, terms=terms)
    yield replace(plain, metric=rows.count(JUDGE_LABELS, result.labels, result.rows, n_failed=0), terms=())
    for reach in REACHES:
        needed = result.labels_for(reach)
        more = None if needed is None else max(0, needed - result.labels)
        note = "not even with a label on every judged answer" if more is None else ""
        metric = rows.named(category=f"{reach:g}").count(JUDGE_LABELS_NEEDED, more, result.rows, n_failed=0, note=note)
        yield replace(plain, metric=metric, terms=())

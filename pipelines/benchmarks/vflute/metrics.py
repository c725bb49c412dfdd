"""V-FLUTE's metrics from the scored rows of one model.

For the whole, each subset (with its phenomenon as category) and each phenomenon:

- `f1_at_0`, `f1_at_53`, `f1_at_60`: macro F1 where an answer is right only with an explanation that scores above the
  threshold; the same with `_robust` under the second parser. Other thresholds (`f1_at_1` .. `f1_at_100`) are given
  only where the value differs from that of the threshold before.
- `accuracy` and `label_f1` of labels alone, `accuracy_at_53`, `accuracy_at_60`; `percent_drop` from F1@0 to F1@60.
- `none_rate`, `empty_explanation_rate`, `parser_disagreement`: shares of the answered rows.
- `chance_f1_at_0`, `all_entailment_f1_at_0`: the mean of a fair coin, and of always answering entailment.
- `accuracy_by_template` and `f1_at_0_by_template`, the instruction as category, where the data have several.
- `caption_chars_from_40`, ...: counts of texts by subset and length, here of 40 to below 60 characters.

A failed request is a wrong answer. A right label whose explanation was not scored leaves F1@k undefined: it is null
with that reason. Intervals are over pictures, with all their rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, listed, rows_of
from pipelines.benchmarks.metrics_kernel.definitions import Form, Measure, MetricDef, estimates, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows, aligned, coverage_note
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vflute.facts import (
    LABELS,
    LENGTH_BINS,
    PHENOMENA,
    REPORTED_THRESHOLDS,
    ROBUST,
    SETTINGS,
    SUBSETS,
    TASK,
)
from pipelines.benchmarks.vflute.prompts import template_name
from pipelines.benchmarks.vflute.source import label_leaks
from pipelines.metrics.f1 import THRESHOLDS, all_entailment_f1, chance_f1, koehn_p, macro_f1
from pipelines.metrics.intervals import FloatArray

PAIRS: Final = (
    ("zero-shot", "no-image"),
    ("5-shot", "zero-shot"),
    ("10-shot", "zero-shot"),
    ("10-shot", "5-shot"),
    ("scene-graph", "zero-shot"),
    ("zero-shot", "label-only"),
)
"""Pairs of settings; tested is that the first is better than the second."""
ONE_CLASS: Final = "one class only: a single wrong answer halves macro F1; read accuracy beside it"
UNSCORED: Final = "explanations without BERTScore and BLEURT"

_LENGTH_FIELDS: Final = {"caption": "claim", "explanation": "explanation"}
_SCORES: Final = ("label", f"label{ROBUST}", "es", f"es{ROBUST}", "empty")


def setting_rows(scores: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> ScoredRows:
    """Select the counted rows of one setting, those that were answered and those that failed.

    `entailment` is whether the right label is entailment; `es` is 1 where explanations are not scored.
    """
    planned = ScoredRows.of(scores, task=TASK, setting=setting).where(setting=setting)
    rows = planned.where(planned.ok | planned.failed).named(note=coverage_note(planned))
    # A value in a failed row does not come from the model.
    columns = {name: np.where(rows.failed, np.nan, rows.floats(name)) for name in _SCORES}
    if setting == "label-only":
        columns |= {name: np.ones(len(rows)) for name in ("es", f"es{ROBUST}")}
    gold = [LABELS[samples[name].data["label"]] == 1 for name in rows["sample_id"]]
    return rows.with_columns(entailment=np.array(gold, dtype=np.bool_), **columns)


def labelled_right(rows: ScoredRows, *, robust: bool = False) -> Bools:
    """Return which labels equal gold."""
    return np.asarray(rows.floats(f"label{ROBUST}" if robust else "label") == rows["entailment"], dtype=np.bool_)


def right_at(rows: ScoredRows, k: int, *, robust: bool = False) -> FloatArray:
    """Return 1 where a label is right with an explanation that scores above k hundredths, else 0.

    NaN where the label is right and the explanation is not scored: any such row leaves F1@k undefined.
    """
    labelled, score = labelled_right(rows, robust=robust), rows.floats(f"es{ROBUST}" if robust else "es")
    return np.where(labelled & np.isnan(score), np.nan, labelled & (score > THRESHOLDS[k]))


def every(rows: ScoredRows) -> Bools:
    """Count every row: a failed request is a wrong answer."""
    return np.ones(len(rows), dtype=np.bool_)


def f1_columns(rows: ScoredRows, right: FloatArray | Bools) -> FloatArray:
    """Return the columns whose sums `macro_f1` takes, (rows, 3), for answers that are right (1), wrong or unknown."""
    entailment = rows["entailment"]
    return np.stack([right * entailment, right * ~entailment, np.ones(len(rows))], axis=1)


def f1_metric(name: str, right: Callable[[ScoredRows], FloatArray | Bools], form: Form = "single") -> MetricDef:
    """Return macro F1 of answers that are right, wrong or unknown."""
    return MetricDef(
        name=name, value=lambda rows: f1_columns(rows, right(rows)), counted=every, statistic=macro_f1, form=form
    )


_over_all: Final = partial(MetricDef, counted=every)  # a failed request is a wrong answer


def _drop(*sums: FloatArray) -> FloatArray:
    """Return the fraction of F1@0 that is lost at 60 hundredths; 0 where F1@0 is 0."""
    at_0, at_60 = macro_f1(*sums[:3]), macro_f1(*sums[3:])
    return np.asarray(np.divide(at_0 - at_60, at_0, out=np.zeros_like(at_0), where=at_0 > 0))


def _parsers_disagree(rows: ScoredRows) -> Bools:
    label, robust = rows.floats("label"), rows.floats(f"label{ROBUST}")
    return np.asarray((label != robust) & ~(np.isnan(label) & np.isnan(robust)), dtype=np.bool_)


def _at(k: int, *, robust: bool = False) -> Callable[[ScoredRows], FloatArray]:
    return partial(right_at, k=k, robust=robust)


_F1_AT: Final = {
    (k, suffix): f1_metric(f"f1_at_{k}{suffix}", _at(k, robust=bool(suffix)), "single" if suffix else "both")
    for suffix in ("", ROBUST)
    for k in REPORTED_THRESHOLDS
}
_LABEL_F1: Final = f1_metric("label_f1", labelled_right, "both")
_ACCURACY: Final = _over_all(name="accuracy", value=labelled_right)
_ACCURACY_AT: Final = tuple(_over_all(name=f"accuracy_at_{k}", value=_at(k)) for k in REPORTED_THRESHOLDS[1:])
_DROP: Final = _over_all(
    name="percent_drop",
    value=lambda rows: np.concatenate([f1_columns(rows, right_at(rows, k)) for k in (0, 60)], axis=1),
    statistic=_drop,
)
_RATES: Final = (
    MetricDef(name="none_rate", value=lambda rows: np.isnan(rows.floats("label"))),
    MetricDef(name="parser_disagreement", value=_parsers_disagree),
)
_EMPTY_RATE: Final = MetricDef(name="empty_explanation_rate", value=lambda rows: rows.floats("empty") == 1)
_BY_TEMPLATE: Final = (
    _over_all(name="accuracy_by_template", value=labelled_right),
    f1_metric("f1_at_0_by_template", _at(0)),
)


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model by setting, then counts of text lengths.

    The note of a None says why. A column of `scores` without values may be absent.
    """
    present = set(scores["setting"])
    by_setting = {name: setting_rows(scores, name, samples) for name in SETTINGS if name in present}
    metrics: list[Metric] = []
    for rows in by_setting.values():
        for group in _groups(rows):
            metrics += with_intervals(estimates(_measures(group)))
            if _explained(group) and (group.subset or not group.category):
                metrics += _curve(group)
            metrics += _baselines(group)
        metrics += [*with_intervals(estimates(_by_template(rows, samples))), *_counts(rows, samples)]
    tests = (_setting_test(by_setting[a], by_setting[b]) for a, b in PAIRS if {a, b} <= by_setting.keys())
    return [*metrics, *tests, *length_metrics(samples.values())]


def paired_measures(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield F1 of labels in one setting, and F1 at the thresholds where the explanations of both are scored."""
    if samples:
        yield from _measures(setting_rows(scores, str(scores["setting"].iloc[0]), samples))


def _groups(rows: ScoredRows) -> Iterator[ScoredRows]:
    """Yield all rows, those of each subset, with its phenomenon as category, and those of each phenomenon."""
    yield rows
    groups = [rows.where(subset=subset.name).named(subset=subset.name, category=subset.category) for subset in SUBSETS]
    groups += [rows.where(category=name).named(category=name) for name in PHENOMENA]
    yield from (group for group in groups if len(group))


def _explained(rows: ScoredRows) -> bool:
    """Return whether answers have explanations."""
    return rows.setting != "label-only"


def _measures(rows: ScoredRows) -> Iterator[Measure]:
    """Yield all metrics of a group of rows."""
    gold = rows["entailment"]
    one_class = ONE_CLASS if gold.all() or not gold.any() else ""
    noted = rows.named(note="; ".join(filter(None, (one_class, rows.note))))
    thresholds = REPORTED_THRESHOLDS if _explained(rows) else (0,)
    f1s = [_with_reason(definition, rows) for (k, _), definition in _F1_AT.items() if k in thresholds]
    if not _explained(rows):
        f1s = [replace(definition, form="single") for definition in f1s]
    yield from (Measure(definition=definition, parts=(noted,)) for definition in (*f1s, _LABEL_F1))
    definitions = [_ACCURACY]
    if _explained(rows):
        definitions += [_with_reason(definition, rows) for definition in (*_ACCURACY_AT, _DROP)]
    yield from (Measure(definition=definition, parts=(rows,)) for definition in definitions)
    rates = (*_RATES, _EMPTY_RATE) if _explained(rows) else _RATES
    yield from (Measure(definition=definition, parts=(rows.named(note=""),)) for definition in rates)


def _with_reason(definition: MetricDef, rows: ScoredRows) -> MetricDef:
    """Return the definition with the reason why one right label with an unscored explanation leaves it undefined."""
    robust = definition.name.endswith(ROBUST)
    labelled, unscored = labelled_right(rows, robust=robust).sum(), np.isnan(right_at(rows, 0, robust=robust)).sum()
    part = f": {unscored:,} of {labelled:,} with the right label" if unscored < labelled else ""
    return replace(definition, missing=f"{UNSCORED}{part}")


def _curve(rows: ScoredRows) -> Iterator[Metric]:
    """Yield F1@k at every k where it changes."""
    if not len(rows) or np.isnan(right_at(rows, 0)).any():
        return
    columns = [f1_columns(rows, right_at(rows, k)).sum(axis=0) for k in range(len(THRESHOLDS))]
    previous: float | None = None
    for k, value in enumerate(macro_f1(*np.stack(columns, axis=1)).tolist()):
        if value != previous and k not in REPORTED_THRESHOLDS:
            yield rows.metric(f"f1_at_{k}", value, len(rows))
        previous = value


def _by_template(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield accuracy of labels and F1@0 by the instruction of the rows, where the data have several."""
    names = np.array([template_name(samples[name].data.get("prompt", "")) for name in rows["sample_id"]], dtype=object)
    templates = sorted(set(names.tolist()) - {""})
    if len(templates) < 2 or not _explained(rows):
        return
    for name in templates:
        part = rows.where(names == name).named(category=name, note="")
        for definition in _BY_TEMPLATE:
            yield Measure(definition=_with_reason(definition, part), parts=(part,))


def _baselines(rows: ScoredRows) -> Iterator[Metric]:
    entailment = int(rows["entailment"].sum())
    make = partial(rows.metric, n=len(rows), n_failed=0)
    if len(rows):
        for name, baseline in (("chance_f1_at_0", chance_f1), ("all_entailment_f1_at_0", all_entailment_f1)):
            yield make(name, baseline(entailment, len(rows) - entailment))
    yield make("gold_entailment", entailment, unit="count")


def _counts(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    yield rows.count("errors", int(rows.failed.sum()), len(rows))
    yield rows.count("truncated_count", int(rows.flagged("truncated").sum()))
    leaking = [name for name in rows["sample_id"] if label_leaks(samples[name].data["claim"])]
    note = f"the caption begins with a label left from annotation: {', '.join(leaking[:5])}" if leaking else ""
    yield rows.count("leaking_captions", len(leaking), len(rows), note=note)


def _setting_test(a: ScoredRows, b: ScoredRows) -> Metric:
    """Test one-sided that F1@0 of A is above that of B, over the rows that both answered or failed."""
    a, b = aligned(a, b, "sample_id")
    definitions = [_with_reason(_F1_AT[0, ""], rows) for rows in (a, b)]
    notes = [definition.estimate(rows).metric for definition, rows in zip(definitions, (a, b), strict=True)]
    reason = "" if len(a) else "no row in common"
    reason = reason or next((metric.note for metric in notes if metric.value is None), "")
    right_a, right_b = (right_at(rows, 0) == 1 for rows in (a, b))
    return a.metric(
        f"p_better_than_{b.setting}",
        None if reason else koehn_p(a["entailment"], right_a, right_b),
        len(a),
        n_failed=int((a.failed | b.failed).sum()),
        note=reason or "one-sided p of the paired bootstrap over rows, F1@0",
    )


def length_metrics(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Yield the lengths of captions and explanations by subset, as counts in bins: the data of figures 8 and 9."""
    all_samples = list(samples)
    for subset in SUBSETS:
        subset_samples = [sample for sample in all_samples if sample.subset == subset.name]
        for text, (width, bins) in LENGTH_BINS.items():
            texts = (sample.data[_LENGTH_FIELDS[text]] for sample in subset_samples)
            starts = Counter(min(len(characters) // width, bins - 1) * width for characters in texts)
            for start, count in sorted(starts.items()):
                yield Metric(
                    task=TASK,
                    setting="",
                    subset=subset.name,
                    category=subset.category,
                    metric=f"{text}_chars_from_{start}",
                    value=count,
                    n=len(subset_samples),
                    unit="count",
                )


_POOR: Final = 53 / 100  # an explanation score of at most this loses the point at F1@53


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the list of one model, from its scores and samples by id; none where explanations were not scored."""
    if "es" not in scores:
        return []
    is_poor = (scores["status"] == "ok") & (scores["correct"] == 1.0) & (scores["es"] <= _POOR)
    items = [
        listed(
            row,
            question=str(samples[row["sample_id"]].data["claim"]),
            expected=str(samples[row["sample_id"]].data["explanation"]),
            answer=row["answer"],
            detail=f"explanation score {row['es']:.3f}",
        )
        for row in rows_of(scores[is_poor])
    ]
    return [
        ItemList(
            id="vflute_poor_explanation",
            title="V-FLUTE: right label, poor explanation",
            about="Counted as right by F1@0 and as wrong by F1@53: the explanation score is at most 0.53.",
            items=items,
        )
    ]

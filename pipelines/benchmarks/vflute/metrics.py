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
with that reason. Intervals resample pictures, with all their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec, ratio, with_intervals
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vflute.aggregate import all_entailment_f1, chance_f1, f1_columns, koehn_p, value_of
from pipelines.benchmarks.vflute.explanation_score import ROBUST
from pipelines.benchmarks.vflute.facts import LENGTH_BINS, PHENOMENA, REPORTED_THRESHOLDS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.scored_rows import Bools, Right, SettingRows
from pipelines.benchmarks.vflute.source_text import label_leaks
from pipelines.benchmarks.vflute.templates import template_name
from pipelines.metrics.f1 import THRESHOLDS, macro_f1
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

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

_LENGTH_FIELDS: Final = {"caption": "claim", "explanation": "explanation"}
NO_ROW: Final = "no row to measure"
UNSCORED: Final = "explanations without BERTScore and BLEURT"


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model by setting, then counts of text lengths.

    The note of a None says why. A column of `scores` without values may be absent.
    """
    present = set(scores["setting"])
    by_setting = {name: SettingRows.of(scores, name, samples) for name in SETTINGS if name in present}
    metrics: list[Metric] = []
    for rows in by_setting.values():
        for subset, category in _groups(rows):
            metrics += _group_metrics(rows, subset, category)
        metrics += [*_by_template(rows, samples), *_counts(rows, samples)]
    return [*metrics, *_setting_tests(by_setting), *length_metrics(samples.values())]


def _groups(rows: SettingRows) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield from ((subset.name, subset.category) for subset in SUBSETS if (rows.subset == subset.name).any())
    yield from (("", name) for name in PHENOMENA if (rows.category == name).any())


def _mask(rows: SettingRows, subset: str, category: str) -> Bools:
    mask = np.ones(len(rows.ids), dtype=np.bool_)
    if subset:
        mask &= rows.subset == subset
    return mask & (rows.category == category) if category else mask


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The rows of a subset or phenomenon in one setting."""

    rows: SettingRows
    subset: str
    category: str

    @property
    def explained(self) -> bool:
        """Whether answers have explanations."""
        return self.rows.setting != "label-only"

    def metric(self, name: str, value: float | None, n: int | None = None, note: str = "") -> Metric:
        """Build a metric over all rows, or over n of them."""
        return Metric(
            task=TASK,
            setting=self.rows.setting,
            subset=self.subset,
            category=self.category,
            metric=name,
            value=value,
            n=len(self.rows.ids) if n is None else n,
            n_failed=int(self.rows.failed.sum()),
            note=note,
        )

    def f1(self, name: str, right: Bools, reason: str, note: str) -> MetricSpec:
        """Build macro F1 of answers that are right or wrong; None for a reason."""
        columns = f1_columns(self.rows.entailment, right)
        metric = self.metric(name, None if reason else value_of(columns, macro_f1), note=reason or note)
        return MetricSpec(metric, columns, macro_f1)

    def share(self, name: str, mask: Bools, counted: Bools, reason: str, note: str = "") -> MetricSpec:
        """Build the share of rows among those that are counted; None for a reason."""
        columns, n = (mask & counted, counted), int(counted.sum())
        return MetricSpec(self.metric(name, None if reason else value_of(columns, ratio), n, reason or note), columns)


def _group_metrics(whole: SettingRows, subset: str, category: str) -> Iterator[Metric]:
    """Yield all metrics of a group of rows."""
    group = _Group(rows=whole.of_rows(_mask(whole, subset, category)), subset=subset, category=category)
    yield from with_intervals([*_over_all(group), *_over_answered(group)], group.rows.cluster)
    if group.explained and (subset or not category):
        yield from _curve(group)
    yield from _baselines(group)


def _over_all(group: _Group) -> Iterator[MetricSpec]:
    """Yield metrics in which a failed request is a wrong answer."""
    rows, every = group.rows, np.ones(len(group.rows.ids), dtype=np.bool_)
    note = f"requests of the setting never run, and not counted: {rows.never_run:,}" if rows.never_run else ""
    one_class = ONE_CLASS if rows.entailment.all() or not rows.entailment.any() else ""
    f1_note = "; ".join(filter(None, (one_class, note)))
    thresholds = REPORTED_THRESHOLDS if group.explained else (0,)
    for suffix in ("", ROBUST):
        for k in thresholds:
            at_k = rows.right_at(k, robust=bool(suffix))
            yield group.f1(f"f1_at_{k}{suffix}", at_k.right, _missing_reason(rows, at_k), f1_note)
    labelled, empty = rows.labelled_right(), "" if len(rows.ids) else NO_ROW
    yield group.f1("label_f1", labelled, empty, f1_note)
    yield group.share("accuracy", labelled, every, empty, note)
    for k in thresholds[1:]:
        at_k = rows.right_at(k)
        yield group.share(f"accuracy_at_{k}", at_k.right, every, _missing_reason(rows, at_k), note)
    if group.explained:
        yield _percent_drop(group, note)


def _over_answered(group: _Group) -> Iterator[MetricSpec]:
    """Yield shares of the rows that have an answer."""
    rows, answered = group.rows, ~group.rows.failed
    nones = np.isnan(rows.label)
    shares = {
        "none_rate": nones,
        "parser_disagreement": (rows.label != rows.label_robust) & ~(nones & np.isnan(rows.label_robust)),
    }
    if group.explained:
        shares["empty_explanation_rate"] = rows.empty == 1
    for name, mask in shares.items():
        yield group.share(name, mask, answered, "" if answered.any() else NO_ROW)


def _missing_reason(rows: SettingRows, at_k: Right) -> str:
    """Explain a missing value; one right label with an unscored explanation is enough. '' if there is a value."""
    if not len(rows.ids):
        return NO_ROW
    unscored, labelled = int(at_k.unknown.sum()), int(at_k.labelled.sum())
    if not unscored:
        return ""
    return UNSCORED if unscored == labelled else f"{UNSCORED}: {unscored:,} of {labelled:,} with the right label"


def _percent_drop(group: _Group, note: str) -> MetricSpec:
    """Build the fraction of F1@0 that is lost at 60 hundredths; 0 where F1@0 is 0."""
    at_0, at_60 = group.rows.right_at(0), group.rows.right_at(60)
    columns = tuple(
        column for right in (at_0.right, at_60.right) for column in f1_columns(group.rows.entailment, right)
    )
    reason = _missing_reason(group.rows, at_0)
    value = None if reason else value_of(columns, _drop)
    return MetricSpec(group.metric("percent_drop", value, note=reason or note), columns, _drop)


def _drop(*sums: FloatArray) -> FloatArray:
    at_0, at_60 = macro_f1(*sums[:3]), macro_f1(*sums[3:])
    return np.asarray(np.divide(at_0 - at_60, at_0, out=np.zeros_like(at_0), where=at_0 > 0))


def _curve(group: _Group) -> Iterator[Metric]:
    """Yield F1@k at every k where it changes."""
    rows = group.rows
    if _missing_reason(rows, rows.right_at(0)):
        return
    previous: float | None = None
    for k in range(len(THRESHOLDS)):
        value = value_of(f1_columns(rows.entailment, rows.right_at(k).right), macro_f1)
        if value != previous and k not in REPORTED_THRESHOLDS:
            yield group.metric(f"f1_at_{k}", value)
        previous = value


def _by_template(rows: SettingRows, samples: Mapping[str, Sample]) -> list[Metric]:
    """Return accuracy of labels and F1@0 by the instruction of the rows, where the data have several."""
    names = np.array([template_name(samples[name].data.get("prompt", "")) for name in rows.ids], dtype=object)
    templates = sorted(set(names.tolist()) - {""})
    if len(templates) < 2 or rows.setting == "label-only":
        return []
    specs = []
    for name in templates:
        indices = np.flatnonzero(names == name)
        group = _Group(rows=rows.of_rows(indices), subset="", category=name)
        at_0, every = group.rows.right_at(0), np.ones(len(indices), dtype=np.bool_)
        specs += [
            group.share("accuracy_by_template", group.rows.labelled_right(), every, ""),
            group.f1("f1_at_0_by_template", at_0.right, _missing_reason(group.rows, at_0), ""),
        ]
        specs[-2:] = [replace(spec, rows=indices) for spec in specs[-2:]]
    return with_intervals(specs, rows.cluster)


def _baselines(group: _Group) -> Iterator[Metric]:
    rows = group.rows
    entailment = int(rows.entailment.sum())
    contradiction = len(rows.ids) - entailment
    make = partial(
        Metric, task=TASK, setting=rows.setting, subset=group.subset, category=group.category, n=len(rows.ids)
    )
    if len(rows.ids):
        yield make(metric="chance_f1_at_0", value=chance_f1(entailment, contradiction))
        yield make(metric="all_entailment_f1_at_0", value=all_entailment_f1(entailment, contradiction))
    yield make(metric="gold_entailment", value=entailment, unit="count")


def _counts(rows: SettingRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    failed, n = int(rows.failed.sum()), len(rows.ids)
    make = partial(Metric, task=TASK, setting=rows.setting, unit="count", n_failed=failed)
    yield make(metric="errors", value=failed, n=n)
    yield make(metric="truncated_count", value=int(rows.truncated.sum()), n=n - failed)
    leaking = [name for name in rows.ids if label_leaks(samples[name].data["claim"])]
    note = f"the caption begins with a label left from annotation: {', '.join(leaking[:5])}" if leaking else ""
    yield make(metric="leaking_captions", value=len(leaking), n=n, note=note)


def _setting_tests(by_setting: Mapping[str, SettingRows]) -> Iterator[Metric]:
    for a, b in PAIRS:
        if a in by_setting and b in by_setting:
            yield _setting_test(by_setting[a], by_setting[b])


def _setting_test(a: SettingRows, b: SettingRows) -> Metric:
    """Test one-sided that F1@0 of A is above that of B, over the rows that both answered or failed."""
    _, indices_a, indices_b = np.intersect1d(a.ids.astype(str), b.ids.astype(str), return_indices=True)
    a, b = a.of_rows(indices_a), b.of_rows(indices_b)
    right_a, right_b = a.right_at(0), b.right_at(0)
    reason = ("" if len(a.ids) else "no row in common") or _missing_reason(a, right_a) or _missing_reason(b, right_b)
    value = None if reason else koehn_p(a.entailment, right_a.right, right_b.right)
    return Metric(
        task=TASK,
        setting=a.setting,
        metric=f"p_better_than_{b.setting}",
        value=value,
        n=len(a.ids),
        n_failed=int((a.failed | b.failed).sum()),
        note=reason or "one-sided p of the paired bootstrap over rows, F1@0",
    )


def length_metrics(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Yield the lengths of captions and explanations by subset, as counts in bins: the data of figures 8 and 9."""
    all_samples = list(samples)
    for subset in SUBSETS:
        of_subset = [sample for sample in all_samples if sample.subset == subset.name]
        for text, (width, bins) in LENGTH_BINS.items():
            texts = (sample.data[_LENGTH_FIELDS[text]] for sample in of_subset)
            starts = Counter(min(len(characters) // width, bins - 1) * width for characters in texts)
            for start, count in sorted(starts.items()):
                yield Metric(
                    task=TASK,
                    setting="",
                    subset=subset.name,
                    category=subset.category,
                    metric=f"{text}_chars_from_{start}",
                    value=count,
                    n=len(of_subset),
                    unit="count",
                )

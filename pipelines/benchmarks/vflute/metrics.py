"""V-FLUTE's metrics: from the scored rows of one model to the numbers of the paper, and to ours.

For the whole, each subset (with its phenomenon as category) and each phenomenon:

- `f1_at_0`, `f1_at_53`, `f1_at_60`: macro F1 where an answer is right only with an explanation that scores above the
  threshold; the same with `_robust` under the second reading. Other thresholds (`f1_at_1` .. `f1_at_100`) stand only
  where the value differs from that of the threshold before.
- `accuracy` and `label_f1` of labels alone, `accuracy_at_53`, `accuracy_at_60`; `percent_drop` from F1@0 to F1@60.
- `none_rate`, `empty_explanation_rate`, `parser_disagreement`: shares of the answered rows.
- `chance_f1_at_0`, `all_entailment_f1_at_0`: what a fair coin has in the mean, and who always says entailment.

A failed request is a wrong answer. A right label whose explanation was not scored makes F1@k undecided, and it is null
with that reason. Intervals resample pictures, with all their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vflute.explanation_score import ROBUST
from pipelines.benchmarks.vflute.f1_bootstrap import (
    Bools,
    MetricSpec,
    all_entailment,
    better_p,
    coin_flip,
    f1_measure,
    intervals,
    macro,
    share_measure,
)
from pipelines.benchmarks.vflute.facts import PHENOMENA, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.scored_rows import Right, SettingRows
from pipelines.benchmarks.vflute.source_text import label_leaks
from pipelines.benchmarks.vflute.text_lengths import length_metrics
from pipelines.metrics.f1 import THRESHOLDS
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

REPORTED: Final = (0, 53, 60)
"""Thresholds of the paper, in hundredths."""
PAIRS: Final = (
    ("zero-shot", "no-image"),
    ("5-shot", "zero-shot"),
    ("10-shot", "zero-shot"),
    ("10-shot", "5-shot"),
    ("scene-graph", "zero-shot"),
    ("zero-shot", "label-only"),
)
"""Settings of which the first is tested to be better than the second."""
ONE_CLASS: Final = "one class only: a single wrong answer halves macro F1; read accuracy beside it"

NO_ROW: Final = "no row to measure"
UNSCORED: Final = "explanations without BERTScore and BLEURT"


def reduce_vflute(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """All metrics of one model.

    Args:
        scores: see `Benchmark.reduce`; a column that no row has may be absent.
        samples: by id.

    Returns:
        Metrics by setting. What cannot be given is None, and its note says why.
    """
    present = set(scores["setting"])
    cells = {name: SettingRows.of(scores, name, samples) for name in SETTINGS if name in present}
    found: list[Metric] = []
    for cell in cells.values():
        for subset, category in _groups(cell):
            found += _group(cell, subset, category)
        found += _counts(cell, samples)
    return [*found, *_better(cells), *length_metrics(samples.values())]


def koehn_p(a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample], setting_a: str, setting_b: str) -> Metric:
    """The paired test that A's F1@0 is above B's, over the rows that both answered or failed.

    Args:
        a: scores of one model, as `reduce_vflute` takes them.
        b: of another, or the same ones.
        samples: by id.
        setting_a: whose rows of A.
        setting_b: whose rows of B.
    """
    return _p(SettingRows.of(a, setting_a, samples), SettingRows.of(b, setting_b, samples))


def _groups(cell: SettingRows) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield from ((one.name, one.category) for one in SUBSETS if (cell.subset == one.name).any())
    yield from (("", name) for name in PHENOMENA if (cell.category == name).any())


def _rows_of(cell: SettingRows, subset: str, category: str) -> Bools:
    rows = np.ones(len(cell.ids), dtype=np.bool_)
    if subset:
        rows &= cell.subset == subset
    return rows & (cell.category == category) if category else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A measure, and what may keep it from having a value."""

    measure: MetricSpec
    n: int
    why_not: str = ""
    note: str = ""


def _group(whole: SettingRows, subset: str, category: str) -> Iterator[Metric]:
    """All metrics of one group of rows; all intervals come from the same draws."""
    cell = whole.of_rows(_rows_of(whole, subset, category))
    wanted = [*_over_all(cell), *_over_answered(cell)]
    valued = [one.measure for one in wanted if not one.why_not]
    ends = iter(intervals(valued, cell.cluster))
    for one in wanted:
        interval = None if one.why_not else next(ends)
        yield Metric(
            task=TASK,
            setting=cell.setting,
            subset=subset,
            category=category,
            metric=one.measure.name,
            value=None if one.why_not else one.measure.value,
            n=one.n,
            n_failed=int(cell.failed.sum()),
            ci_low=interval.low if interval else None,
            ci_high=interval.high if interval else None,
            note=one.why_not or one.note,
        )
    if cell.setting != "label-only" and (subset or not category):
        yield from _curve(cell, subset, category)
    yield from _baselines(cell, subset, category)


def _over_all(cell: SettingRows) -> Iterator[_Wanted]:
    """Measures in which a failed request is a wrong answer."""
    notes = [f"requests of the setting never run, and not counted: {cell.never_run:,}"] if cell.never_run else []
    one_class = [ONE_CLASS] if cell.entailment.all() or not cell.entailment.any() else []
    make = partial(_Wanted, n=len(cell.ids), note="; ".join(notes))
    make_f1 = partial(_Wanted, n=len(cell.ids), note="; ".join(one_class + notes))
    thresholds = (0,) if cell.setting == "label-only" else REPORTED
    for suffix in ("", ROBUST):
        for k in thresholds:
            at_k = cell.right_at(k, robust=bool(suffix))
            measure = f1_measure(f"f1_at_{k}{suffix}", cell.entailment, at_k.right)
            yield make_f1(measure=measure, why_not=_why_not(cell, at_k))
    labelled, empty = cell.labelled_right(), "" if len(cell.ids) else NO_ROW
    yield make_f1(measure=f1_measure("label_f1", cell.entailment, labelled), why_not=empty)
    yield make(measure=share_measure("accuracy", labelled), why_not=empty)
    for k in thresholds[1:]:
        at_k = cell.right_at(k)
        yield make(measure=share_measure(f"accuracy_at_{k}", at_k.right), why_not=_why_not(cell, at_k))
    if cell.setting != "label-only":
        yield make(measure=_drop(cell), why_not=_why_not(cell, cell.right_at(0)))


def _over_answered(cell: SettingRows) -> Iterator[_Wanted]:
    """Shares of the rows that have an answer."""
    answered = ~cell.failed
    nones = np.isnan(cell.label)
    found = {
        "none_rate": nones,
        "parser_disagreement": (cell.label != cell.label_robust) & ~(nones & np.isnan(cell.label_robust)),
    }
    if cell.setting != "label-only":
        found["empty_explanation_rate"] = cell.empty == 1
    n = int(answered.sum())
    for name, rows in found.items():
        yield _Wanted(measure=share_measure(name, rows, answered), n=n, why_not="" if n else NO_ROW)


def _why_not(cell: SettingRows, at_k: Right) -> str:
    """Why there is no value; one right label with an explanation that nobody scored is enough."""
    if not len(cell.ids):
        return NO_ROW
    missing, labelled = int(at_k.unknown.sum()), int(at_k.labelled.sum())
    if not missing:
        return ""
    return UNSCORED if missing == labelled else f"{UNSCORED}: {missing:,} of {labelled:,} with the right label"


def _drop(cell: SettingRows) -> MetricSpec:
    """What of F1@0 is lost at 60 hundredths, as a fraction; 0 where F1@0 is 0."""
    low = f1_measure("", cell.entailment, cell.right_at(0).right)
    high = f1_measure("", cell.entailment, cell.right_at(60).right)

    def statistic(*sums: FloatArray) -> FloatArray:
        at_0, at_60 = macro(*sums[:3]), macro(*sums[3:])
        return np.asarray(np.divide(at_0 - at_60, at_0, out=np.zeros_like(at_0), where=at_0 > 0))

    return MetricSpec(name="percent_drop", columns=(*low.columns, *high.columns), statistic=statistic)


def _curve(cell: SettingRows, subset: str, category: str) -> Iterator[Metric]:
    """F1@k of every k at which it changes."""
    if _why_not(cell, cell.right_at(0)):
        return
    before: float | None = None
    for k in range(len(THRESHOLDS)):
        value = f1_measure(f"f1_at_{k}", cell.entailment, cell.right_at(k).right).value
        if value != before and k not in REPORTED:
            yield Metric(
                task=TASK,
                setting=cell.setting,
                subset=subset,
                category=category,
                metric=f"f1_at_{k}",
                value=value,
                n=len(cell.ids),
                n_failed=int(cell.failed.sum()),
            )
        before = value


def _baselines(cell: SettingRows, subset: str, category: str) -> Iterator[Metric]:
    entailment = int(cell.entailment.sum())
    contradiction = len(cell.ids) - entailment
    make = partial(Metric, task=TASK, setting=cell.setting, subset=subset, category=category, n=len(cell.ids))
    if len(cell.ids):
        yield make(metric="chance_f1_at_0", value=coin_flip(entailment, contradiction))
        yield make(metric="all_entailment_f1_at_0", value=all_entailment(entailment, contradiction))
    yield make(metric="gold_entailment", value=entailment, unit="count")


def _counts(cell: SettingRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    failed, rows = int(cell.failed.sum()), len(cell.ids)
    make = partial(Metric, task=TASK, setting=cell.setting, unit="count", n_failed=failed)
    yield make(metric="errors", value=failed, n=rows)
    yield make(metric="truncated_count", value=int(cell.truncated.sum()), n=rows - failed)
    leaking = [name for name in cell.ids if label_leaks(samples[name].data["claim"])]
    note = f"the caption begins with a label left from annotation: {', '.join(leaking[:5])}" if leaking else ""
    yield make(metric="leaking_captions", value=len(leaking), n=rows, note=note)


def _better(cells: Mapping[str, SettingRows]) -> Iterator[Metric]:
    for a, b in PAIRS:
        if a in cells and b in cells:
            yield _p(cells[a], cells[b])


def _p(a: SettingRows, b: SettingRows) -> Metric:
    _, left, right = np.intersect1d(a.ids.astype(str), b.ids.astype(str), return_indices=True)
    a, b = a.of_rows(left), b.of_rows(right)
    first, second = a.right_at(0), b.right_at(0)
    why = ("no row in common" if not len(left) else "") or _why_not(a, first) or _why_not(b, second)
    value = None if why else better_p(a.entailment, first.right, second.right)
    return Metric(
        task=TASK,
        setting=a.setting,
        metric=f"p_better_than_{b.setting}",
        value=value,
        n=len(left),
        n_failed=int((a.failed | b.failed).sum()),
        note=why or "one-sided p of the paired bootstrap over rows, F1@0",
    )

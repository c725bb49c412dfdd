"""People's labels of V-FLUTE rows, from a CSV file `id,annotator,label`: scored like a model's, and beside one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.base import Metric, Sample
from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.vflute.f1_bootstrap import better_p, f1_measure
from pipelines.benchmarks.vflute.facts import LABELS, SUBSETS, TASK
from pipelines.benchmarks.vflute.judgement_study import csv_rows
from pipelines.benchmarks.vflute.scored_rows import Cell
from pipelines.metrics.f1 import macro_f1, macro_f1_statistic
from pipelines.metrics.stats import paired_bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd

_LABEL_COLUMNS: Final = ("id", "annotator", "label")


def labels_as_predictions(text: str) -> list[dict[str, str]]:
    """People's labels as rows of a predictions file, a model an annotator; scored as labels without explanations.

    Args:
        text: CSV with columns id, annotator, label.

    Raises:
        ValueError: a column or a value is missing or wrong, or an annotator labels an item twice.
    """
    return [
        {
            "benchmark": "vflute",
            "model": f"{ANNOTATOR}{who}",
            "task": TASK,
            "setting": "label-only",
            "sample_id": item,
            "variant": "",
            "output": label,
        }
        for who, given in _labels(text).items()
        for item, label in given.items()
    ]


def human_f1(text: str, samples: Mapping[str, Sample]) -> list[Metric]:
    """Macro F1 of labels by annotator, and its mean over annotators, for the whole and each subset.

    Args:
        text: CSV with columns id, annotator, label.
        samples: by id.

    Returns:
        Metrics `f1_at_0` of setting '', n being the items that anyone labelled.

    Raises:
        ValueError: as for `labels_as_predictions`, or an item that is not among the samples.
    """
    labels = _known(_labels(text), samples)
    return [
        Metric(task=TASK, setting="", subset=subset, category=category, metric="f1_at_0", value=value, n=n)
        for subset, category in (("", ""), *((one.name, one.category) for one in SUBSETS))
        for value, n in [_mean_f1(labels, samples, subset)]
        if value is not None
    ]


def against_humans(text: str, scores: pd.DataFrame, samples: Mapping[str, Sample], setting: str) -> list[Metric]:
    """One model beside each annotator on the annotator's own rows.

    Args:
        text: CSV with columns id, annotator, label.
        scores: of the model, as `Benchmark.reduce` takes them.
        samples: by id.
        setting: of the model.

    Returns:
        For each annotator A: `f1_at_0_on_rows_of_A` and `f1_at_0_of_A`; `gap_to_A`, with the paired interval over
        pictures; `p_A_is_better`. All None where explanations were not scored.

    Raises:
        ValueError: as for `human_f1`.
    """
    cell = Cell.of(scores, setting, samples)
    found = []
    for who, given in _known(_labels(text), samples).items():
        own = cell.of_rows(np.array([name in given for name in cell.ids], dtype=np.bool_))
        found += _beside(own, who, given)
    return found


def _beside(cell: Cell, who: str, given: Mapping[str, str]) -> list[Metric]:
    at_0 = cell.right_at(0)
    if not len(cell.ids) or at_0.unknown.any():
        why = "explanations were not scored" if len(cell.ids) else "no row in common"
        names = (f"f1_at_0_on_rows_of_{who}", f"f1_at_0_of_{who}", f"gap_to_{who}", f"p_{who}_is_better")
        return [
            Metric(task=TASK, setting=cell.setting, metric=name, value=None, n=len(cell.ids), note=why)
            for name in names
        ]
    gold = cell.entailment.astype(np.int64)
    human = np.array([LABELS[given[name]] for name in cell.ids])
    model = np.where(at_0.right, gold, 1 - gold)
    ends = paired_bootstrap_ci(model, human, list(cell.cluster), statistic=macro_f1_statistic(gold.tolist()))
    ours = f1_measure("", cell.entailment, at_0.right).value
    theirs = macro_f1(gold.tolist(), human.tolist())
    p = better_p(cell.entailment, human == gold, at_0.right)

    def metric(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Metric:
        return Metric(
            task=TASK,
            setting=cell.setting,
            metric=name,
            value=value,
            n=len(cell.ids),
            n_failed=int(cell.failed.sum()),
            ci_low=low,
            ci_high=high,
        )

    gap = None if ours is None else ours - theirs
    return [
        metric(f"f1_at_0_on_rows_of_{who}", ours),
        metric(f"f1_at_0_of_{who}", theirs),
        metric(f"gap_to_{who}", gap, ends.low if ends else None, ends.high if ends else None),
        metric(f"p_{who}_is_better", p),
    ]


def _mean_f1(
    labels: Mapping[str, Mapping[str, str]], samples: Mapping[str, Sample], subset: str
) -> tuple[float | None, int]:
    values, items = [], set[str]()
    for given in labels.values():
        own = [name for name in given if not subset or samples[name].subset == subset]
        items.update(own)
        if own:
            gold = [LABELS[samples[name].data["label"]] for name in own]
            values.append(macro_f1(gold, [LABELS[given[name]] for name in own]))
    return (math.fsum(values) / len(values) if values else None), len(items)


def _labels(text: str) -> dict[str, dict[str, str]]:
    """Annotator -> item -> label."""
    found: dict[str, dict[str, str]] = {}
    for line, row in csv_rows(text, _LABEL_COLUMNS):
        if row["label"] not in LABELS:
            raise ValueError(f"line {line}: label is {row['label']!r}, wanted entailment or contradiction")
        own = found.setdefault(row["annotator"], {})
        if row["id"] in own:
            raise ValueError(f"line {line}: {row['annotator']!r} labels {row['id']!r} twice")
        own[row["id"]] = row["label"]
    return found


def _known(labels: dict[str, dict[str, str]], samples: Mapping[str, Sample]) -> dict[str, dict[str, str]]:
    unknown = [name for given in labels.values() for name in given if name not in samples]
    if unknown:
        raise ValueError(f"no sample has the id {unknown[0]!r}")
    return labels

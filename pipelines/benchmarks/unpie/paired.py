"""UNPIE's metrics of two models as the paper reports them: means of both kinds of pun, by language, and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.benchmarks.aggregation import mean_of_ratios
from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS, kinds_in
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.metrics import subset_name
from pipelines.benchmarks.unpie.reconstruction_bleu import columns_by_kind, mean_bleu, sentence_counts

if TYPE_CHECKING:
    import pandas as pd

_MEANS: Final = {
    "grounding": ("exact_match", "correct"),
    "disambiguation": ("accuracy", "correct"),
    "reconstruction": ("correct_pct", "accepted"),
}
"""Task -> metric, and the score that it is the mean of."""


def paired_metrics(a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    """Yield, in one setting, the headline of each task and the accuracy of pairs; BLEU-4 of reconstructed puns."""
    setting = str(a["setting"].iloc[0])
    sides = {"a": a, "b": b}
    scores = {f"{name}_{side}": sides[side].get(name) for name in ("correct", "accepted", "answer") for side in sides}
    rows = a[["task", "sample_id", "cluster", "category"]].assign(lang=a["variant"].str.slice(0, 2), **scores)
    for task, (metric, score) in _MEANS.items():
        of_task = rows[rows["task"] == task]
        for lang in ("",) if task == "grounding" else LANGUAGES:
            part = of_task[of_task["lang"] == lang]
            make = partial(_over_kinds, task=task, setting=setting, subset=subset_name(task, lang) if lang else "")
            scored = part.dropna(subset=[f"{score}_a", f"{score}_b"])
            yield from make(scored, score, metric=metric)
            if task == "disambiguation":
                yield from make(_pairs(scored), score, metric="pair_accuracy")
            elif task == "reconstruction" and samples and not part.empty:
                yield from _bleu(part, samples, task=task, setting=setting, subset=subset_name(task, lang))


def _pairs(scored: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pun of which both translations are scored: correct if both are."""
    puns = scored.groupby("sample_id")
    pairs = puns.agg({"cluster": "first", "category": "first", "correct_a": "min", "correct_b": "min"})
    return pairs[puns.size() == 2]


def _over_kinds(rows: pd.DataFrame, score: str, **fields: Any) -> Iterator[PairedMetric]:
    """Yield the mean of a score over the rows of each kind, and the mean of both; only the kind that there is."""
    kind = rows["category"].to_numpy()
    kinds = kinds_in(kind)
    if not kinds:
        return
    sides = [rows[f"{score}_{side}"].to_numpy(dtype=np.float64) for side in "ab"]
    a, b = (tuple(c for name in kinds for c in (side * (kind == name), kind == name)) for side in sides)
    yield _metric(rows, kinds, a=a, b=b, statistic=mean_of_ratios, **fields)


def _bleu(rows: pd.DataFrame, samples: Mapping[str, Sample], **fields: Any) -> Iterator[PairedMetric]:
    kind, names = rows["category"].to_numpy(), list(rows["sample_id"])
    kinds = kinds_in(kind)
    counts = (sentence_counts(list(rows[f"answer_{side}"]), names, samples) for side in "ab")
    a, b = (columns_by_kind(side, kind, kinds) for side in counts)
    yield _metric(rows, kinds, metric="bleu4", a=a, b=b, statistic=mean_bleu, corpus=True, **fields)


def _metric(rows: pd.DataFrame, kinds: Sequence[str], **fields: Any) -> PairedMetric:
    category = ALL if len(kinds) == len(KINDS) else kinds[0]
    return PairedMetric(clusters=rows["cluster"].to_numpy(), category=category, **fields)

"""Corpus BLEU-4 of reconstructed puns against the original sentences: pooled, of each kind, and the mean of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.aggregation import Column, MetricSpec, with_intervals
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.unpie.aggregate import KINDS, BoolArray, MetricScope, kinds_in, mean_of_kinds
from pipelines.metrics.bleu import COLUMNS, bleu_counts, bleu_of_counts, bleu_of_sums
from pipelines.metrics.stats import FloatArray


def sentence_counts(answers: Sequence[Any], names: Sequence[str], samples: Mapping[str, Sample]) -> FloatArray:
    """Count the n-grams of N answers against the sentences of their samples, (N, `COLUMNS`); None is empty."""
    texts = ["" if not isinstance(text, str) else text for text in answers]
    return bleu_counts(texts, [[str(samples[name].data["sentence"])] for name in names]).astype(np.float64)


def columns_by_kind(counts: FloatArray, kind: NDArray[Any], kinds: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns that `mean_bleu` takes: the counts, (N, `COLUMNS`), of one kind after the other."""
    return tuple(column * (kind == name) for name in kinds for column in counts.T)


def mean_bleu(*sums: FloatArray) -> FloatArray:
    """Return the mean of the BLEU-4 of several kinds from the sums of `columns_by_kind`."""
    values = [bleu_of_sums(*sums[start : start + COLUMNS]) for start in range(0, len(sums), COLUMNS)]
    return sum(values[1:], start=values[0]) / len(values)


def bleu_metrics(
    scope: MetricScope, kind: NDArray[Any], counts: FloatArray, rows: Mapping[str, NDArray[Any]], notes: tuple[str, str]
) -> Iterator[Metric]:
    """Yield BLEU-4 over all answered rows, over each kind, and the mean of both kinds.

    Args:
        scope: task, setting and subset.
        kind: of all N rows.
        counts: of the answered rows, as of `sentence_counts`.
        rows: `answered` and `failed`, booleans, and `cluster`, (N,) each.
        notes: of a value, and of a missing one.
    """
    answered: BoolArray = rows["answered"]
    kinds = kinds_in(kind)
    specs = [_spec(scope, category, counts, kind, (rows, notes)) for category in ("", *kinds)]
    if len(kinds) == len(KINDS):
        mean = mean_of_kinds([spec.metric for spec in specs[1:]])
        columns = columns_by_kind(counts, kind[answered], kinds) if mean.value is not None else ()
        specs.append(MetricSpec(mean, columns, mean_bleu))
    yield from with_intervals(specs, rows["cluster"][answered])


def _spec(
    scope: MetricScope,
    category: str,
    counts: FloatArray,
    kind: NDArray[Any],
    facts: tuple[Mapping[str, NDArray[Any]], tuple[str, str]],
) -> MetricSpec:
    rows, (note, empty_note) = facts
    in_category = kind == category if category else np.ones(len(kind), dtype=np.bool_)
    chosen = in_category[rows["answered"]]
    n = int(chosen.sum())
    columns = tuple((counts * chosen[:, None]).T) if n else ()
    metric = scope.metric(
        "bleu4",
        bleu_of_counts((counts * chosen[:, None]).sum(axis=0).astype(np.int64)) if n else None,
        n,
        n_failed=int((in_category & rows["failed"]).sum()),
        category=category,
        note=note if n else empty_note,
    )
    return MetricSpec(metric, columns, bleu_of_sums)

"""MAIA's open answers compared with people's eight: the metrics of Table 4 by our variants and by the authors'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from pipelines.benchmarks.maia.facts import COLUMNS
from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure, MetricDef
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows, answers_bleu_counts
from pipelines.benchmarks.records import Sample
from pipelines.metrics.bleu import (
    bleu_of_counts,
    bleu_of_sums,
    plain_bleu_of_counts,
    plain_bleu_of_sums,
)
from pipelines.metrics.cider import cider
from pipelines.metrics.text import tokens_ptb, words

BY_CATEGORY: Final = Grouping(names=COLUMNS)
WITH_MACRO: Final = Grouping(names=COLUMNS, mean_suffix="_macro")
_NO_WORDNET: Final = "no WordNet in /usr/share/wordnet: install Debian's wordnet-base and score again"
_MEASURED_BY_CATEGORY: Final = ("rouge", "bertscore", "meteor")
_BLEUS: Final = tuple(
    MetricDef(
        name=f"bleu_{order}" if order < 4 else "bleu",
        value="bleu_counts",
        statistic=partial(bleu_of_sums, order=order),
        of_totals=partial(bleu_of_counts, order=order),
        form="single" if order < 4 else "both",
    )
    for order in (4, 1, 2, 3)
)
_BLEU_SHORTEST: Final = MetricDef(
    name="bleu_shortest",
    value="bleu_shortest_counts",
    statistic=plain_bleu_of_sums,
    of_totals=plain_bleu_of_counts,
)
_CIDER: Final = MetricDef(
    name="cider",
    value="cider",
    missing="one question alone has no document frequencies",
    unit="score",
    form="both",
)
_CIDER_PTB: Final = replace(_CIDER, name="cider_ptb", value="cider_ptb", form="single")


def _unscored(rows: ScoredRows) -> str:
    return f"answers without a score: {len(rows):,}"


def similarity_measures(measured: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the measures of the answers, by category where an answer has a value of its own."""
    for name in ("rouge", "bertscore", "meteor", "rouge1", "meteor_wordnet"):
        lacks_all = bool(np.isnan(measured.floats(name)[measured.ok]).all())
        missing = _NO_WORDNET if name == "meteor_wordnet" else "no scorer gave it"
        definition = MetricDef(name=name, value=name, missing=missing if lacks_all else _unscored)
        if name in _MEASURED_BY_CATEGORY:
            yield from WITH_MACRO.measures(definition, measured)
        else:
            yield Measure(definition=definition, parts=(measured,))
    if samples:
        compared = _compared(measured, samples)
        for definition in _BLEUS:
            yield from BY_CATEGORY.measures(definition, compared)
        yield from WITH_MACRO.measures(_CIDER, compared)
        for definition in (_BLEU_SHORTEST, _CIDER_PTB):
            yield Measure(definition=definition, parts=(compared,))


def _compared(rows: ScoredRows, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return the rows with the n-gram counts and the CIDEr-D of the answered ones, compared with people's answers."""
    answered = np.flatnonzero(rows.ok)
    texts = [answer or "" for answer in rows.texts("answer")[answered]]
    references = [list(samples[name].data["answers"]) for name in rows["sample_id"][answered]]
    columns: dict[str, np.ndarray] = {}
    for name, is_shortest in (("bleu_counts", False), ("bleu_shortest_counts", True)):
        columns[name] = answers_bleu_counts(rows, rows.ok, references, shortest=is_shortest)
    for name, tokenizer in (("cider", words), ("cider_ptb", tokens_ptb)):
        columns[name] = np.full(len(rows), np.nan)
        if len(answered) > 1:
            columns[name][answered] = cider(texts, references, tokenizer)
    return rows.with_columns(**columns)

"""Corpus BLEU as a function of sums over rows, so that rows can be resampled: counts by row, and BLEU of summed counts.

Equal to `metrics.text.corpus_bleu`: 13a tokens, exponential smoothing, brevity against the closest reference length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pipelines.metrics.stats import FloatArray
from pipelines.metrics.text import References, check_paired

ORDERS: Final = 4
COLUMNS: Final = 2 * ORDERS + 2  # matches and totals of n-grams 1 to 4, length, reference length


def bleu_counts(candidates: Sequence[str], references: References, *, lowercase: bool = False) -> FloatArray:
    """Count the n-grams of N texts, (N, `COLUMNS`); raise ValueError as `check_paired`."""
    from sacrebleu.metrics.bleu import BLEU

    check_paired(candidates, references)
    scorer: Any = BLEU(lowercase=lowercase, tokenize="13a", force=True)
    counts = np.empty((len(candidates), COLUMNS))
    for row, (candidate, group) in enumerate(zip(candidates, references, strict=True)):
        score = scorer.corpus_score([candidate], [[text] for text in group if text.strip()])
        counts[row] = [*score.counts, *score.totals, score.sys_len, score.ref_len]
    return counts


def bleu_of_sums(*sums: FloatArray, order: int = ORDERS) -> FloatArray:
    """Compute BLEU of n-grams up to `order` as a fraction, (draws,), from the sums of `COLUMNS` columns, (draws,) each.

    0 without a match or where a text is too short for an n-gram of that order; NaN where no row was drawn.
    """
    counts = np.stack(sums).astype(np.float64)
    matches, totals, length, reference = counts[:order], counts[ORDERS : ORDERS + order], counts[-2], counts[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        unmatched = (matches == 0) & (totals > 0)
        halvings = 2.0 ** np.cumsum(unmatched, axis=0)  # each order without a match has half of the one before
        precision = np.where(unmatched, 1 / (halvings * totals), matches / totals)
        mean = np.exp(np.log(np.where(totals > 0, precision, 0.0)).mean(axis=0))
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        value = np.where(matches.any(axis=0) & (length > 0), np.minimum(brevity * mean, 1.0), 0.0)
    return np.where(reference > 0, value, np.nan)

"""BLEU's counts of N candidates and N lists of references: corpus BLEU of any rows follows from their sums."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.ngrams import ORDERS, Chunk, IntArray, iter_orders, sums_by, tokenize
from pipelines.metrics.text import References, bleu_scorer, check_paired, fraction, tokens_13a

COLUMNS: Final = 2 * ORDERS + 2  # of `bleu_counts`


def bleu_of_sums(*sums: FloatArray, order: int = ORDERS) -> FloatArray:
    """Compute corpus BLEU up to `order` on every draw, (draws,), from drawn sums of `COLUMNS` columns, (draws,) each.

    Equal to `bleu_of_counts`: 0 without a match or where texts are too short for an n-gram; NaN where no row was drawn.
    """
    counts = np.stack(sums).astype(np.float64)
    matches, totals, length, reference = counts[:order], counts[ORDERS : ORDERS + order], counts[-2], counts[-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unmatched = (matches == 0) & (totals > 0)
        halvings = 2.0 ** np.cumsum(unmatched, axis=0)  # each order without a match has half of the one before
        precisions = np.where(unmatched, 1 / (halvings * totals), matches / totals)
        mean = np.exp(np.log(np.where(totals > 0, precisions, 0.0)).mean(axis=0))
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
    value = np.where(matches.any(axis=0) & (length > 0), np.minimum(brevity * mean, 1.0), 0.0)
    return np.where(reference > 0, value, np.nan)


def plain_bleu_of_sums(*sums: FloatArray) -> FloatArray:
    """Compute corpus BLEU-4 without smoothing from drawn sums, as `bleu_of_sums`: 0 where an order has no match."""
    counts = np.stack(sums).astype(np.float64)
    has_all = (counts[:ORDERS] > 0).all(axis=0)
    return np.where(has_all | np.isnan(counts[-1]), bleu_of_sums(*sums), np.where(counts[-1] > 0, 0.0, np.nan))


def plain_bleu_of_counts(counts: NDArray[Any]) -> float:
    """Return corpus BLEU-4 without smoothing from summed counts, (10,)."""
    return bleu_of_counts(counts) if (counts[:ORDERS] > 0).all() else 0.0


def bleu_counts(
    candidates: Sequence[str], references: References, *, lowercase: bool = False, shortest: bool = False
) -> IntArray:
    """Count 13a tokens as sacreBLEU does, (N, `COLUMNS`): matches and totals of n-grams 1 to 4, both lengths.

    The length of the references is that of the closest one, or of the `shortest`.
    """
    check_paired(candidates, references)
    texts, groups = candidates, references
    if lowercase:
        texts, groups = [text.lower() for text in texts], [[text.lower() for text in group] for group in groups]
    chunks, vocabulary = tokenize(texts, groups, tokens_13a)
    if not chunks:
        return np.zeros((0, COLUMNS), dtype=np.int64)
    counts = [np.zeros((chunk.items, COLUMNS), dtype=np.int64) for chunk in chunks]
    for index, order in enumerate(iter_orders(chunks, vocabulary)):
        for part, ngrams in zip(counts, order, strict=True):
            rows = len(ngrams.item)
            shared = ngrams.candidate_row < rows
            max_counts = np.zeros(rows, dtype=np.int64)  # in any reference
            np.maximum.at(max_counts, ngrams.candidate_row[shared], ngrams.count[shared])
            part[:, index] = sums_by(ngrams.item, np.minimum(max_counts, ngrams.candidate_count), len(part))
            part[:, ORDERS + index] = sums_by(ngrams.item, ngrams.candidate_count, len(part))
    for part, chunk in zip(counts, chunks, strict=True):
        part[:, -2], part[:, -1] = chunk.candidate_lengths, _reference_lengths(chunk, shortest=shortest)
    return np.concatenate(counts)


def bleu_of_counts(counts: NDArray[Any], order: int = ORDERS) -> float:
    """Return corpus BLEU up to `order` as a fraction from summed counts, (10,), with sacreBLEU's defaults."""
    matches, totals, lengths = np.split(counts.astype(np.int64), [ORDERS, 2 * ORDERS])
    score = bleu_scorer(order).compute_bleu(
        matches[:order].tolist(), totals[:order].tolist(), *lengths.tolist(), smooth_method="exp", max_ngram_order=order
    )
    return fraction(float(score.score))


def _reference_lengths(chunk: Chunk, *, shortest: bool) -> IntArray:
    """Return the length of each item's reference that is closest to the candidate's, the shorter one of two."""
    lengths = chunk.reference_lengths
    if shortest:
        starts = np.searchsorted(chunk.item_of, np.arange(chunk.items))
        least: IntArray = np.minimum.reduceat(lengths, starts)
        return least
    width = int(lengths.max()) + 1
    ranks = np.abs(lengths - chunk.candidate_lengths[chunk.item_of]) * width + lengths
    starts = np.searchsorted(chunk.item_of, np.arange(chunk.items))
    closest: IntArray = np.minimum.reduceat(ranks, starts) % width
    return closest

"""BLEU's counts of N candidates and N lists of references: corpus BLEU of any rows follows from their sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.metrics.ngrams import ORDERS, Chunk, IntArray, iter_orders, sums_by, tokenize
from pipelines.metrics.text import References, bleu_scorer, check_paired, fraction, tokens_13a


def corpus_bleu(candidates: Sequence[str], references: References, *, order: int = 4, lowercase: bool = False) -> float:
    """Compute corpus BLEU of n-grams up to `order` (1..4) on 13a tokens, with sacreBLEU's defaults (Post 2018).

    Equal weights, exponential smoothing, brevity against the closest reference length. Raises ValueError without texts.
    """
    check_paired(candidates, references)
    if not candidates:
        raise ValueError("corpus BLEU of no texts is undefined")
    groups = [[text for text in group if text.strip()] for group in references]
    return bleu_of_counts(bleu_counts(candidates, groups, lowercase=lowercase).sum(axis=0), order)


def bleu_counts(candidates: Sequence[str], references: References, *, lowercase: bool = False) -> IntArray:
    """Count 13a tokens as sacreBLEU does, (N, 10): matches and totals of n-grams 1 to 4, length, reference length."""
    check_paired(candidates, references)
    texts, groups = candidates, references
    if lowercase:
        texts, groups = [text.lower() for text in texts], [[text.lower() for text in group] for group in groups]
    chunks, vocabulary = tokenize(texts, groups, tokens_13a)
    if not chunks:
        return np.zeros((0, 2 * ORDERS + 2), dtype=np.int64)
    counts = [np.zeros((chunk.items, 2 * ORDERS + 2), dtype=np.int64) for chunk in chunks]
    for index, order in enumerate(iter_orders(chunks, vocabulary)):
        for part, ngrams in zip(counts, order, strict=True):
            rows = len(ngrams.item)
            shared = ngrams.place < rows
            most = np.zeros(rows, dtype=np.int64)  # in any reference
            np.maximum.at(most, ngrams.place[shared], ngrams.count[shared])
            part[:, index] = sums_by(ngrams.item, np.minimum(most, ngrams.candidate_count), len(part))
            part[:, ORDERS + index] = sums_by(ngrams.item, ngrams.candidate_count, len(part))
    for part, chunk in zip(counts, chunks, strict=True):
        part[:, -2], part[:, -1] = chunk.candidate_lengths, _closest_lengths(chunk)
    return np.concatenate(counts)


def bleu_of_counts(counts: IntArray, order: int = ORDERS) -> float:
    """Return corpus BLEU up to `order` as a fraction from summed counts, (10,), with sacreBLEU's defaults."""
    matches, totals, lengths = np.split(counts, [ORDERS, 2 * ORDERS])
    score = bleu_scorer(order).compute_bleu(
        matches[:order].tolist(), totals[:order].tolist(), *lengths.tolist(), smooth_method="exp", max_ngram_order=order
    )
    return fraction(float(score.score))


def _closest_lengths(chunk: Chunk) -> IntArray:
    """Return the length of each item's reference that is closest to the candidate's, the shorter one of two."""
    lengths = chunk.reference_lengths
    width = int(lengths.max()) + 1
    ranks = np.abs(lengths - chunk.candidate_lengths[chunk.item_of]) * width + lengths
    starts = np.searchsorted(chunk.item_of, np.arange(chunk.items))
    closest: IntArray = np.minimum.reduceat(ranks, starts) % width
    return closest

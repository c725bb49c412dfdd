"""CIDEr-D of N candidates and N lists of references (Vedantam, Zitnick and Parikh 2015)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from pipelines.metrics.text import References, check_paired, words

ORDERS: Final = 4
SIGMA: Final = 6.0
NGram: TypeAlias = tuple[str, ...]
Counts: TypeAlias = Mapping[NGram, int]
Vector: TypeAlias = tuple[list[dict[NGram, float]], list[float], int]
"""Weights by order, their norms, and the number of bigrams, which the reference code takes for the length."""


def cider(candidates: Sequence[str], references: References) -> list[float]:
    """Compute CIDEr-D (0..10) on words; equal to pycocoevalcap's to the last bit, in half of its time.

    Document frequencies come from the references of this call: pass all evaluated questions at once, and do not compare
    values of different question sets. A single question scores 0.
    """
    check_paired(candidates, references)
    if not candidates:
        return []
    counts = [[_ngrams(words(text)) for text in group] for group in references]
    frequencies = Counter(ngram for group in counts for ngram in {ngram for text in group for ngram in text})
    log_items = math.log(float(len(candidates)))
    weights = {frequency: log_items - math.log(max(1.0, frequency)) for frequency in {0, *frequencies.values()}}
    idf = {ngram: weights[frequency] for ngram, frequency in frequencies.items()}
    scores = []
    for candidate, group in zip(candidates, counts, strict=True):
        vector = _vector(_ngrams(words(candidate)), idf, weights[0])
        by_order = [0.0] * ORDERS
        for text in group:
            similarity = _similarity(vector, _vector(text, idf, weights[0]))
            by_order = [total + value for total, value in zip(by_order, similarity, strict=True)]
        scores.append(sum(by_order) / ORDERS / len(group) * 10.0)
    return scores


def _ngrams(tokens: Sequence[str]) -> Counts:
    counts: dict[NGram, int] = {}
    for order in range(1, ORDERS + 1):
        for start in range(len(tokens) - order + 1):
            ngram = tuple(tokens[start : start + order])
            counts[ngram] = counts.get(ngram, 0) + 1
    return counts


def _vector(counts: Counts, idf: Mapping[NGram, float], unseen: float) -> Vector:
    by_order: list[dict[NGram, float]] = [{} for _ in range(ORDERS)]
    squares, bigrams = [0.0] * ORDERS, 0
    for ngram, count in counts.items():
        index = len(ngram) - 1
        weight = count * idf.get(ngram, unseen)
        by_order[index][ngram] = weight
        squares[index] += weight**2
        if index == 1:
            bigrams += count
    return by_order, [math.sqrt(square) for square in squares], bigrams


def _similarity(candidate: Vector, reference: Vector) -> list[float]:
    """Return the clipped cosine of each order, with the penalty for another length."""
    penalty = math.e ** (-(float(candidate[2] - reference[2]) ** 2) / (2 * SIGMA**2))
    values = []
    for weights, norm, reference_weights, reference_norm in zip(*candidate[:2], *reference[:2], strict=True):
        value = 0.0
        for ngram, weight in weights.items():
            other = reference_weights.get(ngram)
            if other is not None:
                value += min(weight, other) * other
        if norm and reference_norm:
            value /= norm * reference_norm
        values.append(value * penalty)
    return values

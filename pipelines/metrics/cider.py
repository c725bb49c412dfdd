"""CIDEr-D of N candidates and N lists of references (Vedantam, Zitnick and Parikh 2015)."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.ngrams import (
    ORDERS,
    Chunk,
    IntArray,
    NGrams,
    document_frequencies,
    iter_orders,
    sums_by,
    tokenize,
)
from pipelines.metrics.text import References, check_paired, words

SIGMA: Final = 6.0


def cider(
    candidates: Sequence[str], references: References, tokenizer: Callable[[str], list[str]] = words
) -> list[float]:
    """Compute CIDEr-D (0..10) on words or other tokens; equal to pycocoevalcap's, in a tenth of its time.

    Document frequencies come from the references of this call: pass all evaluated questions at once, and do not compare
    values of different question sets. A single question scores 0.
    """
    check_paired(candidates, references)
    if not candidates:
        return []
    chunks, vocabulary = tokenize(candidates, references, tokenizer)
    totals = [np.zeros(chunk.items) for chunk in chunks]
    for order in iter_orders(chunks, vocabulary):
        ngrams = list(order)
        idf = _inverse_frequencies(document_frequencies(ngrams), len(candidates))
        for index, chunk in enumerate(chunks):
            similarities = _similarities(chunk, ngrams[index], idf[index]) * _length_penalties(chunk)
            # The references of an item are added in their order.
            totals[index] += sums_by(chunk.item_of, similarities, chunk.items)
    sizes = np.array([len(group) for group in references])
    scores: list[float] = (np.concatenate(totals) / ORDERS / sizes * 10.0).tolist()
    return scores


def _similarities(chunk: Chunk, ngrams: NGrams, idf: FloatArray) -> FloatArray:
    """Return the clipped cosine of each reference of a chunk and its candidate in one order."""
    n_texts = len(chunk.item_of)
    weights = ngrams.candidate_count * idf[ngrams.candidate_ngram]
    reference_weights = ngrams.count * idf[ngrams.ngram]
    norms = np.sqrt(sums_by(ngrams.item, _squares(weights), chunk.items))[chunk.item_of]
    reference_norms = np.sqrt(sums_by(ngrams.text, _squares(reference_weights), n_texts))
    # Products are added in the order of the candidate's n-grams.
    shared = np.flatnonzero(ngrams.candidate_row < len(weights))
    shared = shared[np.lexsort((ngrams.candidate_row[shared], ngrams.text[shared]))]
    other = reference_weights[shared]
    products = np.minimum(weights[ngrams.candidate_row[shared]], other) * other
    values = sums_by(ngrams.text[shared], products, n_texts)
    lengths = norms * reference_norms
    cosines: FloatArray = np.divide(values, lengths, out=values, where=(norms != 0) & (reference_norms != 0))
    return cosines


def _inverse_frequencies(frequencies: Sequence[IntArray], n_items: int) -> list[FloatArray]:
    """Return the weight of each n-gram; by Python's logarithm, as numpy's may differ in the last bit."""
    log_items = math.log(float(n_items))
    weights = np.array([log_items - math.log(max(1.0, frequency)) for frequency in range(n_items + 1)])
    return [weights[part] for part in frequencies]


def _squares(weights: FloatArray) -> FloatArray:
    """Square by Python's power, which may differ from a product in the last bit; weights have few different values."""
    distinct, inverse = np.unique(weights, return_inverse=True)
    return np.array([weight**2 for weight in distinct.tolist()])[inverse.reshape(-1)]


def _length_penalties(chunk: Chunk) -> NDArray[np.float64]:
    """Return the penalty of each reference for another number of bigrams, which the reference code calls the length."""
    bigrams, reference_bigrams = (np.maximum(n - 1, 0) for n in (chunk.candidate_lengths, chunk.reference_lengths))
    differences, inverse = np.unique(bigrams[chunk.item_of] - reference_bigrams, return_inverse=True)
    penalties = [math.e ** (-(float(difference) ** 2) / (2 * SIGMA**2)) for difference in differences.tolist()]
    return np.array(penalties)[inverse.reshape(-1)]

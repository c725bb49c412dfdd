"""BLEU and CIDEr-D over n-grams of N candidates and their references, counted as arrays in chunks of a cache's size."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.text import References, bleu_scorer, check_paired, fraction, tokens_13a, words

IntArray: TypeAlias = NDArray[np.int64]

ORDERS: Final = 4

_CHUNK_ITEMS: Final = 256
_MAX_KEY: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class NGrams:
    """The n-grams of one order in a chunk: C rows of candidates, R of references, one for each n-gram of a text.

    Rows are sorted by text, and within a text by first occurrence. Items and references count from the chunk's first.
    """

    keys: IntArray  # (K,), the distinct n-grams; equal in all chunks
    items_with: IntArray  # (K,), number of items in whose references the n-gram occurs
    item: IntArray  # (C,), of the candidate
    candidate_ngram: IntArray  # (C,), index in `keys`
    candidate_count: IntArray  # (C,)
    text: IntArray  # (R,), of the reference
    ngram: IntArray  # (R,), index in `keys`
    count: IntArray  # (R,)
    candidate_row: IntArray  # (R,), the row with the same n-gram in the item's candidate; C or more if it is not there


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some items as numbered tokens."""

    tokens: IntArray  # of all candidates, then of all references
    lengths: IntArray  # tokens of each text
    items: int  # number of candidates
    item_of: IntArray  # the item of each reference

    @property
    def candidate_lengths(self) -> IntArray:
        """Tokens of each candidate."""
        return self.lengths[: self.items]

    @property
    def reference_lengths(self) -> IntArray:
        """Tokens of each reference."""
        return self.lengths[self.items :]

    def count(self, keys: IntArray, order: int) -> NGrams:
        """Count n-grams by text; `keys` are those that begin at each token."""
        text = np.repeat(np.arange(len(self.lengths)), self.lengths)
        inside = text[: len(keys)] == text[order - 1 :]
        numbers, distinct = _number(keys[inside])
        width = max(1, len(distinct))
        rows, pairs = _number(text[: len(keys)][inside] * width + numbers)
        counts, ngram, text = np.bincount(rows, minlength=len(pairs)), pairs % width, pairs // width
        first = int(np.searchsorted(text, self.items))
        item = np.concatenate([text[:first], self.item_of[text[first:] - self.items]])
        # Candidates come first, so that each of their rows has its own number.
        rows_of, pairs = _number(item * width + ngram)
        in_references = np.zeros(len(pairs), dtype=np.bool_)
        in_references[rows_of[first:]] = True
        return NGrams(
            keys=distinct,
            items_with=np.bincount(pairs[in_references] % width, minlength=width)[: len(distinct)],
            item=item[:first],
            candidate_ngram=ngram[:first],
            candidate_count=counts[:first],
            text=text[first:] - self.items,
            ngram=ngram[first:],
            count=counts[first:],
            candidate_row=rows_of[first:],
        )


def tokenize(
    candidates: Sequence[str], references: Sequence[Sequence[str]], tokens_of: Callable[[str], list[str]]
) -> tuple[list[Chunk], int]:
    """Return chunks of N candidates and N lists of references, and the number of distinct tokens."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    chunks = []
    for start in range(0, len(candidates), _CHUNK_ITEMS):
        groups = references[start : start + _CHUNK_ITEMS]
        texts = [*candidates[start : start + _CHUNK_ITEMS], *(text for group in groups for text in group)]
        tokens = [list(map(numbers.__getitem__, tokens_of(text))) for text in texts]
        chunks.append(
            Chunk(
                tokens=np.concatenate([np.array(text, dtype=np.int64) for text in tokens]),
                lengths=np.array([len(text) for text in tokens], dtype=np.int64),
                items=len(groups),
                item_of=np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
            )
        )
    return chunks, len(numbers)


def iter_orders(chunks: Sequence[Chunk], vocabulary: int) -> Iterator[Iterator[NGrams]]:
    """Yield the n-grams of order 1 to `ORDERS`, chunk by chunk; `chunks` and `vocabulary` are as of `tokenize`."""
    keys, bound = [chunk.tokens for chunk in chunks], vocabulary
    for order in range(1, ORDERS + 1):
        if order > 1:  # an n-gram's key is that of its first tokens, and its last token
            if bound * vocabulary > _MAX_KEY:
                numbers, distinct = _number(np.concatenate(keys))
                keys, bound = np.split(numbers, np.cumsum([len(part) for part in keys])[:-1]), len(distinct)
            keys = [
                part[:-1] * vocabulary + chunk.tokens[order - 1 :] for part, chunk in zip(keys, chunks, strict=True)
            ]
            bound *= vocabulary
        yield (chunk.count(part, order) for part, chunk in zip(keys, chunks, strict=True))


def document_frequencies(chunks: Sequence[NGrams]) -> list[IntArray]:
    """Return for each chunk in how many items of all chunks each n-gram of `keys` occurs in a reference."""
    numbers, distinct = _number(np.concatenate([chunk.keys for chunk in chunks]))
    weights = np.concatenate([chunk.items_with for chunk in chunks])
    totals = sums_by(numbers, weights, len(distinct)).astype(np.int64)
    return np.split(totals[numbers], np.cumsum([len(chunk.keys) for chunk in chunks])[:-1])


def _number(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Number distinct keys by first occurrence: return the number of each key, and the keys by number."""
    import pandas as pd

    numbers, distinct = pd.factorize(keys)
    return numbers.astype(np.int64, copy=False), distinct


def sums_by(groups: IntArray, values: NDArray[Any], length: int) -> NDArray[np.float64]:
    """Add values by group, one after the other in their order: float sums are those of a plain loop."""
    return np.bincount(groups, weights=values, minlength=length).astype(np.float64, copy=False)


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

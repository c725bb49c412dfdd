"""N-grams of N candidates and their lists of references, counted as arrays, in chunks that fit a processor's cache."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

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

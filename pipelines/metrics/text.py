"""Overlap of texts: ROUGE-L and sentence BLEU of N candidates and N lists of references.

Scores are fractions 0..1; an empty candidate scores 0. Tokens are `words`, without punctuation and split at
apostrophes, as Italian needs (`l'uomo` is `l`, `uomo`), or those of 13a, sacreBLEU's default, where punctuation forms
tokens and an apostrophe does not separate.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

References: TypeAlias = Sequence[Sequence[str]]

_WORD: Final = re.compile(r"\w+")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_PTB_TOKEN: Final = re.compile(
    r"""
    [ldjnoy]['’](?=[^\W\d_])[^\W_]+(?:-[^\W_]+)*  # l'uomo stays one word
    | [^\W\d_]+(?=n['’]t(?!\w)) | n['’]t(?!\w) | ['’](?:s|m|d|re|ll|ve)(?!\w)
    | \d+(?:[.,:/-]\d+)* | (?:[^\W\d_]\.){2,}
    | [^\W_]+(?:[-’&][^\W_]+)* | \S
    """,
    re.VERBOSE,
)
_PTB_NAMES: Final = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", "€": "$"}
_PTB_DROPPED: Final = frozenset("'`.?!,:;-…\"“”«»‘’–—")
_PERCENT: Final = 100.0
_CACHED_TEXTS: Final = 1 << 12  # several metrics in turn compare an answer with the same references
_CACHED_CHUNKS: Final = 1 << 16  # pieces of text with their tokens: a benchmark's vocabulary fits


def words(text: str) -> list[str]:
    """Split a text into lower-case words without punctuation."""
    return [*_words(text)]


@lru_cache(_CACHED_TEXTS)
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(unicodedata.normalize("NFC", text.lower())))


def tokens_13a(text: str) -> list[str]:
    """Split a text into 13a tokens (Post 2018), by sacreBLEU; without its regular expressions for plain words.

    Its rules do not reach over blanks, except where a hyphen ends a line.
    """
    chunks = [text] if "\n" in text else text.split()
    return [token for chunk in chunks for token in ((chunk,) if chunk.isalnum() else _chunk_tokens(chunk))]


@lru_cache(_CACHED_CHUNKS)
def _chunk_tokens(chunk: str) -> tuple[str, ...]:
    return tuple(_tokenizer_13a()(chunk.rstrip()).split())


def tokens_ptb(text: str) -> list[str]:
    """Split a text as Stanford's PTBTokenizer does in lower case, without punctuation (as pycocoevalcap calls it).

    Of 2,889 Italian texts of MAIA all are split as by Stanford CoreNLP 3.4.1. Brackets stay, as `-lrb-`: pycocoevalcap
    drops punctuation after lower-casing it.
    """
    tokens = (_PTB_NAMES.get(token, token) for token in _PTB_TOKEN.findall(text.lower()))
    return [token for token in tokens if token not in _PTB_DROPPED]


def tokens_ascii(text: str) -> list[str]:
    """Split a text as rouge-score does: letters a to z and digits alone, so that accents separate."""
    return _ASCII_WORD.findall(text.lower())


@cache
def _tokenizer_13a() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()


def check_paired(candidates: Sequence[str], references: References) -> None:
    """Raise ValueError if the lengths differ or an item has no reference with any text."""
    if len(candidates) != len(references):
        raise ValueError(f"{len(candidates)} candidates but {len(references)} lists of references")
    for index, group in enumerate(references):
        if isinstance(group, str):
            raise ValueError(f"references of item {index} are one text; give a list of texts")  # noqa: TRY004 - callers catch one class
        if not any(text.strip() for text in group):
            raise ValueError(f"item {index} has no reference text")


def rouge_l(candidates: Sequence[str], references: References) -> list[float]:
    """Compute ROUGE-L F1 (beta 1) on `words`, the best over the references (Lin 2004).

    It equals rouge-score's with these tokens, words of any script; its own tokenizer keeps ASCII letters and digits.
    """
    check_paired(candidates, references)
    return [
        max(_rouge_l_f1(tokens, words(reference)) for reference in group)
        for tokens, group in zip(map(words, candidates), references, strict=True)
    ]


def rouge_1(candidates: Sequence[str], references: References) -> list[float]:
    """Compute ROUGE-1 F1 on `tokens_ascii` without stemmer, the best over the references; equal to rouge-score's."""
    check_paired(candidates, references)
    return [
        max(_overlap_f1(tokens, tokens_ascii(reference)) for reference in group)
        for tokens, group in zip(map(tokens_ascii, candidates), references, strict=True)
    ]


def _overlap_f1(candidate: Sequence[str], reference: Sequence[str]) -> float:
    common = (Counter(candidate) & Counter(reference)).total()
    return 2 * common / (len(candidate) + len(reference)) if common else 0.0


def _rouge_l_f1(candidate: Sequence[str], reference: Sequence[str]) -> float:
    common = lcs_length(candidate, reference)
    if not common:
        return 0.0
    precision, recall = common / len(candidate), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, a column of its table at a time as bits (Hyyro 2004).

    rouge-score fills the table cell by cell, and takes two seconds to import.
    """
    positions: dict[str, int] = {}
    for index, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << index
    column = full = (1 << len(first)) - 1
    for token in second:
        matches = column & positions.get(token, 0)
        column = (column + matches | column - matches) & full
    return len(first) - column.bit_count()


@cache
def bleu_scorer(order: int, *, lowercase: bool = False, effective_order: bool = False) -> Any:
    """Return sacreBLEU's scorer of n-grams up to `order`, 1 to 4."""
    if order not in range(1, 5):
        raise ValueError(f"BLEU order {order}: must be 1, 2, 3 or 4")
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(
        lowercase=lowercase,
        max_ngram_order=order,
        effective_order=effective_order,
        tokenize="13a",
        force=True,  # a spaced full stop at the end of an answer does not mean tokenized input
    )


def fraction(score: float) -> float:
    """Return a percentage as a fraction."""
    return min(score / _PERCENT, 1.0)  # exp(log(1)) may exceed one by a rounding error


def sentence_bleu(
    candidates: Sequence[str], references: References, *, order: int = 4, lowercase: bool = False
) -> list[float]:
    """Compute sentence BLEU on 13a tokens; n-grams longer than the candidate do not count (effective order)."""
    check_paired(candidates, references)
    scorer = bleu_scorer(order, lowercase=lowercase, effective_order=True)
    return [
        fraction(float(scorer.sentence_score(candidate, [text for text in group if text.strip()]).score))
        for candidate, group in zip(candidates, references, strict=True)
    ]


def bleu1(candidates: Sequence[str], references: References) -> list[float]:
    """Compute sentence BLEU-1 on lower-cased 13a tokens: clipped unigram precision times the brevity penalty."""
    return sentence_bleu(candidates, references, order=1, lowercase=True)

"""Overlap of texts: ROUGE-L, BLEU and CIDEr-D.

Every function takes N candidates and, for each, its list of references. Scores are fractions 0..1 but for
CIDEr-D (0..10), one a candidate and in the order given, so that callers average them by category.
Two ways to cut a text are in use, and each function says which is its own:

* words: Unicode NFC, lower case, runs of letters, digits and underscores. Accented letters stay, punctuation
  goes, and an apostrophe parts two words (`l'uomo` is `l`, `uomo`), as Italian wants.
* 13a: sacreBLEU's default (mteval-v13a). Punctuation is kept as tokens and the apostrophe does not part.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

References: TypeAlias = Sequence[Sequence[str]]

_WORD: Final = re.compile(r"\w+")
_PERCENT: Final = 100.0


def words(text: str) -> list[str]:
    """Cuts a text into lower-case words.

    Args:
        text: Any text; a decomposed accent counts as the composed letter.

    Returns:
        The words in order, without punctuation; none for a text that has no letter and no digit.
    """
    return _WORD.findall(unicodedata.normalize("NFC", text.lower()))


def check_paired(candidates: Sequence[str], references: References) -> None:
    """Refuses lists that cannot be scored against each other.

    Args:
        candidates: N texts.
        references: N lists of reference texts.

    Raises:
        ValueError: The lengths differ, or an item has no reference with anything in it.
    """
    if len(candidates) != len(references):
        raise ValueError(f"{len(candidates)} candidates but {len(references)} lists of references")
    for index, group in enumerate(references):
        if isinstance(group, str):
            raise ValueError(f"references of item {index} are one text; give a list of texts")  # noqa: TRY004 - callers catch one class
        if not any(text.strip() for text in group):
            raise ValueError(f"item {index} has no reference text")


class _WordTokenizer:
    """What rouge-score asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


def rouge_l(candidates: Sequence[str], references: References) -> list[float]:
    """ROUGE-L F1 (beta 1), the best over the references, on words.

    Longest common subsequence after Lin (2004), computed by rouge-score.

    Args:
        candidates: N texts.
        references: N lists of reference texts.

    Returns:
        N fractions; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other.
    """
    check_paired(candidates, references)
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], tokenizer=_WordTokenizer())
    return [
        max(float(scorer.score(reference, candidate)["rougeL"].fmeasure) for reference in group)
        for candidate, group in zip(candidates, references, strict=True)
    ]


def _bleu(order: int, *, lowercase: bool, effective_order: bool) -> Any:
    if order not in range(1, 5):
        raise ValueError(f"BLEU order {order}: 1, 2, 3 or 4 is defined")
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(
        lowercase=lowercase,
        max_ngram_order=order,
        effective_order=effective_order,
        tokenize="13a",
        force=True,  # answers that end in a spaced full stop are answers, no sign of tokenised input
    )


def _fraction(score: float) -> float:
    return min(score / _PERCENT, 1.0)  # exp(log(1)) may land a rounding error above one


def corpus_bleu(candidates: Sequence[str], references: References, *, order: int = 4, lowercase: bool = False) -> float:
    """Corpus BLEU up to n-grams of `order`, on 13a tokens, with sacreBLEU's defaults.

    Equal weights, exponential smoothing, brevity against the closest reference length (Post 2018). The items
    may differ in their number of references; an empty candidate adds length nought and no match.

    Args:
        candidates: N texts, N at least 1.
        references: N lists of reference texts.
        order: The longest n-gram, 1 to 4.
        lowercase: Whether case is folded first; sacreBLEU's default keeps it.

    Returns:
        One fraction for the whole corpus: a category's value needs a call on that category.

    Raises:
        ValueError: The lists do not fit each other or are empty, or the order is not defined.
    """
    check_paired(candidates, references)
    if not candidates:
        raise ValueError("corpus BLEU of no texts is undefined")
    scorer = _bleu(order, lowercase=lowercase, effective_order=False)
    groups = [[text for text in group if text.strip()] for group in references]
    streams = [
        [group[column] if column < len(group) else None for group in groups]
        for column in range(max(len(group) for group in groups))
    ]
    return _fraction(float(scorer.corpus_score(list(candidates), streams).score))


def sentence_bleu(
    candidates: Sequence[str], references: References, *, order: int = 4, lowercase: bool = False
) -> list[float]:
    """Sentence BLEU on 13a tokens, as sacreBLEU's sentence scorer has it by default.

    As `corpus_bleu` for one item at a time, but that orders longer than the candidate do not count
    (effective order), so that short answers are not put to zero or judged by their smoothing alone.

    Args:
        candidates: N texts.
        references: N lists of reference texts.
        order: The longest n-gram, 1 to 4.
        lowercase: Whether case is folded first.

    Returns:
        N fractions; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other, or the order is not defined.
    """
    check_paired(candidates, references)
    scorer = _bleu(order, lowercase=lowercase, effective_order=True)
    return [
        _fraction(float(scorer.sentence_score(candidate, [t for t in group if t.strip()]).score))
        for candidate, group in zip(candidates, references, strict=True)
    ]


def bleu1(candidates: Sequence[str], references: References) -> list[float]:
    """Sentence BLEU-1: clipped unigram precision times the brevity penalty.

    Lower-cased 13a tokens; with c candidate and r reference tokens the penalty is 1 for c >= r, else
    exp(1 - r/c).

    Args:
        candidates: N texts.
        references: N lists of reference texts.

    Returns:
        N fractions; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other.
    """
    return sentence_bleu(candidates, references, order=1, lowercase=True)


def bleu_signature(order: int = 4, *, lowercase: bool = False) -> str:
    """How `corpus_bleu` was computed, in sacreBLEU's own notation and with its version.

    Args:
        order: The longest n-gram, 1 to 4.
        lowercase: Whether case is folded first.

    Returns:
        Text such as `nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0|order:4`.

    Raises:
        ValueError: The order is not defined.
    """
    scorer = _bleu(order, lowercase=lowercase, effective_order=False)
    scorer.num_refs = -1  # sacreBLEU's mark for a number of references that differs between items
    return f"{scorer.get_signature().format()}|order:{order}"


def cider(candidates: Sequence[str], references: References) -> list[float]:
    """CIDEr-D, scaled by 10 (0..10), on words.

    TF-IDF cosine of 1- to 4-grams with clipping and the Gaussian length penalty (sigma 6), mean over the
    references (Vedantam, Zitnick and Parikh 2015), computed by pycocoevalcap's scorer. Document frequencies
    come from the references of the items in this very call: give all evaluated questions at once and average
    the categories afterwards, and do not compare values of question sets that differ. One question alone has
    no document frequencies and scores 0.

    Args:
        candidates: N texts.
        references: N lists of reference texts.

    Returns:
        N numbers; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other.
    """
    check_paired(candidates, references)
    if not candidates:
        return []
    # The scorer alone: the package's other modules start Java or draw in plotting libraries.
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    scorer = CiderScorer(n=4, sigma=6.0)
    for candidate, group in zip(candidates, references, strict=True):
        scorer += (" ".join(words(candidate)), [" ".join(words(text)) for text in group])
    _, scores = scorer.compute_score()
    return [float(score) for score in scores]

"""METEOR of Lavie and Agarwal (2007) for Italian and English, with the stemmers of nltk.

Unigrams are matched exactly, then by stem, then by synonym if there is a WordNet. With precision P and recall R of the
matches, F = PR / (0.9 P + 0.1 R), reduced by 0.5 (chunks / matches)^3. METEOR 1.5 has other weights and paraphrases.
"""

import functools
import itertools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final, Protocol

from pipelines.metrics.text import References, check_paired, tokens_13a, words

WORDNET_DIRECTORY: Final = Path("/usr/share/wordnet")
_LEXICOGRAPHER_FILES: Final = 45  # WordNet 3.0 has that many; synsets name them by number
_ALPHA: Final = 0.9  # weight of precision
_STEM_CACHE: Final = 1 << 16  # words: a benchmark's vocabulary fits


class Synonyms(Protocol):
    """A WordNet, as METEOR uses it."""

    def __hash__(self) -> int: ...

    def synsets(self, word: str, /) -> Iterable[Any]:
        """Return the synsets of a word, with `lemmas()`, each with a `name()`."""


def _scores(
    candidates: Sequence[str],
    references: References,
    *,
    tokenize: Callable[[str], list[str]],
    stem: Callable[[str], str],
    wordnet: Synonyms | None = None,
) -> list[float]:
    check_paired(candidates, references)
    return [
        max(_meteor(tokens, tokenize(reference), stem, wordnet) for reference in group)
        for tokens, group in zip(map(tokenize, candidates), references, strict=True)
    ]


def _meteor(
    candidate: Sequence[str], reference: Sequence[str], stem: Callable[[str], str], wordnet: Synonyms | None
) -> float:
    """Return the score of one pair, equal to nltk's to the last bit, in a fraction of its time."""
    pairs = _align(candidate, reference, stem, wordnet)
    if not pairs:
        return 0.0
    matches = [pairs.get(index) for index in range(min(pairs), max(pairs) + 1)]
    chunks = 1 + sum(left is not None and right != left + 1 for left, right in itertools.pairwise(matches))
    precision, recall = len(pairs) / len(candidate), len(pairs) / len(reference)
    mean = (precision * recall) / (_ALPHA * precision + (1 - _ALPHA) * recall)
    return float((1 - 0.5 * (chunks / len(pairs)) ** 3.0) * mean)


def _align(
    candidate: Sequence[str], reference: Sequence[str], stem: Callable[[str], str], wordnet: Synonyms | None
) -> dict[int, int]:
    """Return the index in the reference of each matched word of the candidate."""
    pairs: dict[int, int] = {}
    unmatched, targets = dict(enumerate(candidate)), dict(enumerate(reference))
    _match(unmatched, targets, pairs, None)
    if unmatched and targets:
        unmatched, targets = ({index: stem(word) for index, word in words.items()} for words in (unmatched, targets))
        _match(unmatched, targets, pairs, None)
    if wordnet is not None and unmatched and targets:
        _match(unmatched, targets, pairs, wordnet)
    return pairs


def _match(unmatched: dict[int, str], targets: dict[int, str], pairs: dict[int, int], wordnet: Synonyms | None) -> None:
    """Pair equal words, or synonyms, and remove them: each word, from the last on, with the last one that is free."""
    indices: dict[str, list[int]] = {}
    for index, word in targets.items():
        indices.setdefault(word, []).append(index)
    for index in [*reversed(unmatched)]:
        free = indices.get(unmatched[index])
        if wordnet is not None:
            lists = (indices[name] for name in _synonyms(wordnet, unmatched[index]) if indices.get(name))
            free = max(lists, key=operator.itemgetter(-1), default=None)
        if free:
            pairs[index] = free.pop()
            del unmatched[index], targets[pairs[index]]


@functools.lru_cache(_STEM_CACHE)
def _synonyms(wordnet: Synonyms, word: str) -> frozenset[str]:
    names = (lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas())
    return frozenset({word, *(name for name in names if "_" not in name)})


@functools.cache
def _italian() -> Callable[[str], str]:
    """Return one stemmer per process: it caches words, and callers score one answer at a time."""
    from nltk.stem.snowball import SnowballStemmer

    return functools.lru_cache(_STEM_CACHE)(SnowballStemmer("italian").stem)


@functools.cache
def _english() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    return functools.lru_cache(_STEM_CACHE)(PorterStemmer().stem)


def meteor_italian(candidates: Sequence[str], references: References) -> list[float]:
    """Compute METEOR for Italian on `text.words`, with exact and Snowball-stem matches; best over the references."""
    return _scores(candidates, references, tokenize=words, stem=_italian())


def meteor_by_words(candidates: Sequence[str], references: References) -> list[float]:
    """Compute METEOR on `text.words` with exact matches alone, for any language; best over the references."""
    return _scores(candidates, references, tokenize=words, stem=str)


def meteor_english(
    candidates: Sequence[str], references: References, *, wordnet: Synonyms | None = None
) -> list[float]:
    """Compute METEOR for English on lower-cased 13a tokens by word, Porter stem and (with `wordnet`) synonym."""
    return _scores(
        candidates, references, tokenize=lambda text: tokens_13a(text.lower()), stem=_english(), wordnet=wordnet
    )


def meteor_nltk(candidates: Sequence[str], references: References, *, wordnet: Synonyms) -> list[float]:
    """Compute nltk's METEOR as Hugging Face's `evaluate` does for one sentence: Treebank words in lower case."""
    return _scores(candidates, references, tokenize=_treebank_words, stem=_english(), wordnet=wordnet)


def _treebank_words(text: str) -> list[str]:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return [word.lower() for word in NLTKWordTokenizer().tokenize(text)]


def english_name(wordnet: Synonyms | None) -> str:
    """Return `meteor` with synonyms and `meteor_nowordnet` without, which are not comparable."""
    return "meteor_nowordnet" if wordnet is None else "meteor"


@functools.cache
def find_wordnet(directory: Path = WORDNET_DIRECTORY) -> Synonyms | None:
    """Open the WordNet 3.0 of Debian's `wordnet-base` (some seconds); return None if nltk cannot read one there.

    The package lacks nltk's list of lexicographer files and its index of sense keys; METEOR needs neither. nltk reads
    only its data directories, so the directory is added to them.
    """
    if not (directory / "data.noun").is_file():
        return None
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader, WordNetError

    class DebianWordNet(WordNetCorpusReader):  # type: ignore[misc]  # nltk is untyped
        def open(self, file: str) -> Any:
            if file == "lexnames":
                return StringIO("".join(f"{number} - 0\n" for number in range(_LEXICOGRAPHER_FILES)))
            # The reader never closes its files, so they are read into memory: 25 MB of ASCII, in which byte offsets
            # are character offsets.
            with super().open(file) as stream:
                return StringIO(stream.read())

        def map_wn(self, version: str = "wordnet") -> None:
            """Skip mapping to other versions, which needs the sense keys."""

    if str(directory) not in nltk.data.path:
        nltk.data.path.append(str(directory))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The multilingual functions are not available")
        try:
            return DebianWordNet(str(directory), None)
        except (OSError, LookupError, ValueError, AssertionError, WordNetError):
            return None

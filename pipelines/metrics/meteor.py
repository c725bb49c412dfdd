"""METEOR in the form of Lavie and Agarwal (2007), computed by nltk, for Italian and English.

Unigrams are matched exactly, then by stem, then by synonym where a WordNet is given. With precision P and
recall R of the matches, F = PR / (0.9 P + 0.1 R), lowered by 0.5 (chunks / matches)^3. This is the older form
and not METEOR 1.5, whose weights and paraphrase tables differ.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol

from pipelines.metrics.text import References, check_paired, words

WORDNET_DIRECTORY: Final = Path("/usr/share/wordnet")
_LEXICOGRAPHER_FILES: Final = 45  # WordNet 3.0 has that many; synsets name them by number
_STEM_CACHE: Final = 1 << 16  # words; a benchmark's vocabulary fits


class Synonyms(Protocol):
    """What METEOR asks of a WordNet."""

    def synsets(self, word: str, /) -> Iterable[Any]:
        """The synsets of a word; each has `lemmas()`, and each lemma `name()`."""
        ...


class _NoSynonyms:
    """A WordNet that knows no word."""

    def synsets(self, _word: str, /) -> Iterable[Any]:
        return ()


def _scores(
    candidates: Sequence[str],
    references: References,
    *,
    cut: Callable[[str], list[str]],
    stemmer: Any,
    wordnet: Synonyms,
) -> list[float]:
    check_paired(candidates, references)
    from nltk.translate.meteor_score import meteor_score

    return [
        float(meteor_score([cut(text) for text in group], cut(candidate), stemmer=stemmer, wordnet=wordnet))
        for candidate, group in zip(candidates, references, strict=True)
    ]


@functools.cache
def _italian() -> Any:
    """One stemmer a process: it remembers its words, and callers ask about one answer at a time."""
    from nltk.stem.snowball import SnowballStemmer

    return _remembering(SnowballStemmer("italian"))


@functools.cache
def _english() -> Any:
    from nltk.stem.porter import PorterStemmer

    return _remembering(PorterStemmer())


def _remembering(stemmer: Any) -> Any:
    return SimpleNamespace(stem=functools.lru_cache(_STEM_CACHE)(stemmer.stem))


def meteor_italian(candidates: Sequence[str], references: References) -> list[float]:
    """METEOR for Italian: exact and Snowball-stem matches, no synonyms, the best over the references.

    Tokens are the lower-case words of `text.words`: the apostrophe parts two words, punctuation goes.

    Args:
        candidates: N texts.
        references: N lists of reference texts.

    Returns:
        N fractions; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other.
    """
    return _scores(candidates, references, cut=words, stemmer=_italian(), wordnet=_NoSynonyms())


def meteor_english(
    candidates: Sequence[str], references: References, *, wordnet: Synonyms | None = None
) -> list[float]:
    """METEOR for English: exact, Porter-stem and, given a WordNet, synonym matches.

    Tokens are sacreBLEU's 13a of the lower-cased text, so that punctuation counts; the best over the
    references.

    Args:
        candidates: N texts.
        references: N lists of reference texts.
        wordnet: Where synonyms come from, such as what `find_wordnet` returns; without one there are none,
            and the number goes by the name that `english_name` gives.

    Returns:
        N fractions; 0 for an empty candidate.

    Raises:
        ValueError: The lists do not fit each other.
    """
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    cut_13a = Tokenizer13a()
    return _scores(
        candidates,
        references,
        cut=lambda text: str(cut_13a(text.lower())).split(),
        stemmer=_english(),
        wordnet=wordnet or _NoSynonyms(),
    )


def english_name(wordnet: Synonyms | None) -> str:
    """The metric's name: `meteor` with synonyms, `meteor_nowordnet` without, since the two do not compare."""
    return "meteor_nowordnet" if wordnet is None else "meteor"


def find_wordnet(directory: Path = WORDNET_DIRECTORY) -> Synonyms | None:
    """Opens the WordNet 3.0 database of Debian's `wordnet-base`.

    The package lacks nltk's list of lexicographer files and its index of sense keys; METEOR needs neither.
    The directory is added to nltk's list of data directories, without which nltk refuses to read there.

    Args:
        directory: Where `data.noun`, `index.noun`, `noun.exc` and their like lie.

    Returns:
        The WordNet, or None where there is none that nltk can read. Loading takes a few seconds: keep it.
    """
    if not (directory / "data.noun").is_file():
        return None
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader, WordNetError

    class DebianWordNet(WordNetCorpusReader):  # type: ignore[misc]  # nltk is untyped
        def open(self, file: str) -> Any:
            if file == "lexnames":
                return StringIO("".join(f"{number} - 0\n" for number in range(_LEXICOGRAPHER_FILES)))
            # The reader keeps its files open for good; whole in memory (25 MB, plain ASCII, so that its byte
            # offsets hold for characters) there is nothing to close.
            with super().open(file) as stream:
                return StringIO(stream.read())

        def map_wn(self, version: str = "wordnet") -> None:
            """Maps no other version: that would need the sense keys."""

    if str(directory) not in nltk.data.path:
        nltk.data.path.append(str(directory))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The multilingual functions are not available")
        try:
            return DebianWordNet(str(directory), None)
        except (OSError, LookupError, ValueError, AssertionError, WordNetError):
            return None

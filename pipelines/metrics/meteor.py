"""METEOR of Lavie and Agarwal (2007) for Italian and English, by nltk.

Unigrams are matched exactly, then by stem, then by synonym if there is a WordNet. With precision P and recall R of the
matches, F = PR / (0.9 P + 0.1 R), reduced by 0.5 (chunks / matches)^3. METEOR 1.5 has other weights and paraphrases.
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
_STEM_CACHE: Final = 1 << 16  # words: a benchmark's vocabulary fits


class Synonyms(Protocol):
    """A WordNet, as METEOR uses it."""

    def synsets(self, word: str, /) -> Iterable[Any]:
        """Return the synsets of a word, with `lemmas()`, each with a `name()`."""
        ...


class _NoSynonyms:
    def synsets(self, _word: str, /) -> Iterable[Any]:
        return ()


def _scores(
    candidates: Sequence[str],
    references: References,
    *,
    tokenize: Callable[[str], list[str]],
    stemmer: Any,
    wordnet: Synonyms,
) -> list[float]:
    check_paired(candidates, references)
    from nltk.translate.meteor_score import meteor_score

    return [
        float(meteor_score([tokenize(text) for text in group], tokenize(candidate), stemmer=stemmer, wordnet=wordnet))
        for candidate, group in zip(candidates, references, strict=True)
    ]


@functools.cache
def _italian() -> Any:
    """Return one stemmer per process: it caches words, and callers score one answer at a time."""
    from nltk.stem.snowball import SnowballStemmer

    return _cached(SnowballStemmer("italian"))


@functools.cache
def _english() -> Any:
    from nltk.stem.porter import PorterStemmer

    return _cached(PorterStemmer())


def _cached(stemmer: Any) -> Any:
    return SimpleNamespace(stem=functools.lru_cache(_STEM_CACHE)(stemmer.stem))


def meteor_italian(candidates: Sequence[str], references: References) -> list[float]:
    """Compute METEOR for Italian on `text.words`, with exact and Snowball-stem matches; best over the references."""
    return _scores(candidates, references, tokenize=words, stemmer=_italian(), wordnet=_NoSynonyms())


def meteor_english(
    candidates: Sequence[str], references: References, *, wordnet: Synonyms | None = None
) -> list[float]:
    """Compute METEOR for English on lower-cased 13a tokens by word, Porter stem and (with `wordnet`) synonym."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer = Tokenizer13a()
    return _scores(
        candidates,
        references,
        tokenize=lambda text: str(tokenizer(text.lower())).split(),
        stemmer=_english(),
        wordnet=wordnet or _NoSynonyms(),
    )


def english_name(wordnet: Synonyms | None) -> str:
    """Return `meteor` with synonyms and `meteor_nowordnet` without, which are not comparable."""
    return "meteor_nowordnet" if wordnet is None else "meteor"


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

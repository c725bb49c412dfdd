from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.meteor_score import meteor_score

from pipelines.metrics import meteor

DATA = {
    # offset, lexicographer file, part of speech, lemmas; the offset is the line's place in the file.
    "noun": "00000000 06 n 02 car 0 auto 0 000 | a motor vehicle\n",
    "verb": "00000000 30 v 01 run 0 000 01 + 02 00 | go fast\n",
    "adj": "00000000 00 a 01 big 0 000 | of size\n",
    "adv": "00000000 02 r 01 fast 0 000 | with speed\n",
}
INDEX = {
    "noun": "car n 1 0 1 0 00000000\nauto n 1 0 1 0 00000000\n", "verb": "run v 1 0 1 0 00000000\n",
    "adj": "big a 1 0 1 0 00000000\n", "adv": "fast r 1 0 1 0 00000000\n",
}  # fmt: skip


WORDS = ("car", "auto", "cars", "run", "running", "the", "a")


class OneSynset:
    """A WordNet in which car and auto are synonyms."""

    def synsets(self, word: str, /) -> list[Any]:
        lemmas = [SimpleNamespace(name=lambda lemma=lemma: lemma) for lemma in ("car", "auto")]
        return [SimpleNamespace(lemmas=lambda: lemmas)] if word in {"car", "auto"} else []


@pytest.fixture
def wordnet_directory(tmp_path: Path) -> Iterator[Path]:
    """Write a database with the files of Debian's package only."""
    for part, line in DATA.items():
        (tmp_path / f"data.{part}").write_text(line)
        (tmp_path / f"index.{part}").write_text(INDEX[part])
        (tmp_path / f"{part}.exc").write_text("autos auto\n" if part == "noun" else "")
    before = list(nltk.data.path)
    yield tmp_path
    nltk.data.path[:] = before


@given(
    candidate=st.lists(st.sampled_from(WORDS), max_size=9),
    references=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=3),
    wordnet=st.sampled_from([None, OneSynset()]),
)
def test_meteor_equals_nltk(candidate: list[str], references: list[list[str]], wordnet: meteor.Synonyms | None) -> None:
    expected = meteor_score(references, candidate, wordnet=wordnet or SimpleNamespace(synsets=lambda _word: ()))
    texts = [" ".join(reference) for reference in references]
    assert meteor.meteor_english([" ".join(candidate)], [texts], wordnet=wordnet) == [expected]


def test_english_meteor_matches_stems_case_and_with_a_wordnet_synonyms() -> None:
    # Two matches in one chunk: 1 - 0.5 (1/2)^3.
    assert meteor.meteor_english(["Dogs running"], [["dog runs"]]) == [pytest.approx(0.9375)]
    candidates, references = ["the car stops"], [["the auto stops"]]
    assert meteor.meteor_english(candidates, references)[0] < 0.7
    with_synonyms = meteor.meteor_english(candidates, references, wordnet=OneSynset())
    assert with_synonyms == [pytest.approx(1 - 0.5 / 27)]
    assert meteor.english_name(OneSynset()) == "meteor"
    assert meteor.english_name(None) == "meteor_nowordnet"


def test_italian_meteor_matches_stems_takes_the_best_reference_and_penalizes_order() -> None:
    # Every word matches by stem: 3 in one chunk, 4 in one chunk.
    scores = meteor.meteor_italian(["i gatti dormono", "L'uomo è perché"], [["i gatto dormono"], ["l’uomo, È perché!"]])
    assert scores == pytest.approx([1 - 0.5 / 27, 1 - 0.5 / 64])
    expected = meteor.meteor_italian(["il cane corre"], [["il cane corre"]])
    assert meteor.meteor_italian(["il cane corre"], [["una nave", "il cane corre"]]) == expected
    straight, turned = meteor.meteor_italian(["il cane corre", "corre cane il"], [["il cane corre"]] * 2)
    assert turned < straight
    with pytest.raises(ValueError, match="1 candidates"):
        meteor.meteor_italian(["a"], [])


@pytest.mark.parametrize("candidate", ["", " ", "...", "altro"])
def test_italian_meteor_without_a_match_is_zero(candidate: str) -> None:
    assert meteor.meteor_italian([candidate], [["il cane corre"]]) == [0.0]


def test_find_wordnet_reads_the_debian_files_unless_they_are_damaged(wordnet_directory: Path) -> None:
    wordnet = meteor.find_wordnet(wordnet_directory)
    assert wordnet is not None
    scores = meteor.meteor_english(["the autos stop"], [["the car stop"]], wordnet=wordnet)
    assert scores == [pytest.approx(1 - 0.5 / 27)]
    meteor.find_wordnet.cache_clear()
    (wordnet_directory / "index.noun").write_text("car n nonsense\n")
    assert meteor.find_wordnet(wordnet_directory) is None


def test_find_wordnet_returns_none_without_files(tmp_path: Path) -> None:
    assert meteor.find_wordnet(tmp_path) is None


@pytest.mark.parametrize("missing", ["index.verb", "adj.exc", "data.adj"])
def test_find_wordnet_returns_none_if_a_file_is_missing(wordnet_directory: Path, missing: str) -> None:
    (wordnet_directory / missing).unlink()
    assert meteor.find_wordnet(wordnet_directory) is None

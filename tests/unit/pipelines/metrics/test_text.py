from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.cider.cider_scorer import CiderScorer
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from pipelines.metrics import meteor, ngrams, text
from pipelines.metrics.ngrams import cider
from tests.unit.pipelines.metrics.metric_cases import corpus_bleu, golden, row_name

TEXTS = st.text(alphabet="abcàè' .,", max_size=20)
REFERENCES = st.lists(st.text(alphabet="abcàè", min_size=1, max_size=8), min_size=1, max_size=3)


@given(first=TEXTS, second=TEXTS)
def test_rouge_l_equals_rouge_score(first: str, second: str) -> None:
    class Tokenizer:
        def tokenize(self, sentence: str) -> list[str]:
            return text.words(sentence)

    expected = RougeScorer(["rougeL"], tokenizer=Tokenizer()).score(f"a {first}", second)["rougeL"].fmeasure
    assert text.rouge_l([second], [[f"a {first}"]]) == [expected]


@given(st.lists(st.tuples(TEXTS, REFERENCES), min_size=1, max_size=8))
def test_cider_equals_pycocoevalcap(items: list[tuple[str, list[str]]]) -> None:
    expected = CiderScorer(n=4, sigma=6.0)
    for candidate, group in items:
        expected += (" ".join(text.words(candidate)), [" ".join(text.words(reference)) for reference in group])
    scores = cider([candidate for candidate, _ in items], [group for _, group in items])
    assert scores == list(expected.compute_score()[1])


@given(st.lists(st.tuples(TEXTS, REFERENCES), min_size=1, max_size=8), st.integers(1, 3), st.sampled_from([1, 1 << 62]))
def test_chunks_and_keys_change_no_score(items: list[tuple[str, list[str]]], chunk_items: int, max_key: int) -> None:
    candidates, references = [candidate for candidate, _ in items], [group for _, group in items]
    expected = cider(candidates, references), corpus_bleu(candidates, references)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "_CHUNK_ITEMS", chunk_items)
        patch.setattr(ngrams, "_MAX_KEY", max_key)
        assert (cider(candidates, references), corpus_bleu(candidates, references)) == expected


@given(
    st.text(alphabet="ab12.,-'&;<>!é \n\t\u00a0", max_size=20),
    st.sampled_from(["", "&quot;", "<skipped>", "-\n", "&amp;lt;"]),
)
def test_13a_tokens_equal_sacrebleus(line: str, special: str) -> None:
    for sentence in (line, f"{line}{special}{line}"):
        assert text.tokens_13a(sentence) == Tokenizer13a()(sentence.rstrip()).split()


@given(st.lists(st.tuples(TEXTS, REFERENCES), min_size=1, max_size=8), st.integers(1, 4), st.booleans())
def test_corpus_bleu_equals_sacrebleus(items: list[tuple[str, list[str]]], order: int, lowercase: bool) -> None:
    candidates, references = [candidate for candidate, _ in items], [group for _, group in items]
    streams = [[group[i] if i < len(group) else None for group in references] for i in range(3)]
    expected = BLEU(max_ngram_order=order, lowercase=lowercase, force=True).corpus_score(candidates, streams).score
    assert corpus_bleu(candidates, references, order=order, lowercase=lowercase) == min(expected / 100, 1.0)


@pytest.mark.parametrize("row", golden("bleu1"), ids=row_name)
def test_bleu1_matches_golden_rows(row: dict[str, Any]) -> None:
    assert text.bleu1([row["candidate"]], [row["references"]]) == [pytest.approx(row["expected"], abs=5e-5)]


@pytest.mark.parametrize("row", golden("bleu4_meteor"), ids=row_name)
def test_bleu4_of_single_sentences_matches_golden_rows(row: dict[str, Any]) -> None:
    candidates, references = [row["candidate"]], [[row["reference"]]]
    assert corpus_bleu(candidates, references) == pytest.approx(row["bleu4"], abs=5e-5)
    assert text.sentence_bleu(candidates, references) == [pytest.approx(row["bleu4"], abs=5e-5)]


def test_words_keep_accents_and_split_at_the_apostrophe() -> None:
    assert text.words("L'uomo, PERCHÉ? l’8 citta\u0300") == ["l", "uomo", "perché", "l", "8", "città"]


def test_corpus_bleu_pools_counts_over_sentences_of_any_number_of_references() -> None:
    candidates = ["the cat sat down", "a dog ran"]
    uneven = corpus_bleu(candidates, [["the cat sat down", "nothing alike"], ["a dog ran"]], order=3)
    assert uneven == 1.0
    candidates, references = ["a b", "c x x x"], [["a b"], ["c d d d"]]
    # 3 of 6 unigrams; the mean of the sentences would be (1 + 1/4) / 2.
    assert corpus_bleu(candidates, references, order=1) == pytest.approx(0.5)
    assert text.sentence_bleu(["no way"], [["no way"]]) == [pytest.approx(1.0)]
    assert corpus_bleu(["no way"], [["no way"]]) < 1.0


@pytest.mark.parametrize(("lowercase", "expected"), [(True, 1.0), (False, 0.5)])
def test_corpus_bleu_depends_on_case(lowercase: bool, expected: float) -> None:
    score = corpus_bleu(["The end"], [["the end"]], order=1, lowercase=lowercase)
    assert score == pytest.approx(expected)


@pytest.mark.parametrize("order", [0, 5])
def test_invalid_bleu_order_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match="order"):
        corpus_bleu(["a"], [["a"]], order=order)


def test_cider_by_hand() -> None:
    # Four questions of one word each: idf is log 4 throughout, all vectors have one entry in order 1 alone,
    # so that the mean over the four orders is a quarter, times 10.
    references = [["uno"], ["due"], ["tre"], ["quattro"]]
    assert cider(["uno", "due", "no", ""], references) == pytest.approx([2.5, 2.5, 0.0, 0.0])
    common = [["il cane corre"], ["il cane dorme"], ["il gatto corre"]]
    rare = [["il cane corre"], ["un uccello vola"], ["quella nave parte"]]
    candidates = ["il cane corre nel prato"] * 3
    assert cider(candidates, common)[0] != cider(candidates, rare)[0]
    other_references = [["due tre"], ["quattro"]]
    single = cider(["L'UOMO!", "x", "y"], [["l’uomo"], *other_references])[0]
    halved = cider(["L'UOMO!", "x", "y"], [["l’uomo", "altro testo"], *other_references])[0]
    assert single == pytest.approx(2 * halved)
    assert single == pytest.approx(5.0)  # orders 1 and 2 are full, 3 and 4 do not occur
    assert cider([], []) == []


@pytest.mark.parametrize("score", [text.rouge_l, text.bleu1, corpus_bleu, cider])
@pytest.mark.parametrize(
    ("candidates", "references"),
    [(["a"], []), (["a"], [["a"], ["b"]]), (["a"], [[]]), (["a"], [["", " "]]), (["a"], ["abc"])],
    ids=["too few", "too many", "none", "blank", "a text for a list"],
)
def test_mismatched_lists_are_refused(score: Any, candidates: list[str], references: Any) -> None:
    with pytest.raises(ValueError, match="reference"):
        score(candidates, references)


@given(candidate=TEXTS, references=REFERENCES)
def test_scores_are_in_range_and_references_never_lower_rouge(candidate: str, references: list[str]) -> None:
    assert 0.0 <= text.bleu1([candidate], [references])[0] <= 1.0
    assert 0.0 <= text.sentence_bleu([candidate], [references])[0] <= 1.0
    best = text.rouge_l([candidate], [references])[0]
    assert 0.0 <= best <= 1.0
    assert best >= text.rouge_l([candidate], [references[:1]])[0]


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

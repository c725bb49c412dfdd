from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocoevalcap.cider.cider_scorer import CiderScorer
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from pipelines.metrics import ngrams, text
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

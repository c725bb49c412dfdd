"""MAIA as its authors' scripts do it: readings, prompts, similarity metrics, the one black frame."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from models.messages import Media, Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.maia.answers import read_verdict_as_authors
from pipelines.benchmarks.maia.facts import BLACK_FRAME
from pipelines.benchmarks.maia.letters import read_letter_as_authors
from pipelines.benchmarks.maia.prompts import AUTHORS_SET, PROMPT_TEXTS, judge_request, maia_prompts
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Sample
from pipelines.metrics.ngrams import bleu_counts, cider, plain_bleu_of_counts, plain_bleu_of_sums
from pipelines.metrics.text import rouge_1, tokens_ptb
from tests.support.paths import SHARED_DATA

SAMPLE = Sample(
    sample_id="video1/Sentiment_A",
    data={
        "video": "video1",
        "category": "Sentiment_A",
        "question": "Chi corre?",
        "answers": [f"risposta {index}" for index in range(8)],
        "true": [f"vera {index}" for index in range(8)],
        "false": [f"falsa {index}" for index in range(8)],
    },
)
AUTHORS = PromptTexts(PROMPT_TEXTS, instead=AUTHORS_SET)


@pytest.mark.parametrize(
    ("raw", "letter"),
    [
        ("A", "A"),
        ("La risposta è B.", "B"),
        ("A mio parere B", "A"),  # the preposition counts
        ("b", None),
        ("AB", None),
        ("(B)", "B"),
        ("", None),
        (None, None),
    ],
)
def test_the_first_capital_letter_that_is_a_word_is_read(raw: str | None, letter: str | None) -> None:
    assert read_letter_as_authors(raw) == letter


@pytest.mark.parametrize(
    ("raw", "accepted"),
    [
        ("Correct", True),
        ("correct.", True),
        ("Correctly so", True),
        ("Incorrect", False),
        ("It is correct", False),
        ("", False),
    ],
)
def test_a_verdict_is_its_first_word(raw: str, accepted: bool) -> None:
    assert read_verdict_as_authors(raw) is accepted


def prompts_of(task: str, setting: str, texts: PromptTexts = AUTHORS) -> list:
    return list(maia_prompts(PromptInput(sample=SAMPLE, task=task, setting=setting, texts=texts, seed=42)))


def test_prompts_of_the_set_authors_have_the_structure_of_the_scripts() -> None:
    first = prompts_of("vsv", BLACK_FRAME)[0].steps[0]
    _, text = first.turns[0].parts
    assert isinstance(text, Text)
    lines = text.text.split("\n")
    assert lines[0].endswith(":")
    assert [lines[1][:3], lines[2][:3], lines[4:]] == ["A. ", "B. ", [""]]
    assert first.generation.max_new_tokens == 128
    (question,) = prompts_of("oevqa", BLACK_FRAME)
    assert question.steps[0].turns[0].parts[1].text.endswith(":\nChi corre?")
    step = judge_request(SAMPLE, "x", AUTHORS).step
    assert [turn.role for turn in step.turns] == ["system", "user"]
    assert step.generation.max_new_tokens == 4
    lines = step.turns[1].parts[0].text.split("\n")
    assert lines[:2] == ["Question: Chi corre?", "Candidate Answer: x"]
    assert lines[2:] == [f"R{index + 1}: risposta {index}" for index in range(8)]


def test_the_black_frame_is_one_frame_of_the_black_clip_and_must_be_named() -> None:
    (frame, *_), (clip, *_) = (
        prompts_of("vsv", setting)[0].steps[0].turns[0].parts for setting in (BLACK_FRAME, "black-video")
    )
    assert isinstance(frame, Media)
    assert (frame.source, frame.frames, clip.frames) == (clip.source, 1, 32)
    definition = benchmark("maia")
    assert BLACK_FRAME in definition.explicit_settings
    assert definition.publication.same_settings["black-video"] == (BLACK_FRAME,)


def test_rouge_1_equals_rouge_score() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    texts = [("Il cane è là", ["Un cane è già là, sì", "perché no"]), ("l'uomo", ["L'uomo corre"]), ("è", ["à"])]
    scorer = RougeScorer(["rouge1"])
    expected = [max(scorer.score(ref, text)["rouge1"].fmeasure for ref in refs) for text, refs in texts]
    assert rouge_1([text for text, _ in texts], [refs for _, refs in texts]) == pytest.approx(expected)


def test_bleu_takes_the_shortest_reference_and_no_smoothing() -> None:
    candidate, references = (
        "il cane corre nel prato verde",
        ["il cane corre nel prato", "il cane corre nel prato verde oggi qui"],
    )
    counts = bleu_counts([candidate], [references], shortest=True)[0]
    assert counts[-1] == 5
    assert plain_bleu_of_counts(counts) == pytest.approx(1.0)
    assert float(plain_bleu_of_sums(*counts[:, None].astype(float))[0]) == pytest.approx(1.0)
    unmatched = bleu_counts(["il cane dorme qui"], [["un cane corre là"]], shortest=True)[0]
    assert plain_bleu_of_counts(unmatched) == 0.0
    assert float(plain_bleu_of_sums(*unmatched[:, None].astype(float))[0]) == 0.0


def test_tokens_of_the_treebank() -> None:
    text = "L'uomo dell'auto (forse) c'è: d'accordo? It's can't, 10-12 secondi e 3,50€ H&M."
    expected = ["l'uomo", "dell", "auto", "-lrb-", "forse", "-rrb-", "c", "è", "d'accordo", "it", "'s", "ca", "n't"]
    assert tokens_ptb(text) == [*expected, "10-12", "secondi", "e", "3,50", "$", "h&m"]


@pytest.mark.skipif(shutil.which("java") is None, reason="Stanford's tokenizer needs Java")
def test_treebank_tokens_equal_stanfords_on_the_published_answers(tmp_path: Path) -> None:
    import pycocoevalcap.tokenizer.ptbtokenizer as original

    source = SHARED_DATA / "maia" / "dataset" / "data_20%.json"
    if not source.exists():
        pytest.skip("the published data are not on this machine")
    videos = json.loads(source.read_text(encoding="utf-8"))
    questions = [entry for video in videos for half in "AB" for entry in video[f"question_categories_{half}"]]
    texts = [text.replace("\n", " ") for entry in questions for text in entry["answer"]]
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    jar = Path(original.__file__).with_name(original.STANFORD_CORENLP_3_4_1_JAR)
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    result = subprocess.run([*command, str(tmp_path / "texts")], capture_output=True, text=True, check=True)
    lines = result.stdout.split("\n")[: len(texts)]
    expected = [[word for word in line.split() if word not in original.PUNCTUATIONS] for line in lines]
    assert [tokens_ptb(text) for text in texts] == expected


def test_cider_on_treebank_tokens_equals_pycocoevalcap() -> None:
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    texts = ["l'uomo corre nel prato", "un cane dorme (forse)", "non si può dire"]
    references = [
        ["l'uomo corre", "un uomo corre nel prato"],
        ["il cane dorme", "un cane dorme"],
        ["non si può stabilire"],
    ]
    scorer = CiderScorer(n=4, sigma=6.0)
    for text, refs in zip(texts, references, strict=True):
        scorer += (" ".join(tokens_ptb(text)), [" ".join(tokens_ptb(ref)) for ref in refs])
    _, expected = scorer.compute_score()
    assert np.allclose(cider(texts, references, tokens_ptb), expected)

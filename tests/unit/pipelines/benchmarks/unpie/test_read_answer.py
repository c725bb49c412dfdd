"""UNPIE's grader: similarity requests, judge questions, verdicts by rule."""

from dataclasses import replace

import pytest

from models.messages import Generation, Text
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Verdict
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from tests.support.unpie_rows import in_order, pictured, prediction

TEXTS = PromptTexts(BENCHMARK.prompt_texts)


def test_similarity_requests_both_targets() -> None:
    pun = pictured()
    row = prediction(pun, "disambiguation", "vlm", "fr/1", output="[French]: « Le pain. »")
    asks = BENCHMARK.similarity(row)
    assert [(ask.column, ask.scorer, ask.candidate) for ask in asks] == [
        ("bertscore_0", "bertscore", "Le pain."),
        ("bertscore_1", "bertscore", "Le pain."),
    ]
    assert [ask.references for ask in asks] == [(pair["fr"],) for pair in pun.data["translation"]]
    for other in (
        replace(row, output="[French]:"),
        replace(row, status="error", output=None),
        replace(row, task="reconstruction"),
    ):
        assert BENCHMARK.similarity(other) == ()


@pytest.mark.parametrize(
    ("reply", "normalised", "strict"),
    [
        ("dough", 1.0, 1.0),
        (" dough\n", 1.0, 1.0),
        ("Dough.", 1.0, 0.0),
        ("`dough`", 1.0, 0.0),
        ("**dough**", 1.0, 0.0),
        ("<think>Bread, money.</think>dough", 1.0, 0.0),
        ("dough<|im_end|>", 1.0, 0.0),
    ],
)
def test_strict_match_takes_the_reply_as_generated(reply: str, normalised: float, strict: float) -> None:
    pun = pictured()
    output, dropped = clean_reply(reply)  # as before any benchmark reads a reply
    row = prediction(replace(pun, data={**pun.data, "phrase": "dough"}), "grounding", "vlm", output=output)
    values = BENCHMARK.reading(replace(row, dropped=dropped)).values
    assert (values["correct"], values["strict"]) == (normalised, strict)


def test_translation_without_scorer_has_no_verdict() -> None:
    row = prediction(pictured(), "disambiguation", "vlm", "de/0", output="Das Brot.")
    assert "correct" not in BENCHMARK.reading(row).values
    assert BENCHMARK.reading(replace(row, output="")).values == {"correct": 0.0}
    reading = BENCHMARK.reading(replace(row, given={"bertscore_0": 0.9132, "bertscore_1": 0.887}))
    assert reading.values["correct"] == 1.0
    assert reading.values["margin"] == pytest.approx(0.0262)
    assert reading.values["tie"] == 0.0
    tie = BENCHMARK.reading(replace(row, variant="de/1", given={"bertscore_0": 0.9, "bertscore_1": 0.9000004}))
    assert (tie.values["correct"], tie.values["tie"]) == (0.0, 1.0)


def test_judge_question_has_the_original_before_the_candidate() -> None:
    pun = pictured()
    row = prediction(pun, "reconstruction", "lm", "ko/0", output="[English]: The dough made him rich.")
    ask = BENCHMARK.judge.ask(row, TEXTS)
    assert isinstance(ask, JudgeRequest)
    assert ask.seeds == (42, 43, 44)
    assert ask.step.generation == Generation(max_new_tokens=8)
    assert ask.step.choices == ("yes", "no")
    (part,) = ask.step.turns[0].parts
    assert isinstance(part, Text)
    in_order(part.text, "same word", "both meanings", pun.data["sentence"], "The dough made him rich.", "yes or no")
    assert pun.data["gloss"][0] not in part.text
    gold = BENCHMARK.judge.ask(
        row, PromptTexts(BENCHMARK.prompt_texts, instead={"unpie-judge-v1": "unpie-judge-with-gold-v1"})
    )
    assert isinstance(gold, JudgeRequest)
    (gold_part,) = gold.step.turns[0].parts
    assert isinstance(gold_part, Text)
    in_order(gold_part.text, "plays on: kneaded", "work dough", "want", pun.data["sentence"])


@pytest.mark.parametrize(
    ("output", "accepted"),
    [
        ("", False),
        ("[English]:", False),
        ("<think>a pun", False),
        ("SHE kneaded bread number 0 of homographic until he needed money!", True),
    ],
)
def test_verdict_by_rule_needs_no_judge(output: str, accepted: bool) -> None:
    row = prediction(pictured(), "reconstruction", "lm", "de/0", output=output)
    assert BENCHMARK.judge.ask(row, TEXTS) is accepted
    reading = BENCHMARK.reading(replace(row, verdict=Verdict(state="ok", accepted=accepted)))
    assert "judged_by_rule" in reading.flags
    assert reading.values["accepted"] == float(accepted)


def test_only_answers_of_reconstruction_are_judged() -> None:
    row = prediction(pictured(), "reconstruction", "lm", "de/0", output="x")
    assert BENCHMARK.judge.ask(replace(row, status="error", output=None), TEXTS) is None
    assert BENCHMARK.judge.ask(replace(row, task="disambiguation"), TEXTS) is None


def test_accepted_follows_the_state_of_the_verdict() -> None:
    row = prediction(pictured(), "reconstruction", "vlm", "de/0", output="A pun.")
    states = {"ok": 1.0, "invalid": 0.0, "failed": None, "absent": None}
    for state, expected in states.items():
        reading = BENCHMARK.reading(replace(row, verdict=Verdict(state=state, accepted=True)))  # type: ignore[arg-type]
        assert reading.values.get("accepted") == expected
        assert "judged_by_rule" not in reading.flags


def test_truncated_answers_are_flagged() -> None:
    row = prediction(pictured(), "grounding", "lm", output="kneaded", finish_reason="length")
    assert BENCHMARK.reading(row).flags == ("truncated",)

"""What UNPIE makes of answers: what scorers compare, what the judge sees, what is decided by rule."""

from dataclasses import replace

import pytest

from models.messages import Generation, Text
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeAsk, Verdict
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from tests.support.unpie_rows import SIX, asked, in_order, pictured
from tests.support.unpie_source import (
    picture,
)

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SPOKEN = list(zip(SIX, ["German"] * 2 + ["French"] * 2 + ["Korean"] * 2, strict=True))
CELLS = [(task, setting) for task, settings in BENCHMARK.tasks.items() for setting in settings]


def test_similarity_asks_against_both_targets() -> None:
    one = pictured()
    made = asked(one, "disambiguation", "vlm", "fr/1", output="[French]: « Le pain. »")
    asks = BENCHMARK.similarity(made)
    assert [(ask.column, ask.scorer, ask.candidate) for ask in asks] == [
        ("bertscore_0", "bertscore", "Le pain."),
        ("bertscore_1", "bertscore", "Le pain."),
    ]
    assert [ask.references for ask in asks] == [(pair["fr"],) for pair in one.data["translation"]]
    for other in (
        replace(made, output="[French]:"),
        replace(made, status="error", output=None),
        replace(made, task="reconstruction"),
    ):
        assert BENCHMARK.similarity(other) == ()


def test_a_translation_without_scorer_has_no_verdict() -> None:
    made = asked(pictured(), "disambiguation", "vlm", "de/0", output="Das Brot.")
    assert "correct" not in BENCHMARK.read_answer(made).values
    assert BENCHMARK.read_answer(replace(made, output="")).values == {"correct": 0.0}
    read_in = BENCHMARK.read_answer(replace(made, given={"bertscore_0": 0.9132, "bertscore_1": 0.887}))
    assert read_in.values["correct"] == 1.0
    assert read_in.values["margin"] == pytest.approx(0.0262)
    assert read_in.values["tie"] == 0.0
    tie = BENCHMARK.read_answer(replace(made, variant="de/1", given={"bertscore_0": 0.9, "bertscore_1": 0.9000004}))
    assert (tie.values["correct"], tie.values["tie"]) == (0.0, 1.0)


def test_the_judge_sees_original_then_candidate() -> None:
    one = pictured()
    made = asked(one, "reconstruction", "lm", "ko/0", output="[English]: The dough made him rich.")
    ask = BENCHMARK.judge(made, TEXTS)
    assert isinstance(ask, JudgeAsk)
    assert ask.seeds == (42, 43, 44)
    assert ask.step.generation == Generation(max_new_tokens=8)
    assert ask.step.choices == ("yes", "no")
    (part,) = ask.step.turns[0].parts
    assert isinstance(part, Text)
    in_order(part.text, "same word", "both meanings", one.data["sentence"], "The dough made him rich.", "yes or no")
    assert one.data["gloss"][0] not in part.text
    gold = BENCHMARK.judge(
        made, PromptTexts(BENCHMARK.prompt_texts, instead={"unpie-judge-v1": "unpie-judge-with-gold-v1"})
    )
    assert isinstance(gold, JudgeAsk)
    (told,) = gold.step.turns[0].parts
    assert isinstance(told, Text)
    in_order(told.text, "plays on: kneaded", "work dough", "want", one.data["sentence"])


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("", False),
        ("[English]:", False),
        ("<think>a pun", False),
        ("SHE kneaded bread number 0 of homographic until he needed money!", True),
    ],
)
def test_what_needs_no_judge(output: str, wanted: bool) -> None:
    made = asked(pictured(), "reconstruction", "lm", "de/0", output=output)
    assert BENCHMARK.judge(made, TEXTS) is wanted
    read_in = BENCHMARK.read_answer(replace(made, verdict=Verdict(state="ok", accepted=wanted)))
    assert "judged_by_rule" in read_in.flags
    assert read_in.values["accepted"] == float(wanted)


def test_nothing_is_judged_but_answers_of_reconstruction() -> None:
    made = asked(pictured(), "reconstruction", "lm", "de/0", output="x")
    assert BENCHMARK.judge(replace(made, status="error", output=None), TEXTS) is None
    assert BENCHMARK.judge(replace(made, task="disambiguation"), TEXTS) is None


@pytest.mark.parametrize("status", ["error", "excluded"])
def test_no_answer_earns_no_value(status: str) -> None:
    for task, variant in (("grounding", ""), ("disambiguation", "de/0"), ("reconstruction", "de/0")):
        made = asked(pictured(), task, "vlm", variant, status=status, output=None)
        assert BENCHMARK.read_answer(made).values == {}


def test_verdicts_of_the_judge() -> None:
    made = asked(pictured(), "reconstruction", "vlm", "de/0", output="A pun.")
    states = {"ok": 1.0, "invalid": 0.0, "failed": None, "absent": None}
    for state, wanted in states.items():
        read_in = BENCHMARK.read_answer(replace(made, verdict=Verdict(state=state, accepted=True)))  # type: ignore[arg-type]
        assert read_in.values.get("accepted") == wanted
        assert "judged_by_rule" not in read_in.flags


def test_cut_off_answers_are_flagged() -> None:
    made = asked(pictured(), "grounding", "lm", output="kneaded", finish_reason="length")
    assert BENCHMARK.read_answer(made).flags == ("truncated",)


def test_a_picture_is_small() -> None:
    assert len(picture("x")) < 300

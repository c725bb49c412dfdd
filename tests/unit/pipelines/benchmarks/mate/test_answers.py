"""Reading MATE's answers: the published rules as golden rows, and properties of any text."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.mate import answers as reading
from pipelines.benchmarks.mate.error_analysis import in_scene
from pipelines.benchmarks.mate.scene import parse_scene
from tests.support.paths import GOLDEN
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

GOLDEN_ROWS = GOLDEN / "mate"

GOLDS: list[reading.Gold] = ["Object_0", "cube", 0.351, 282.0, 282, [1.0, -2.0, 0.7]]
PIECES = [
    *"{}[]\"'\\:,.\n\r\t 0123-e“”`",
    '{"answer": ',
    '"answer"',
    "answer",
    "Object_0",
    "0.351",
    "NaN",
    "}",
    '"}',
    "cube",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))

REPEATED = [
    "{",
    "[",
    "}",
    '"',
    "'",
    "\\",
    " ",
    "\n",
    "{ ",
    '{"',
    '{"answer": ',
    '{"answer":',
    '{"answer": "',
    '{"answer": [',
    '{"answer": 1}',
    '{"answer": "x"}}}, ',
    '{"a":{"a":',
    "{a:[",
    "{a:'x,",
    "{a:'x'y,",
    "{answer:",
    "{“answer”:“",
    "{'answer': 'it's ",
    'x": "y", ',
    "{a: ",
]
LONG = [
    '{"answer": ' + "[" * (LONG_TEXT // 2) + "]" * (LONG_TEXT // 2) + "}",
    '{"answer": ' + "7" * LONG_TEXT + "}",
    '{"answer": "' + "7" * LONG_TEXT + '"}',
    "{" + " " * LONG_TEXT,
    '{"answer":' + " " * LONG_TEXT + '"x"',
    '{answer:"' + '" ' * (LONG_TEXT // 2),
    "{" * (LONG_TEXT // 2) + "}" * (LONG_TEXT // 2),
    ('{a:"x' + " " * 1000) * (LONG_TEXT // 1000),
    *((piece * LONG_TEXT)[:LONG_TEXT] for piece in REPEATED),
]


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN_ROWS / f"{name}.jsonl").read_text("utf-8").splitlines()]


SCENES = {row["id"]: parse_scene(row["scene"]) for row in golden("scenes")}


def row_name(row: dict[str, Any]) -> str:
    return f"{row.get('vector', '')}-{row.get('output', row.get('reference'))!s:.40}"


@pytest.mark.parametrize("row", golden("reading"), ids=row_name)
def test_published_vectors(row: dict[str, Any]) -> None:
    scene = SCENES[row["scene"]]
    gold = scene.objects[row["asked"]].value(row["target"])
    verdict = reading.judge(row["output"], gold)
    assert verdict.exact_match is (row["verdict"] == "correct")
    assert verdict.format_ok is row["format_ok"]
    assert verdict.exact_match_lenient is row["lenient"]
    assert in_scene(verdict.answer, scene, row["target"]) is (row["verdict"] != "out")


@pytest.mark.parametrize("row", golden("reading_more"), ids=lambda row: row["why"])
def test_further_outputs(row: dict[str, Any]) -> None:
    verdict = reading.judge(row["output"], row["gold"])
    read = verdict.format_ok, verdict.exact_match, verdict.exact_match_lenient
    assert read == (row["format_ok"], row["exact_match"], row["lenient"])


@pytest.mark.parametrize("row", golden("gold"), ids=row_name)
def test_gold_answers(row: dict[str, Any]) -> None:
    if row["gold"] is None:
        with pytest.raises(ValueError, match="gold answer"):
            reading.read_gold(row["reference"])
    else:
        gold = reading.read_gold(row["reference"])
        assert (gold, type(gold)) == (row["gold"], type(row["gold"]))
        assert reading.read_gold(reading.gold_json(gold)) == gold


@settings(deadline=None)
@given(TEXTS, st.sampled_from(GOLDS))
def test_last_answer_counts(before: str, gold: reading.Gold) -> None:
    verdict = reading.judge(before + "}\n" + reading.gold_json(gold), gold)
    # A text that ends in an open brace and key runs on into the answer and swallows it; a closed one cannot.
    assert verdict.exact_match or '"answer": ' in before.replace("\\", "").replace("\n", "")


@settings(deadline=None)
@given(st.text(alphabet=" \n\t\r\\\u00a0"), st.sampled_from(GOLDS))
def test_an_empty_output_is_a_wrong_answer(output: str, gold: reading.Gold) -> None:
    verdict = reading.judge(output, gold)
    assert (verdict.exact_match, verdict.exact_match_lenient, verdict.format_ok) == (False, False, False)


@settings(deadline=None)
@given(TEXTS)
def test_gold_of_any_text_is_read_or_refused(reference: str) -> None:
    try:
        gold = reading.read_gold(reference)
    except ValueError:
        return
    assert isinstance(gold, str | int | float | list)
    assert str(gold).strip()


@pytest.mark.full
@pytest.mark.parametrize("output", LONG, ids=lambda output: repr(output[:14]))
def test_long_hostile_outputs_take_no_quadratic_time(output: str) -> None:
    def judge(text: str) -> None:
        for gold in ("cone", 0.351, [1.0, -2.0, 0.7]):
            assert not reading.judge(text, gold).exact_match

    assert_not_quadratic(judge, output)


def test_deep_nesting_reads_the_same_at_any_depth_of_calls() -> None:
    output = '{"answer": ' + "[" * 300 + "]" * 300 + "}"

    def deeper(levels: int) -> reading.Answer | None:
        return reading.read_strict(output) if levels == 0 else deeper(levels - 1)

    assert {deeper(levels) for levels in (0, 100, 400)} == {None}

"""Reading MATE's answers: properties of any text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.mate import answers as reading

GOLDS: list[reading.Gold] = ["Object_0", "cube", 0.351, 282.0, 282, [1.0, -2.0, 0.7]]
PIECES = [
    *"{}[]\"'\\:,.\n\r\t 0123-e“”`",
    *('{"answer": ', '"answer"', "answer", "Object_0", "0.351", "NaN", '"}', "cube"),
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))


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


@pytest.mark.parametrize("calls", [0, 100, 400])
def test_deep_nesting_reads_the_same_at_any_depth_of_calls(calls: int) -> None:
    output = '{"answer": ' + "[" * 300 + "]" * 300 + "}"

    def deeper(levels: int) -> reading.Answer | None:
        return reading.read_strict(output) if levels == 0 else deeper(levels - 1)

    assert deeper(calls) is None

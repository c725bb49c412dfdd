"""Reading VAGUE's answers: golden rows, properties, and long texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.readers.option_letters import Choice
from pipelines.benchmarks.vague.answers import parse_choice, parse_freeform, without_opener
from tests.support.paths import GOLDEN
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

GOLDEN_ROWS = GOLDEN / "vague"
READINGS = {
    "A": "The speaker wants person1 to feed the parrot.",
    "B": "The speaker wants person1 to shut the window.",
    "C": "The speaker wants person1 to enjoy the breeze.",
    "D": "The speaker wants person1 to shut the curtain.",
}
PIECES = [
    *"ABCDEabcd1",
    *("answer", "Answer 2", "option", "is", "or", "and", "a person", "letter", "sorry", "I cannot say"),
    *(
        " ",
        "\n",
        "\n\n",
        ",",
        ".",
        ":",
        "(",
        ")",
        "[",
        "]",
        '"',
        "'",
        "-",
        " - ",
        "/",
        "&",
        "*",
        "`",
        "#",
        "\\boxed{",
        "}",
    ),
    *("(intention)", "<think>", "</think>", "<|im_end|>", "\u200b", "’", "Ｂ", "The speaker wants", *READINGS.values()),
]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
MODES = st.booleans()

PLAIN = ["{}", "({})", "**{}**", "{}.", "{}) because", "The answer is {}.", "Answer: {}", "`{}`", "<answer>{}</answer>"]
COT = ["Answer 1: A or B?\nAnswer 2: {}", "It is cold.\n\n{}", "**Your answer2 (intention):** {}", "(intention): ({})"]
REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I cannot identify people in pictures.",
    "I am unable to determine what is meant.",
    "None of these fit.",
    "죄송하지만 도와드릴 수 없습니다.",
    "抱歉，我无法回答。",
]
LONG = [
    *("A", "A ", "A, ", "A or ", "(a(b)", "(letter ", "answer: ", "option is ", "answer" + " " * 50, "A" + "-" * 20),
    *("A, B, C, ", "\\boxed{", "<think>", "</think>", "<|", "#", "```\n", "\n", " ", '"', "answer 2", "(intention"),
    *("The speaker wants. ", "I cannot really ", "sorry", "ﬃ", "the answer is B. ", READINGS["B"]),
]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN_ROWS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "row", rows("choice"), ids=lambda row: f"{'cot' if row['cot'] else 'plain'}:{row['raw'][:40]!r}"
)
def test_parse_choice_equals_the_golden_rows(row: dict[str, Any]) -> None:
    expected = Choice(letter=row["letter"], rule=row["rule"], invalid_reason=row["invalid_reason"])
    assert parse_choice(row["raw"], READINGS, cot=row["cot"]) == expected


@pytest.mark.parametrize("row", rows("freeform"), ids=lambda row: repr(row["raw"][:40]))
def test_parse_freeform_equals_the_golden_rows(row: dict[str, Any]) -> None:
    reading = parse_freeform(row["raw"], cot=row["cot"])
    assert (reading.text, list(reading.flags)) == (row["text"], row["flags"])


@pytest.mark.parametrize("row", rows("opener"), ids=lambda row: repr(row["text"][:40]))
def test_without_opener_equals_the_golden_rows(row: dict[str, Any]) -> None:
    assert without_opener(row["text"]) == row["rest"]


@pytest.mark.parametrize("letter", "ABCD")
@pytest.mark.parametrize("template", PLAIN)
def test_parse_choice_reads_every_letter_in_every_form(template: str, letter: str) -> None:
    raw = template.format(letter)
    assert parse_choice(raw, READINGS, cot=False).letter == letter
    assert parse_choice(raw, READINGS, cot=True).letter == letter


@pytest.mark.parametrize("letter", "ABCD")
@pytest.mark.parametrize("template", COT)
def test_parse_choice_reads_every_letter_after_reasoning(template: str, letter: str) -> None:
    assert parse_choice(template.format(letter), READINGS, cot=True).letter == letter


@pytest.mark.parametrize("letter", "ABCD")
def test_parse_choice_maps_the_wording_of_a_reading_to_its_letter(letter: str) -> None:
    answer = f"It seems that {READINGS[letter].rstrip('.').lower()} now"
    assert parse_choice(answer, READINGS, cot=False).letter == letter


def test_parse_choice_rejects_the_wording_of_two_readings() -> None:
    twice = {"A": "Go.", "B": "go", "C": "Stay.", "D": ""}
    assert parse_choice("Go!", twice, cot=False).invalid_reason == "multiple"
    assert parse_choice("Stay", twice, cot=False).letter == "C"


def test_parse_choice_reads_a_reading_contained_in_another() -> None:
    nested = {"A": "Shut the window.", "B": "Shut the window now.", "C": "Wait.", "D": "Run."}
    assert parse_choice("shut the window", nested, cot=False).letter == "A"
    assert parse_choice("please shut the window now", nested, cot=False).invalid_reason == "multiple"


@given(ANSWERS, MODES)
def test_parse_choice_ignores_unclosed_reasoning(raw: str, cot: bool) -> None:
    assert parse_choice(f"{raw}<think>{raw.replace('</think>', '')}", READINGS, cot=cot).letter is None


@given(ANSWERS, st.sampled_from("ABCD"), MODES)
def test_parse_choice_ignores_closed_reasoning(raw: str, letter: str, cot: bool) -> None:
    assert parse_choice(f"<think>{raw}</think>{letter}", READINGS, cot=cot).letter == letter


@pytest.mark.full
@pytest.mark.parametrize("cot", [False, True])
@pytest.mark.parametrize("piece", LONG, ids=repr)
def test_parsers_take_no_quadratic_time(piece: str, cot: bool) -> None:
    raw = (piece * (LONG_TEXT // len(piece.encode()) + 1)).encode()[:LONG_TEXT].decode(errors="ignore")
    assert_not_quadratic(
        lambda text: (parse_choice(text, READINGS, cot=cot), without_opener(parse_freeform(text, cot=cot).text)), raw
    )

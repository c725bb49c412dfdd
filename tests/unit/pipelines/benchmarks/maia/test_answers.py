"""Readers of MAIA's answers: golden rows, properties, and the public statements where they are available."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.maia.answers import read_oevqa, read_verdict, unimodal_choice, unimodal_vote
from pipelines.benchmarks.maia.facts import COLUMN_OF_CATEGORY
from pipelines.benchmarks.maia.letters import LetterReading, draw_ts_letter, read_letter
from tests.support.paths import ROOT

TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden" / "maia"
PUBLIC = TESTS.parents[1] / "shared" / "data" / "maia" / "dataset" / "data_20%.json"

NO_UMBRELLAS, UMBRELLAS = "Nella scena non ci sono ombrelli", "Nella scena ci sono degli ombrelli"
TO_DOOR, TO_BENCH = (f"A metà del video il cane corre verso {goal}" for goal in ("il portone", "la panchina"))

WORDS = [
    *"ABabeo",
    "la",
    "l'",
    "è",
    "non",
    "né",
    "che",
    "falsa",
    "vera",
    "corretta",
    "risposta",
    "opzione",
    "is",
    "not",
]
MARKS = ["\n", " ", ")", "(", '"', "'", ":", ".", ",", "/", " - ", "{", "}", "*", "_", "\u200b", NO_UMBRELLAS, TO_DOOR]
TAGS = ["<think>", "</think>"]
ANSWERS = st.one_of(
    st.text(), st.lists(st.sampled_from([*WORDS, *MARKS, *TAGS, *(f"{w} " for w in WORDS)])).map("".join)
)

PLAIN = [
    "{}",
    "({})",
    "**{}**",
    "{}.",
    "La risposta corretta è {}",
    "La risposta corretta è l'affermazione {}.",
    "Affermazione {}",
    "The correct answer is {}.",
    "The true statement is: {}) ...",
    '{{"answer": "{}"}}',
    "```\n{}\n```",
    "<answer>{}</answer>",
    "Scelgo la {} perché corrisponde al video",
]

ADVERSARIAL = {
    "letters": "A," * 100_000,
    "letters apart": "A B " * 50_000,
    "rejected": "non A " * 33_000,
    "cues": "risposta corretta è " * 10_000 + "A",
    "openings": "<think>" * 28_000,
    "closings": "</think>" * 25_000,
    "blanks": " " * 200_000 + "x",
    "breaks": "\n " * 100_000 + "A",
    "braces": "{" * 200_000,
    "nested objects": '{"a":' * 40_000,
    "nested lists": '{"a":' + "[" * 200_000,
    "quotes": '"' * 200_000 + "A",
    "apostrophes": "'a" * 100_000,
    "marks to order": "a" + "\u0315\u0300" * 100_000,
    "brackets": "A" + ")" * 200_000,
    "expanding": "\ufdfa " * 100_000,
    "letters in signs": "\u249c" * 200_000,
    "preposition": "A metà del video " * 12_000,
    "colons": "risposta" + ":" * 200_000 + "A",
    "long word": "non " + "x" * 200_000,
    "stars": "*" * 200_000 + "risposta",
}


Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()]


def short_id(value: object) -> str:
    return ascii(value)[:60]


@pytest.mark.parametrize("row", rows("vsv_letter.jsonl"), ids=lambda row: short_id(row["raw"]))
def test_read_letter_agrees_with_golden_rows(row: Row) -> None:
    reading = read_letter(row["raw"], row["statement_a"], row["statement_b"])
    assert reading == LetterReading(row["letter"], row["rule"])


@pytest.mark.parametrize("row", rows("oevqa_answer.jsonl"), ids=lambda row: short_id(row["raw"]))
def test_read_oevqa_agrees_with_golden_rows(row: Row) -> None:
    assert read_oevqa(row["raw"]) == row["answer"]


@pytest.mark.parametrize("row", rows("judge_verdict.jsonl"), ids=lambda row: short_id(row["raw"]))
def test_read_verdict_agrees_with_golden_rows(row: Row) -> None:
    assert read_verdict(row["raw"]) is row["correct"]


@pytest.mark.parametrize("row", rows("ab_draw.jsonl"), ids=lambda row: short_id(row["category"]))
def test_draw_ts_letter_agrees_with_golden_rows(row: Row) -> None:
    drawn = [draw_ts_letter(row["seed"], row["video"], row["category"], i) for i in range(8)]
    assert "".join(drawn) == row["letters"]


def test_draw_ts_letter_has_the_published_balance_over_the_public_set() -> None:
    names = sorted(set(COLUMN_OF_CATEGORY) - {"CausaleImplicita"})
    pools = [
        "".join(draw_ts_letter(42, f"video{video}", f"{name}_{half}", i) for i in range(8))
        for video, name, half in itertools.product(range(1, 21), names, "AB")
    ]
    assert sum(pool.count("A") for pool in pools) == 1924
    assert pools.count("A" * 8) == 4


@pytest.mark.parametrize("row", rows("unimodal.jsonl"), ids=lambda row: short_id(row["true_scores"]))
def test_unimodal_rules_agree_with_golden_rows(row: Row) -> None:
    scores = row["true_scores"], row["false_scores"]
    assert unimodal_choice(*scores) is row["choice"]
    assert unimodal_vote(*scores) is row["vote"]


@pytest.mark.parametrize("scores", [([], []), ([-1.0], []), ([-1.0], [-1.0, -2.0]), ([-1.0], [float("nan")])])
def test_unimodal_rules_reject_unusable_scores(scores: tuple[list[float], list[float]]) -> None:
    for rule in (unimodal_choice, unimodal_vote):
        with pytest.raises(ValueError):
            rule(*scores)


@given(
    st.one_of(
        st.text(alphabet=" \t\n\r\u00a0\u200b\ufeff"),
        ANSWERS.map(lambda text: f" <think>{text.replace('</think>', '')}"),
    )
)
def test_readers_return_nothing_for_hidden_or_blank_text(raw: str) -> None:
    assert read_letter(raw, NO_UMBRELLAS, UMBRELLAS) == LetterReading(None, "empty")
    assert read_verdict(raw) is None
    assert read_oevqa(raw) == ""


@given(st.sampled_from(PLAIN), st.permutations([NO_UMBRELLAS, UMBRELLAS, TO_DOOR, TO_BENCH]))
def test_read_letter_reads_a_plain_letter_for_any_statements(template: str, statements: list[str]) -> None:
    a, b = statements[:2]
    for letter in "AB":
        assert read_letter(template.format(letter), a, b).letter == letter
        assert read_letter(template.format(letter), b, a).letter == letter


@given(st.permutations([NO_UMBRELLAS, UMBRELLAS, TO_DOOR, TO_BENCH]))
def test_read_letter_maps_a_repeated_statement_to_its_letter(statements: list[str]) -> None:
    a, b = statements[:2]
    assert read_letter(f'"{a}".', a, b).letter == "A"
    assert read_letter(f'"{a}".', b, a).letter == "B"


@pytest.mark.parametrize("raw", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_readers_end_soon_on_hostile_text(raw: str) -> None:
    readers: list[Callable[[], object]] = [
        lambda: read_letter(raw, TO_DOOR, TO_BENCH),
        lambda: read_letter("A", raw, TO_BENCH),
        lambda: read_oevqa(raw),
        lambda: read_verdict(raw),
    ]
    for read in readers:
        # Processor time of this thread: other work on the machine must not fail the test.
        start = time.thread_time()
        read()
        assert time.thread_time() - start < 10  # a reader that backtracks takes minutes


def test_readers_read_both_ends_of_a_runaway_answer() -> None:
    filler = "il cane corre e poi torna " * 2_000
    for raw in (f"La risposta è B. {filler}", f"{filler}\nLa risposta è B"):
        assert read_letter(raw, NO_UMBRELLAS, UMBRELLAS).letter == "B"
    assert read_verdict(filler + '{"correct": false}') is False


def public_pairs() -> Iterator[tuple[str, str]]:
    for video in json.loads(PUBLIC.read_text(encoding="utf-8")):
        for entry in video["question_categories_A"] + video["question_categories_B"]:
            yield from zip(entry["true_statement"], entry["false_statement"], strict=True)


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public MAIA statements are not available")
@pytest.mark.parametrize(
    ("template", "decided"),
    [
        ("{letter}", True),
        ("{letter}) {statement}", True),
        ("{letter}: {statement}", True),
        ("{statement}", True),
        ('"{statement}"', True),
        ("Risposta: {statement}", True),
        ("La risposta corretta è {letter}", True),
        ("{a}\n{b}\nRisposta: {letter}", True),
        ("A) {a}\nB) {b}\n\n**Risposta:**\n**{letter}**", True),
        ("A) {a}\nB) {b}", False),
        ("{a}\n{b}", False),
    ],
)
def test_read_letter_decides_answers_over_the_public_statements(template: str, decided: bool) -> None:
    wrong = []
    for a, b in public_pairs():
        for letter, statement in (("A", a), ("B", b)):
            raw = template.format(letter=letter, statement=statement, a=a, b=b)
            if read_letter(raw, a, b).letter != (letter if decided else None):
                wrong.append(raw)
    assert wrong == []

"""Readers of MAIA's answers: properties, and the public statements where they are available."""

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.maia.answers import read_oevqa, read_verdict, unimodal_choice, unimodal_vote
from pipelines.benchmarks.maia.facts import COLUMN_OF_CATEGORY
from pipelines.benchmarks.maia.letters import LetterReading, draw_ts_letter, read_letter
from tests.support.paths import SHARED_DATA

PUBLIC = SHARED_DATA / "maia" / "dataset" / "data_20%.json"
NO_UMBRELLAS, UMBRELLAS = "Nella scena non ci sono ombrelli", "Nella scena ci sono degli ombrelli"
TO_DOOR, TO_BENCH = (f"A metà del video il cane corre verso {goal}" for goal in ("il portone", "la panchina"))
STATEMENTS = st.permutations([NO_UMBRELLAS, UMBRELLAS, TO_DOOR, TO_BENCH])

WORDS = [
    *"ABabeo",
    *("la", "l'", "è", "non", "né", "che", "falsa", "vera", "corretta", "risposta", "opzione", "is", "not"),
]
MARKS = [*"\n )(\"':.,/{}*_\u200b", " - ", NO_UMBRELLAS, TO_DOOR, "<think>", "</think>"]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from([*WORDS, *MARKS, *(f"{w} " for w in WORDS)])).map("".join))
HIDDEN = ANSWERS.map(lambda text: f" <think>{text.replace('</think>', '')}")
PLAIN = [
    *("{}", "({})", "**{}**", "{}.", "La risposta corretta è {}", "La risposta corretta è l'affermazione {}."),
    *("Affermazione {}", "The correct answer is {}.", "The true statement is: {}) ...", '{{"answer": "{}"}}'),
    *("```\n{}\n```", "<answer>{}</answer>", "Scelgo la {} perché corrisponde al video"),
]


def test_draw_ts_letter_has_the_published_balance_over_the_public_set() -> None:
    names = sorted(set(COLUMN_OF_CATEGORY) - {"CausaleImplicita"})
    pools = [
        "".join(draw_ts_letter(42, f"video{video}", f"{name}_{half}", i) for i in range(8))
        for video, name, half in itertools.product(range(1, 21), names, "AB")
    ]
    assert sum(pool.count("A") for pool in pools) == 1924
    assert pools.count("A" * 8) == 4


@pytest.mark.parametrize("scores", [([], []), ([-1.0], []), ([-1.0], [-1.0, -2.0]), ([-1.0], [float("nan")])])
def test_unimodal_rules_reject_unusable_scores(scores: tuple[list[float], list[float]]) -> None:
    for rule in (unimodal_choice, unimodal_vote):
        with pytest.raises(ValueError):
            rule(*scores)


@given(st.one_of(st.text(alphabet=" \t\n\r\u00a0\u200b\ufeff"), HIDDEN))
def test_readers_return_nothing_for_hidden_or_blank_text(raw: str) -> None:
    assert read_letter(raw, NO_UMBRELLAS, UMBRELLAS) == LetterReading(None, "empty")
    assert read_verdict(raw) is None
    assert read_oevqa(raw) == ""


@given(st.sampled_from(PLAIN), STATEMENTS)
def test_read_letter_reads_a_plain_letter_and_a_repeated_statement(template: str, statements: list[str]) -> None:
    a, b = statements[:2]
    for letter in "AB":
        assert read_letter(template.format(letter), a, b).letter == letter
        assert read_letter(template.format(letter), b, a).letter == letter
    assert read_letter(f'"{a}".', a, b).letter == "A"
    assert read_letter(f'"{a}".', b, a).letter == "B"


def test_readers_read_both_ends_of_a_runaway_answer() -> None:
    filler = "il cane corre e poi torna " * 2_000
    for raw in (f"La risposta è B. {filler}", f"{filler}\nLa risposta è B"):
        assert read_letter(raw, NO_UMBRELLAS, UMBRELLAS).letter == "B"
    assert read_verdict(filler + '{"correct": false}') is False


def public_pairs() -> Iterator[tuple[str, str]]:
    for video in json.loads(PUBLIC.read_text(encoding="utf-8")):
        for entry in video["question_categories_A"] + video["question_categories_B"]:
            yield from zip(entry["true_statement"], entry["false_statement"], strict=True)


DECIDED = [
    *("{letter}", "{letter}) {statement}", "{letter}: {statement}", "{statement}", '"{statement}"'),
    *("Risposta: {statement}", "La risposta corretta è {letter}", "{a}\n{b}\nRisposta: {letter}"),
    "A) {a}\nB) {b}\n\n**Risposta:**\n**{letter}**",
]


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public MAIA statements are not available")
@pytest.mark.parametrize("template", [*DECIDED, "A) {a}\nB) {b}", "{a}\n{b}"])
def test_read_letter_decides_answers_over_the_public_statements(template: str) -> None:
    wrong = []
    for a, b in public_pairs():
        for letter, statement in (("A", a), ("B", b)):
            raw = template.format(letter=letter, statement=statement, a=a, b=b)
            if read_letter(raw, a, b).letter != (letter if template in DECIDED else None):
                wrong.append(raw)
    assert wrong == []

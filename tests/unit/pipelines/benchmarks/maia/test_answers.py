"""Reading MAIA's answers: golden rows, properties, and a sweep over the public statements where they are at hand."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.maia import answers as maia
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


def told(value: object) -> str:
    return ascii(value)[:60]


@pytest.mark.parametrize("row", rows("vsv_letter.jsonl"), ids=lambda row: told(row["raw"]))
def test_letter(row: Row) -> None:
    reading = maia.read_letter(row["raw"], row["statement_a"], row["statement_b"])
    assert reading == maia.LetterReading(row["letter"], row["rule"])


@pytest.mark.parametrize("row", rows("oevqa_answer.jsonl"), ids=lambda row: told(row["raw"]))
def test_open_answer(row: Row) -> None:
    assert maia.read_oevqa(row["raw"]) == row["answer"]


@pytest.mark.parametrize("row", rows("judge_verdict.jsonl"), ids=lambda row: told(row["raw"]))
def test_verdict(row: Row) -> None:
    assert maia.read_verdict(row["raw"]) is row["correct"]


@pytest.mark.parametrize("row", rows("ab_draw.jsonl"), ids=lambda row: told(row["category"]))
def test_draw(row: Row) -> None:
    drawn = [maia.draw_ts_letter(row["seed"], row["video"], row["category"], i) for i in range(8)]
    assert "".join(drawn) == row["letters"]


def test_draw_over_the_public_set_has_the_published_balance() -> None:
    names = sorted(set(maia._COLUMN_OF) - {"CausaleImplicita"})
    pools = [
        "".join(maia.draw_ts_letter(42, f"video{video}", f"{name}_{half}", i) for i in range(8))
        for video, name, half in itertools.product(range(1, 21), names, "AB")
    ]
    assert sum(pool.count("A") for pool in pools) == 1924
    assert pools.count("A" * 8) == 4


@pytest.mark.parametrize("row", rows("frames.jsonl"), ids=lambda row: f"{row['wanted']} of {row['total']}")
def test_frames(row: Row) -> None:
    indices = maia.uniform_indices(row["total"], row["wanted"])
    assert len(indices) == row["count"]
    assert indices[: len(row["first"])] == row["first"]
    assert indices[len(indices) - len(row["last"]) :] == row["last"]


@given(st.integers(1, 5_000), st.integers(1, 64))
def test_frames_rise_without_repeats(total: int, wanted: int) -> None:
    indices = maia.uniform_indices(total, wanted)
    assert len(indices) == min(total, wanted)
    assert indices == sorted(set(indices))
    assert indices[0] == 0
    assert indices[-1] == (total - 1 if wanted > 1 else 0)


@pytest.mark.parametrize(("total", "wanted"), [(-1, 32), (900, 0)])
def test_frames_refuse_the_impossible(total: int, wanted: int) -> None:
    with pytest.raises(ValueError, match=f"cannot take {wanted} of {total} frames"):
        maia.uniform_indices(total, wanted)


@pytest.mark.parametrize("row", rows("unimodal.jsonl"), ids=lambda row: told(row["true_scores"]))
def test_unimodal(row: Row) -> None:
    scores = row["true_scores"], row["false_scores"]
    assert maia.unimodal_choice(*scores) is row["choice"]
    assert maia.unimodal_vote(*scores) is row["vote"]


@pytest.mark.parametrize("scores", [([], []), ([-1.0], []), ([-1.0], [-1.0, -2.0]), ([-1.0], [float("nan")])])
def test_unimodal_refuses_unusable_scores(scores: tuple[list[float], list[float]]) -> None:
    for choose in (maia.unimodal_choice, maia.unimodal_vote):
        with pytest.raises(ValueError):
            choose(*scores)


def test_columns() -> None:
    assert ", ".join(maia.COLUMNS) == (
        "Causal, Counterfactual, Out-of-Scope, Planning, Sentiment, Uncertainty, Implicit-Partial, Implicit-Total, "
        "Spatial-Partial, Spatial-Total, Temporal-Duration, Temporal-Partial"
    )


@pytest.mark.parametrize(
    ("category", "column"),
    [
        ("ImplicitoTot_B", "Implicit-Total"),
        ("TemporaleDurata_A", "Temporal-Duration"),
        ("Incertezza_A", "Uncertainty"),
        ("SpazialeParziale_A", "Spatial-Partial"),
        ("CausaleEsplicita_B", "Causal"),
        ("CausaleImplicita_A", "Causal"),
    ],
)
def test_column(category: str, column: str) -> None:
    assert maia.column_of(category) == column


@pytest.mark.parametrize(
    ("category", "nearest"), [("ImplicitoTotale_A", "ImplicitoTot"), ("incertezza_A", "Incertezza"), ("", "")]
)
def test_unknown_category_names_the_nearest(category: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown MAIA category '{category}'.*nearest known one is '{nearest}"):
        maia.column_of(category)


@given(ANSWERS)
def test_any_text_is_read_and_read_the_same_twice(raw: str) -> None:
    for a, b in ((NO_UMBRELLAS, UMBRELLAS), (TO_DOOR, TO_BENCH), (raw, raw[::-1])):
        reading = maia.read_letter(raw, a, b)
        assert reading.letter in {"A", "B", None}
        assert reading == maia.read_letter(raw, a, b)
    assert maia.read_verdict(raw) in {True, False, None}
    assert maia.read_verdict(raw) is maia.read_verdict(raw)
    assert maia.read_oevqa(raw) == maia.read_oevqa(raw).strip()


@given(
    st.one_of(
        st.text(alphabet=" \t\n\r\u00a0\u200b\ufeff"),
        ANSWERS.map(lambda text: f" <think>{text.replace('</think>', '')}"),
    )
)
def test_nothing_shown_is_nothing_read(raw: str) -> None:
    assert maia.read_letter(raw, NO_UMBRELLAS, UMBRELLAS) == maia.LetterReading(None, "empty")
    assert maia.read_verdict(raw) is None
    assert maia.read_oevqa(raw) == ""


@given(st.sampled_from(PLAIN), st.permutations([NO_UMBRELLAS, UMBRELLAS, TO_DOOR, TO_BENCH]))
def test_a_plain_letter_is_read_whatever_the_statements(template: str, statements: list[str]) -> None:
    a, b = statements[:2]
    for letter in "AB":
        assert maia.read_letter(template.format(letter), a, b).letter == letter
        assert maia.read_letter(template.format(letter), b, a).letter == letter


@given(st.permutations([NO_UMBRELLAS, UMBRELLAS, TO_DOOR, TO_BENCH]))
def test_a_repeated_statement_follows_its_letter(statements: list[str]) -> None:
    a, b = statements[:2]
    assert maia.read_letter(f'"{a}".', a, b).letter == "A"
    assert maia.read_letter(f'"{a}".', b, a).letter == "B"


@pytest.mark.parametrize("raw", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_hostile_text_is_read_in_under_a_second(raw: str) -> None:
    readers: list[Callable[[], object]] = [
        lambda: maia.read_letter(raw, TO_DOOR, TO_BENCH),
        lambda: maia.read_letter("A", raw, TO_BENCH),
        lambda: maia.read_oevqa(raw),
        lambda: maia.read_verdict(raw),
    ]
    for read in readers:
        # Processor time of this thread: other work on the machine must not fail the test.
        start = time.thread_time()
        read()
        assert time.thread_time() - start < 1.0


def test_both_ends_of_a_runaway_answer_are_read() -> None:
    filler = "il cane corre e poi torna " * 2_000
    for raw in (f"La risposta è B. {filler}", f"{filler}\nLa risposta è B"):
        assert maia.read_letter(raw, NO_UMBRELLAS, UMBRELLAS).letter == "B"
    assert maia.read_verdict(filler + '{"correct": false}') is False


def public_pairs() -> Iterator[tuple[str, str]]:
    for video in json.loads(PUBLIC.read_text(encoding="utf-8")):
        for entry in video["question_categories_A"] + video["question_categories_B"]:
            yield from zip(entry["true_statement"], entry["false_statement"], strict=True)


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public MAIA statements are not at hand")
@pytest.mark.parametrize(
    ("answer", "decided"),
    [
        ("{letter}", True),
        ("{letter}) {said}", True),
        ("{letter}: {said}", True),
        ("{said}", True),
        ('"{said}"', True),
        ("Risposta: {said}", True),
        ("La risposta corretta è {letter}", True),
        ("{a}\n{b}\nRisposta: {letter}", True),
        ("A) {a}\nB) {b}\n\n**Risposta:**\n**{letter}**", True),
        ("A) {a}\nB) {b}", False),
        ("{a}\n{b}", False),
    ],
)
def test_answers_over_the_public_statements(answer: str, decided: bool) -> None:
    wrong = []
    for a, b in public_pairs():
        for letter, said in (("A", a), ("B", b)):
            raw = answer.format(letter=letter, said=said, a=a, b=b)
            if maia.read_letter(raw, a, b).letter != (letter if decided else None):
                wrong.append(raw)
    assert wrong == []

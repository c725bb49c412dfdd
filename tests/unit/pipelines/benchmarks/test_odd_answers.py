"""Every reader of answers with ten thousand odd texts: no exception, deterministic, no answer from an empty text."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import pytest

from pipelines.benchmarks.maia import answers as maia_reading
from pipelines.benchmarks.maia.letters import read_letter
from pipelines.benchmarks.mate import answers as mate_reading
from pipelines.benchmarks.unpie import answers as unpie_reading
from pipelines.benchmarks.vague import answers as vague_reading
from pipelines.benchmarks.vflute import answers as vflute_reading
from tests.support.odd import EMPTY, REFUSALS, odd_answers

READINGS = {
    "A": "The speaker wants person1 to feed the parrot.",
    "B": "The speaker wants person1 to shut the window.",
    "C": "The speaker wants person1 to enjoy the breeze.",
    "D": "The speaker wants person1 to shut the curtain.",
}
GOLDS: tuple[mate_reading.Gold, ...] = ("cube", 0.351, [1.0, 2.0, 3.0])


@dataclass(frozen=True)
class Reader:
    """One parser: what it reads, and what of that is an answer (None: there is none)."""

    read: Callable[[str], Hashable]
    answer: Callable[[str], object]
    refuses: bool = True
    """Whether a refusal gives no answer; a free text is kept as it stands, and flagged."""


def choice(*, cot: bool) -> Reader:
    return Reader(
        read=lambda raw: vague_reading.parse_choice(raw, READINGS, cot=cot),
        answer=lambda raw: vague_reading.parse_choice(raw, READINGS, cot=cot).letter,
    )


def freeform(*, cot: bool) -> Reader:
    return Reader(
        read=lambda raw: vague_reading.parse_freeform(raw, cot=cot),
        answer=lambda raw: vague_reading.parse_freeform(raw, cot=cot).text or None,
        refuses=False,
    )


def authors(*, scene_graph: bool) -> Reader:
    return Reader(
        read=lambda raw: vflute_reading.parse_as_authors(raw, scene_graph=scene_graph),
        answer=lambda raw: vflute_reading.parse_as_authors(raw, scene_graph=scene_graph).label,
    )


def translation(language: unpie_reading.Language) -> Reader:
    return Reader(
        read=lambda raw: unpie_reading.read_translation(raw, language, "The baker was broke."),
        answer=lambda raw: unpie_reading.read_translation(raw, language, "The baker was broke.").text or None,
        refuses=False,
    )


def matched(raw: str) -> bool | None:
    """Return whether the phrase was named; None for a wrong answer."""
    return unpie_reading.exact_match(raw, "buoys").normalised or None


READERS = {
    "vague-choice": choice(cot=False),
    "vague-choice-cot": choice(cot=True),
    "vague-freeform": freeform(cot=False),
    "vague-freeform-cot": freeform(cot=True),
    "vflute-authors": authors(scene_graph=False),
    "vflute-authors-scene-graph": authors(scene_graph=True),
    "vflute-robust": Reader(vflute_reading.parse_robust, lambda raw: vflute_reading.parse_robust(raw).label),
    "unpie-grounding": Reader(unpie_reading.read_grounding, matched),
    "unpie-translation-de": translation("de"),
    "unpie-translation-ko": translation("ko"),
    "unpie-translation-en": translation("en"),
    "unpie-judge": Reader(unpie_reading.read_judge, unpie_reading.read_judge),
    "unpie-same-text": Reader(
        lambda raw: unpie_reading.equal_by_rule(raw, "She kneaded bread."),
        lambda raw: unpie_reading.equal_by_rule(raw, "She kneaded bread.") or None,
    ),
    "mate-strict": Reader(lambda raw: repr(mate_reading.read_strict(raw)), mate_reading.read_strict),
    "mate-lenient": Reader(lambda raw: repr(mate_reading.read_lenient(raw)), mate_reading.read_lenient),
    "mate-verdict": Reader(
        lambda raw: repr([mate_reading.judge(raw, gold) for gold in GOLDS]),
        lambda raw: any(mate_reading.judge(raw, gold).exact_match_lenient for gold in GOLDS) or None,
    ),
    "maia-letter": Reader(
        lambda raw: read_letter(raw, "Il cane corre", "Il cane dorme"),
        lambda raw: read_letter(raw, "Il cane corre", "Il cane dorme").letter,
    ),
    "maia-open": Reader(maia_reading.read_oevqa, lambda raw: maia_reading.read_oevqa(raw) or None, refuses=False),
    "maia-verdict": Reader(maia_reading.read_verdict, maia_reading.read_verdict),
}
NOT_EMPTY = {"</s>", "**``**"}
"""Marks that only those readers take for nothing whose page has them removed."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_thousands_of_odd_answers_are_read_alike_in_any_order(name: str, count: int) -> None:
    read = READERS[name].read
    texts = odd_answers(count)
    once = [read(text) for text in texts]
    assert [read(text) for text in texts[::-1]][::-1] == once
    if name != "unpie-same-text":  # a reader that takes all for one thing would pass the line above
        assert len(set(map(repr, once))) > 1


@pytest.mark.parametrize("name", READERS)
def test_no_answer_from_nothing(name: str) -> None:
    texts = EMPTY if name.startswith(("vague", "unpie")) else [text for text in EMPTY if text not in NOT_EMPTY]
    assert [text for text in texts if READERS[name].answer(text) is not None] == []


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.refuses])
def test_no_answer_from_a_refusal(name: str) -> None:
    assert [text for text in REFUSALS if READERS[name].answer(text) is not None] == []


def test_a_refusal_in_free_words_is_flagged() -> None:
    for text in REFUSALS:
        assert "refusal" in vague_reading.parse_freeform(text, cot=False).flags
        assert "refusal" in unpie_reading.read_translation(text, "de", "").flags

"""Every reader of answers: golden rows, ten thousand odd texts, long texts, and no answer from an empty text."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pipelines.benchmarks.maia import answers as maia_reading
from pipelines.benchmarks.maia.letters import LetterReading, draw_ts_letter, read_letter
from pipelines.benchmarks.mate import answers as mate_reading
from pipelines.benchmarks.mate.error_analysis import in_scene
from pipelines.benchmarks.mate.scene import parse_scene
from pipelines.benchmarks.readers.option_letters import Choice
from pipelines.benchmarks.text_cleaning import FlaggedText
from pipelines.benchmarks.unpie import answers as unpie_reading
from pipelines.benchmarks.vague import answers as vague_reading
from pipelines.benchmarks.vflute import answers as vflute_reading
from tests.support.odd import EMPTY, REFUSALS, odd_answers
from tests.support.paths import GOLDEN
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

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
    def read(raw: str) -> Hashable:
        parsed = vague_reading.parse_freeform(raw, cot=cot)
        return parsed, vague_reading.without_opener(parsed.text)

    return Reader(read=read, answer=lambda raw: vague_reading.parse_freeform(raw, cot=cot).text or None, refuses=False)


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
    "unpie-exact-match": Reader(lambda raw: unpie_reading.exact_match(raw, raw[:9]), matched),
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
        lambda raw: (read_letter(raw, "Il cane corre", "Il cane dorme"), read_letter("A", raw, "Il cane dorme")),
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


# --------------------------------------------------------------------------------------------------------- golden rows


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


SCENES = {row["id"]: parse_scene(row["scene"]) for row in golden("mate/scenes")}


def mate_verdict(row: dict[str, Any]) -> object:
    scene = SCENES[row["scene"]]
    verdict = mate_reading.judge(row["output"], scene.objects[row["asked"]].value(row["target"]))
    named = in_scene(verdict.answer, scene, row["target"])
    return verdict.exact_match, named, verdict.format_ok, verdict.exact_match_lenient


def mate_further(row: dict[str, Any]) -> object:
    verdict = mate_reading.judge(row["output"], row["gold"])
    return verdict.format_ok, verdict.exact_match, verdict.exact_match_lenient


def mate_gold(row: dict[str, Any]) -> object:
    try:
        gold = mate_reading.read_gold(row["reference"])
    except ValueError as error:
        assert "gold answer" in str(error)
        return None
    assert mate_reading.read_gold(mate_reading.gold_json(gold)) == gold
    return gold, type(gold)


def scene_graph(row: dict[str, Any]) -> object:
    return [vflute_reading.parse_as_authors(row["raw"], scene_graph=graph).explanation for graph in (True, False)]


def unimodal(row: dict[str, Any]) -> object:
    scores = row["true_scores"], row["false_scores"]
    return maia_reading.unimodal_choice(*scores), maia_reading.unimodal_vote(*scores)


GOLDEN_ROWS: Mapping[str, tuple[Callable[[dict[str, Any]], object], Callable[[dict[str, Any]], object]]] = {
    "vague/choice": (
        lambda r: vague_reading.parse_choice(r["raw"], READINGS, cot=r["cot"]),
        lambda r: Choice(letter=r["letter"], rule=r["rule"], invalid_reason=r["invalid_reason"]),
    ),
    "vague/freeform": (
        lambda r: vague_reading.parse_freeform(r["raw"], cot=r["cot"]),
        lambda r: FlaggedText(r["text"], tuple(r["flags"])),
    ),
    "vague/opener": (lambda r: vague_reading.without_opener(r["text"]), lambda r: r["rest"]),
    "vflute/answers": (
        lambda r: (vflute_reading.parse_as_authors(r["raw"], scene_graph=False), vflute_reading.parse_robust(r["raw"])),
        lambda r: (vflute_reading.Answer(*r["authors"]), vflute_reading.Answer(*r["robust"])),
    ),
    "vflute/scene_graph": (scene_graph, lambda r: [r["explanation"], r["raw"]]),
    "vflute/stage1": (lambda r: vflute_reading.stage1_question(r["instruction"]), lambda r: r["question"]),
    "maia/vsv_letter": (
        lambda r: read_letter(r["raw"], r["statement_a"], r["statement_b"]),
        lambda r: LetterReading(r["letter"], r["rule"]),
    ),
    "maia/oevqa_answer": (lambda r: maia_reading.read_oevqa(r["raw"]), lambda r: r["answer"]),
    "maia/judge_verdict": (lambda r: maia_reading.read_verdict(r["raw"]), lambda r: r["correct"]),
    "maia/ab_draw": (
        lambda r: "".join(draw_ts_letter(r["seed"], r["video"], r["category"], i) for i in range(8)),
        lambda r: r["letters"],
    ),
    "maia/unimodal": (unimodal, lambda r: (r["choice"], r["vote"])),
    "mate/reading": (
        mate_verdict,
        lambda r: (r["verdict"] == "correct", r["verdict"] != "out", r["format_ok"], r["lenient"]),
    ),
    "mate/reading_more": (mate_further, lambda r: (r["format_ok"], r["exact_match"], r["lenient"])),
    "mate/gold": (mate_gold, lambda r: None if r["gold"] is None else (r["gold"], type(r["gold"]))),
    "unpie/grounding": (
        lambda r: (unpie_reading.read_grounding(r["raw"]), unpie_reading.exact_match(r["raw"], r["gold"])),
        lambda r: (FlaggedText(r["text"], tuple(r["flags"])), unpie_reading.ExactMatch(r["normalised"], r["strict"])),
    ),
    "unpie/translation": (
        lambda r: unpie_reading.read_translation(r["raw"], r["language"], r["source"]),
        lambda r: FlaggedText(r["text"], tuple(r["flags"])),
    ),
    "unpie/judge": (lambda r: unpie_reading.read_judge(r["raw"]), lambda r: r["same"]),
    "unpie/verdict": (lambda r: unpie_reading.verdict(r["f0"], r["f1"], r["asked"]), lambda r: r["right"]),
    "unpie/same_text": (lambda r: unpie_reading.equal_by_rule(r["output"], r["original"]), lambda r: r["same"]),
}
"""File -> what is read of a row, and what must be."""


@pytest.mark.parametrize(
    ("name", "row"),
    [pytest.param(name, row, id=f"{name}-{i}") for name in GOLDEN_ROWS for i, row in enumerate(golden(name))],
)
def test_golden_rows(name: str, row: dict[str, Any]) -> None:
    read, expected = GOLDEN_ROWS[name]
    assert read(row) == expected(row)


# ---------------------------------------------------------------------------------------------------------- long texts

PIECES: Mapping[str, list[str]] = {
    "vague": [
        *(
            "A",
            "A ",
            "A, ",
            "A or ",
            "(a(b)",
            "(letter ",
            "answer: ",
            "option is ",
            "answer" + " " * 50,
            "A" + "-" * 20,
        ),
        *("A, B, C, ", "\\boxed{", "<think>", "</think>", "<|", "#", "```\n", "\n", " ", '"', "answer 2", "(intention"),
        *("The speaker wants. ", "I cannot really ", "sorry", "ﬃ", "the answer is B. ", READINGS["B"]),
    ],
    "vflute": [
        *(
            "label: ",
            "label:\n",
            "label is label ",
            "label" + " " * 50,
            "not entail. ",
            "LABEL: neither ",
            "Therefore, ",
        ),
        *("Entailment. ", "Explanation: ", "contradict:\n", "x'", ".", "<think>", "</think>", "\n", "scene graph a_b "),
    ],
    "unpie": [
        *("answer: ", "[answer ", "the the ", "pun word phrase ", "[", '"', "*", "- ", "German: ", "[German]\n", "'"),
        *(
            "German" + " " * 50,
            "\n- ",
            "note\n",
            "no\n",
            "sorry ",
            "I cannot ",
            "<think>",
            "</think>",
            "```\n",
            "\n",
            " ",
        ),
    ],
    "mate": [
        *(
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
        ),
        *(
            '{"answer": 1}',
            '{"answer": "x"}}}, ',
            '{"a":{"a":',
            "{a:[",
            "{a:'x,",
            "{a:'x'y,",
            "{answer:",
            "{“answer”:“",
        ),
        *("{'answer': 'it's ", 'x": "y", ', "{a: ", '{a:"x' + " " * 1000),
    ],
    "maia": [
        *("A,", "A B ", "non A ", "risposta corretta è ", "<think>", "</think>", " ", "\n ", "{", '{"a":', '"', "'a"),
        *("\ufdfa ", "\u249c", "A metà del video ", ":", "*", "A" + ")" * 999, "a" + "\u0315\u0300" * 99),
    ],
}
WHOLE = {
    "mate": [
        '{"answer": ' + "[" * (LONG_TEXT // 2) + "]" * (LONG_TEXT // 2) + "}",
        '{"answer": ' + "7" * LONG_TEXT + "}",
        '{"answer": "' + "7" * LONG_TEXT + '"}',
        "{" + " " * LONG_TEXT,
        '{"answer":' + " " * LONG_TEXT + '"x"',
        '{answer:"' + '" ' * (LONG_TEXT // 2),
        "{" * (LONG_TEXT // 2) + "}" * (LONG_TEXT // 2),
    ],
    "maia": ["non " + "x" * LONG_TEXT, "*" * LONG_TEXT + "risposta", '{"a":' + "[" * LONG_TEXT, " " * LONG_TEXT + "x"],
    "vflute": [
        ("the scene graph " + " ".join(f"a_{number}" for number in range(40_000)))[:length]
        for length in (19_000, LONG_TEXT)
    ],
}


@pytest.mark.full
@pytest.mark.parametrize("name", READERS)
def test_readers_take_no_quadratic_time(name: str) -> None:
    benchmark = name.partition("-")[0]
    repeated = [(piece * (LONG_TEXT // len(piece) + 1))[:LONG_TEXT] for piece in PIECES[benchmark]]
    for text in (*repeated, *WHOLE.get(benchmark, ())):
        assert_not_quadratic(READERS[name].read, text)

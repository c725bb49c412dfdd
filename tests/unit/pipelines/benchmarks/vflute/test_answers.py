"""Parsing V-FLUTE's answers: golden rows, properties, long texts, and the public rows where they are available."""

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from pipelines.benchmarks.vflute.answers import Answer, Label, parse_as_authors, parse_robust, stage1_question
from tests.support.paths import ROOT
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden" / "vflute"
PUBLIC = TESTS.parents[1] / "shared" / "data" / "vflute" / "vflute-v2-test-first400.csv"
LABELS: dict[str, Label] = {"entailment": 1, "contradiction": 0}

PIECES = [
    *(
        "LABEL:",
        "Label:",
        "label :",
        "answer is",
        "Verdict =",
        "Explanation:",
        "Therefore,",
        "Entailment.",
        "Entailment\n",
    ),
    *(
        "entails",
        "entailment",
        "Contradiction:",
        "contradicts",
        "CONTRADICTION",
        "neither",
        "neutral",
        "non-entailment",
    ),
    *(
        "not",
        "no",
        "never",
        "doesn't",
        "rather than",
        "instead of",
        "supports",
        "refutes",
        "consistent with",
        "conflict with",
    ),
    *("the scene graph", "and the scene graph", "Scene graph", "dog_house", '"red_ball"', "emoji_12", "x_a"),
    *("<think>", "</think>", "\n", "\r\n", " ", "  ", ".", ",", ":", "*", "`", "#", '"', "’", "?"),
]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
REFUSALS = ["I'm sorry, but I can't help with that.", "I cannot see the image.", "As an AI, I do not judge pictures."]
READERS: dict[str, Callable[[str], Answer]] = {
    "authors": lambda raw: parse_as_authors(raw, scene_graph=False),
    "authors-scene-graph": lambda raw: parse_as_authors(raw, scene_graph=True),
    "robust": parse_robust,
}
LONG = [
    *("label: ", "label:\n", "label is label ", "label" + " " * 50, "not entail. ", "LABEL: neither ", "Therefore, "),
    *("Entailment. ", "Explanation: ", "contradict:\n", "x'", ".", "<think>", "</think>", "\n", "scene graph a_b "),
]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", rows("answers"), ids=lambda row: repr((row["raw"] or "")[:50]))
def test_parsers_equal_the_golden_rows(row: dict[str, Any]) -> None:
    assert parse_as_authors(row["raw"], scene_graph=False) == Answer(*row["authors"])
    assert parse_robust(row["raw"]) == Answer(*row["robust"])


@pytest.mark.parametrize("row", rows("scene_graph"), ids=lambda row: row["raw"])
def test_parse_as_authors_removes_mentions_of_the_scene_graph(row: dict[str, Any]) -> None:
    assert parse_as_authors(row["raw"], scene_graph=True).explanation == row["explanation"]
    assert parse_as_authors(row["raw"], scene_graph=False).explanation == row["raw"]


@pytest.mark.parametrize("row", rows("stage1"), ids=lambda row: row["instruction"])
def test_stage1_question_equals_the_golden_rows(row: dict[str, Any]) -> None:
    assert stage1_question(row["instruction"]) == row["question"]


def test_parse_as_authors_accepts_missing_text() -> None:
    assert parse_as_authors(None, scene_graph=True) == Answer(None, None)


def test_parse_as_authors_replaces_underscores_in_long_texts() -> None:
    text = "the scene graph " + "a_b emoji_1 " * 6_000
    explanation = parse_as_authors(text, scene_graph=True).explanation
    assert explanation is not None
    assert explanation == "the image " + "a b emoji_1 " * 5_999 + "a b emoji_1"


@pytest.mark.full
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("piece", LONG, ids=repr)
def test_parsers_take_no_quadratic_time(piece: str, read: Callable[[str], Answer]) -> None:
    raw = (piece * (LONG_TEXT // len(piece) + 1))[:LONG_TEXT]
    assert_not_quadratic(lambda text: (read(text), stage1_question(text)), raw)


@pytest.mark.full
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_parsers_take_no_quadratic_time_for_many_words_with_underscores(read: Callable[[str], Answer]) -> None:
    for length in (19_000, LONG_TEXT):
        raw = ("the scene graph " + " ".join(f"a_{number}" for number in range(40_000)))[:length]
        assert_not_quadratic(read, raw)


# ---------------------------------------------------------------------------------------- public rows


@pytest.fixture(scope="module")
def public_rows() -> list[dict[str, str]]:
    if not PUBLIC.is_file():
        pytest.skip(f"the public rows of V-FLUTE are not at {PUBLIC}")
    with PUBLIC.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_parsers_recover_label_and_explanation_of_public_rows(public_rows: list[dict[str, str]]) -> None:
    for row in public_rows:
        label, reference = LABELS[row["label"]], row["explanation"].strip()
        raw = f"{row['explanation']}\nLABEL: {row['label']}"
        explanation = reference.rpartition("Therefore,")[0].strip() or reference
        authors, robust = parse_as_authors(raw, scene_graph=False), parse_robust(raw)
        assert authors == Answer(label, explanation if "Therefore," in reference else reference), row["id"]
        assert robust == Answer(label, reference.translate(str.maketrans("", "", "*`#")).strip()), row["id"]


@pytest.mark.parametrize(
    "marker", ["**Label:** {}", "Final answer: {}.", "The label is {}.", "Label:\n{}", "Verdict - {}"]
)
def test_parse_robust_finds_other_markers_after_public_explanations(
    public_rows: list[dict[str, str]], marker: str
) -> None:
    for row in public_rows:
        reading = parse_robust(f"{row['explanation']}\n\n{marker.format(row['label'].title())}")
        expected = row["explanation"].translate(str.maketrans("", "", "*`#")).strip()
        assert reading == Answer(LABELS[row["label"]], expected), row["id"]


def test_parse_robust_finds_a_label_before_public_explanations(public_rows: list[dict[str, str]]) -> None:
    for row in public_rows:
        reading = parse_robust(f"Label: {row['label']}\n{row['explanation']}")
        expected = row["explanation"].translate(str.maketrans("", "", "*`#")).strip()
        assert reading == Answer(LABELS[row["label"]], expected), row["id"]


def test_stage1_question_keeps_the_claim_of_public_rows(public_rows: list[dict[str, str]]) -> None:
    for row in public_rows:
        question = stage1_question(row["prompt"].replace("REPLACE_CLAIM", f'"{row["claim"]}"'))
        assert "?" not in question
        assert row["claim"].replace("?", " ") in question
        assert "label" not in question.replace(row["claim"], "")

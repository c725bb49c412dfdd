"""Parsing V-FLUTE's answers: missing and long texts, and the public rows where they are available."""

import csv

import pytest

from pipelines.benchmarks.vflute.answers import Answer, Label, parse_as_authors, parse_robust, stage1_question
from tests.support.paths import SHARED_DATA

PUBLIC = SHARED_DATA / "vflute" / "vflute-v2-test-first400.csv"
LABELS: dict[str, Label] = {"entailment": 1, "contradiction": 0}


def test_parse_as_authors_accepts_missing_text() -> None:
    assert parse_as_authors(None, scene_graph=True) == Answer(None, None)


def test_parse_as_authors_replaces_underscores_in_long_texts() -> None:
    explanation = parse_as_authors("the scene graph " + "a_b emoji_1 " * 6_000, scene_graph=True).explanation
    assert explanation == "the image " + "a b emoji_1 " * 5_999 + "a b emoji_1"


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
    "form",
    [
        *("{0}\n\n**Label:** {1}", "{0}\n\nFinal answer: {1}.", "{0}\n\nThe label is {1}.", "{0}\n\nLabel:\n{1}"),
        *("{0}\n\nVerdict - {1}", "Label: {2}\n{0}"),
    ],
)
def test_parse_robust_finds_other_markers_around_public_explanations(
    public_rows: list[dict[str, str]], form: str
) -> None:
    for row in public_rows:
        reading = parse_robust(form.format(row["explanation"], row["label"].title(), row["label"]))
        expected = row["explanation"].translate(str.maketrans("", "", "*`#")).strip()
        assert reading == Answer(LABELS[row["label"]], expected), row["id"]


def test_stage1_question_keeps_the_claim_of_public_rows(public_rows: list[dict[str, str]]) -> None:
    for row in public_rows:
        question = stage1_question(row["prompt"].replace("REPLACE_CLAIM", f'"{row["claim"]}"'))
        assert "?" not in question
        assert row["claim"].replace("?", " ") in question
        assert "label" not in question.replace(row["claim"], "")

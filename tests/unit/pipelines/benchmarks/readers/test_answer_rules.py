"""The readers of answers follow docs/answers.md: its tables, golden rows, generated replies, any text, linear time."""

from __future__ import annotations

import json
import re
from functools import cache
from string import ascii_uppercase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.readers.amounts import parse_number, read_number
from pipelines.benchmarks.readers.short_answers import normalized, phrase, read_label, read_yes_no
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.benchmarks.table.answers import judged_score, read_answer
from pipelines.benchmarks.text_cleaning import latin_letters
from tests.support.answer_grammar import LABELS, OPTIONS, cases
from tests.support.paths import GOLDEN, ROOT
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

PAGE = (ROOT / "docs/answers.md").read_text(encoding="utf-8")
ROWS = [json.loads(line) for line in (GOLDEN / "answers" / "short.jsonl").read_text(encoding="utf-8").splitlines()]
MARK = re.compile(r"`([^`]*)`")


def answer_of(kind: str, reply: str, names: tuple[str, ...] = ()) -> str | None:
    """Return what a table benchmark takes from a reply, as a run does: cleaned first."""
    data: dict[str, Any] = {"answers": ["x"], "gold": 0.0 if kind == "number" else 0, "options": list(names)}
    definition = TableDefinition(name="t", kind=kind, labels=names)  # type: ignore[arg-type]

    def read(text: str) -> str | None:
        row = Row(
            request_id="r",
            sample=Sample(sample_id="a", data=data),
            model="m",
            task=kind,
            setting="default",
            variant="",
            status="ok",
            output=text,
        )
        return read_answer(definition, row).answer

    return read(clean_reply(reply, lambda text: read(text) is not None)[0])


def matches(kind: str, reply: str, answer: str | float | None, names: tuple[str, ...] = ()) -> bool:
    if kind in ("equal", "different"):
        cleaned, _ = clean_reply(reply)
        return (normalized(phrase(cleaned)) == normalized(str(answer))) is (kind == "equal")
    read = answer_of(kind, reply, names)
    if kind == "number" and read is not None and answer is not None:
        return float(read) == pytest.approx(float(answer), rel=1e-12)
    return read == answer


# ------------------------------------------------------------------------------------------------- rules


def page_rows() -> list[tuple[str, list[str]]]:
    """Return the rows of the page's tables, each with the heading of its first column."""
    rows, heading = list[tuple[str, list[str]]](), ""
    lines = PAGE.splitlines()
    for number, line in enumerate(lines):
        fields = [field.strip() for field in line.strip("|").split(" | ")]
        if not line.startswith("| "):
            continue
        if lines[number + 1].startswith("|---"):
            heading = fields[0]
        else:
            rows.append((heading, [mark[1] if (mark := MARK.fullmatch(field)) else field for field in fields]))
    return rows


@pytest.mark.parametrize(("heading", "fields"), page_rows(), ids=lambda value: str(value)[:60])
def test_examples_of_the_page(heading: str, fields: list[str]) -> None:
    reply, answer = fields[0].replace("↵", "\n"), None if fields[1] == "unreadable" else fields[1]
    if heading == "first":
        assert (normalized(phrase(reply)) == normalized(fields[1])) is (fields[2] == "yes")
        return
    kind, _, names = heading.partition(" of ")
    options = tuple(names.split(", ")) if names else ()
    read = {"letter": "choice", "yes or no": "yes-no"}.get(kind, kind)
    assert matches(read, reply, answer, options)


def test_the_page_has_examples_of_every_reader() -> None:
    rows = page_rows()
    assert len(rows) > 60
    assert {heading.partition(" of ")[0] for heading, _ in rows} == {"letter", "number", "first", "label", "yes or no"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}: {row['reply'][:40]!r}")
def test_golden_answers(row: dict[str, Any]) -> None:
    if row["kind"] == "text":
        assert (normalized(phrase(row["reply"])) == normalized(row["reference"])) is row["answer"]
    else:
        names = tuple(row.get("labels", row.get("options", ())))
        assert matches(row["kind"], row["reply"], row["answer"], names)


@pytest.mark.parametrize("count", [300, pytest.param(90_000, marks=pytest.mark.fuzz)])
def test_generated_replies_are_read_by_the_rules(count: int) -> None:
    names = {"label": LABELS, "choice": tuple(OPTIONS.values())}
    wrong = [case for case in cases(count) if not matches(case.kind, case.reply, case.answer, names.get(case.kind, ()))]
    assert wrong == []


@pytest.mark.parametrize(
    ("gold", "number"),
    [
        ("4,5", 4.5),
        ("1.250,5", 1250.5),
        ("2 602", 2602.0),
        ("1/2", 0.5),
        ("½", 0.5),
        ("$5", 5.0),
        ("4.2 million", 4.2e6),
    ],
)
def test_right_answers_are_read_by_the_same_grammar(gold: str, number: float) -> None:
    assert parse_number(gold) == number


def test_a_number_is_stored_with_all_its_digits() -> None:
    assert answer_of("number", "1,234,567.5") == "1234567.5"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("We have \\boxed{2}. The answer is yes.", True),
        ("<result>first</result> <answer>no</answer>", False),
        ("<answer>no</answer> and not <answer>yes</answer>", False),
    ],
)
def test_judges_replies_are_cleaned_for_what_they_can_read(reply: str, verdict: bool) -> None:
    judged = TableDefinition(name="t", kind="open")
    text, _ = clean_reply(reply, lambda text: judged_score(judged, text) is not None)
    assert judged_score(judged, text) == verdict


# ------------------------------------------------------------------------------------------- any text

PIECES = (
    *(
        "1",
        "1,",
        "1 234",
        ".5",
        "½",
        "¼ ",
        "\\frac",
        "\\frac{1}{",
        "half ",
        "2 and a ",
        "5 million ",
        "千",
        "^",
        "**",
        "*a",
    ),
    *(
        "answer ",
        "answer is ",
        "Antwort: ",
        "答案是",
        "not ",
        " or ",
        " = ",
        " - ",
        "1\n",
        "(",
        "$",
        "$a",
        "\\(",
        "_{",
        "' ",
        "a ",
    ),
    *(
        "А ",
        "В и ",
        "🅱",
        "U.S.",
        "5 €",
        "red: ",
        "red, ",
        "\\boxed{",
        "\\boxed{A}",
        "<answer>",
        "</answer>",
        "so ",
        "1^",
        "a hundred ",
        *("*", "so, ", "> "),
    ),
)


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    number = read_number(text)
    assert number is None or abs(number) < float("inf")
    assert read_yes_no(text) in ("yes", "no", None)
    assert read_label(text, ("red", "blue")) in ("red", "blue", None)
    assert answer_of("choice", text, ("x", "y", "z")) in (*ascii_uppercase[:3], None)
    assert normalized(normalized(text)) is not None


@cache
def reader(name: str) -> Any:
    return {
        "number": read_number,
        "text": normalized.__wrapped__,
        "phrase": phrase,
        "label": lambda text: read_label(text, ("red", "dark red", "blue")),
        "yes-no": read_yes_no,
        "letters": latin_letters,
        "wrappers": lambda text: clean_reply(f"\\boxed{{A}} {text}", lambda _: False),
    }[name]


@pytest.mark.full
@pytest.mark.parametrize("name", ["number", "text", "phrase", "label", "yes-no", "letters", "wrappers"])
def test_time_is_linear_in_the_text(name: str) -> None:
    for piece in PIECES:
        assert_not_quadratic(reader(name), (piece * LONG_TEXT)[: LONG_TEXT // 4])

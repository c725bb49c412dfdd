"""Reasons of rejected rows are readable for any defect in any field of any reader."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from pipelines.benchmarks.maia.source import _Question
from pipelines.benchmarks.vague.source import _Row
from pipelines.benchmarks.validation import format_validation_error
from pipelines.benchmarks.vflute.source import TextRow

EIGHT = [f"text {n}" for n in range(8)]
ROWS: dict[type[BaseModel], dict[str, Any]] = {
    TextRow: {
        "id": "1",
        "source_dataset": "irfl",
        "phenomenon": "idiom",
        "claim": "c",
        "label": "entailment",
        "explanation": "e",
    },
    _Question: {
        "category": "Spatial_A",
        "question": "q",
        "answer": EIGHT,
        "true_statement": EIGHT,
        "false_statement": EIGHT[::-1],
    },
    _Row: {
        "image_name": "a.jpg",
        "indirect": "go",
        "meta": {"img_size": {"width": 4.0, "height": 3.0}, "person_bbox": [[0.0, 0.0, 1.0, 1.0]]},
        "mcq": {
            "ordering": ["A", "B", "C", "D"],
            "1_correct": "a",
            "2_fake_scene": "b",
            "3_surface_understanding": "c",
            "4_wrong_entity": "d",
        },
    },
}
ODD: tuple[Any, ...] = (None, 7, 1.5, True, "", " ", "x", [], ["x"], [1] * 9, {}, {"x": 1}, float("nan"), -1.0)


def fault(record: type[BaseModel], row: Any) -> str:
    try:
        record.model_validate(row)
    except ValidationError as error:
        return format_validation_error(error)
    return ""


@pytest.mark.parametrize(
    ("record", "change", "message"),
    [
        (TextRow, {"claim": "  "}, "claim: is empty"),
        (TextRow, {"claim": 7}, "claim: must be text, not 7"),
        (TextRow, {"claim": None}, "claim: must be text, not nothing"),
        (TextRow, {"label": "neutral"}, "label: must be 'entailment' or 'contradiction', not 'neutral'"),
        (_Question, {"answer": EIGHT[:7]}, "answer: must have at least 8 entries, not 7"),
        (_Question, {"answer": [*EIGHT, "x"]}, "answer: must have at most 8 entries, not 9"),
        (_Question, {"answer": [*EIGHT[:7], " "]}, "answer.7: is empty"),
        (_Row, {"mcq": []}, "mcq: must be an object of named fields, not []"),
        (_Row, {"meta": {"img_size": {"width": 0.0, "height": -2.5}}}, "meta.img_size.width: must be greater than 0,"),
    ],
)
def test_fault_describes_the_field(record: type[BaseModel], change: dict[str, Any], message: str) -> None:
    assert fault(record, ROWS[record]) == ""
    assert fault(record, ROWS[record] | change).startswith(message)
    assert fault(record, []).startswith("row: must be an object of named fields")


@pytest.mark.parametrize("record", ROWS, ids=lambda record: record.__name__)
def test_faults_contain_no_jargon_of_the_validator(record: type[BaseModel]) -> None:
    row = ROWS[record]
    messages = [fault(record, {key: value for key, value in row.items() if key != missing}) for missing in row]
    messages += [fault(record, row | {name: odd}) for name in row for odd in ODD]
    assert any(messages)
    assert any("is missing" in message for message in messages)
    for message in messages:
        assert not any(
            word in message for word in ("pattern", "Input should", "should have", "Field required", "valid ")
        )

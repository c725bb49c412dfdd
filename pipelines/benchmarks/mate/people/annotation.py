"""MATE's annotation form: answer the questions of scenes, with the prompt that models get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.rows import COT, question_of, shots_of
from pipelines.benchmarks.mate.scene import parse_scene
from pipelines.benchmarks.mate.scene_rows import PICTURE
from pipelines.benchmarks.people.annotation import AnnotationForm, AnnotationItem, AnnotationPart, Question
from pipelines.benchmarks.records import Row, Sample


def annotation_form(samples: Iterable[Sample], _rows: Iterable[Row], /) -> AnnotationForm:
    """Return a form with one item per question; its answers are `predictions`, bare or as a JSON object."""
    return AnnotationForm(
        kind="predictions",
        annotator="evaluator",
        title="MATE: which object, and what is it like?",
        instructions=(
            "Read the text, look at the picture where there is one, and type the answer to the last question.",
            "The bare value is enough, such as red, Object_3, 0.35 or [1.5, -0.2, 0.7]; numbers as in the text.",
        ),
        items=[
            _item(sample, row) for sample in samples for row in sample.data["rows"] if row["setting"] != COT
        ],  # with steps the questions are those of two examples
        default_strata=("task", "objects"),
    )


def _item(sample: Sample, row: Mapping[str, Any]) -> AnnotationItem:
    task, setting, scene = row["task"], row["setting"], sample.data["scene"]
    text = row["text"]
    if text is None:
        text = build_prompt(parse_scene(scene), question_of(row), shots_of(row), cot=False)
    return AnnotationItem(
        item_id=f"{sample.sample_id}/{task}/{setting}",
        strata={
            "task": task,
            "setting": setting,
            "objects": str(len(scene["objects"])),
            "pointer": row["pointer"][0],
            "target": row["target"],
        },
        texts=(("Task", text),),
        picture=None if task == "txt2txt" else sample.ref(PICTURE),
        parts=(
            AnnotationPart(
                fields={"example_id": sample.sample_id, "task": task, "setting": setting},
                questions=(Question(column="prediction", label=f"Answer ({row['target']})"),),
            ),
        ),
    )

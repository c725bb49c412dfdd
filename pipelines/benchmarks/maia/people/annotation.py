"""MAIA's annotation form: does a model's open answer match the people's answers?"""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.benchmarks.people.annotation import YES_NO, AnnotationForm, AnnotationItem, AnnotationPart, Question
from pipelines.benchmarks.records import Row, Sample


def annotation_form(_samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
    """Return a form with one item per open answer; its answers are `ratings`, which the judge joins as a rater."""
    return AnnotationForm(
        kind="ratings",
        annotator="rater",
        title="MAIA: is the open answer correct?",
        instructions=("Correct is what agrees in meaning with at least one reference; the words do not matter.",),
        items=[_item(row) for row in rows if row.task == "oevqa"],
        default_strata=("category", "setting"),
    )


def _item(row: Row) -> AnnotationItem:
    name = f"{row.model}/{row.setting}/{row.sample.sample_id}"
    references = "\n".join(f"{number}. {text}" for number, text in enumerate(row.sample.data["answers"], start=1))
    return AnnotationItem(
        item_id=name,
        strata={"category": row.sample.category, "setting": row.setting, "model": row.model},
        texts=(("Question", str(row.sample.data["question"])), ("References", references)),
        parts=(
            AnnotationPart(
                fields={"item_id": name},
                texts=(("Answer", row.output or ""),),
                questions=(Question(column="correct", label="Is the answer correct?", options=YES_NO),),
            ),
        ),
    )

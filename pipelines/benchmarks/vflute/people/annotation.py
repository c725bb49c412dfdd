"""V-FLUTE's annotation form: are models' explanations adequate, what is wrong with them, and which is the best?"""

from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.benchmarks.people.annotation import (
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    Question,
    packaged_form,
)
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.vflute.answers import parse_as_authors

_ERRORS: Final = tuple(load_facts(__package__, "people.yaml")["errors"].items())


def annotation_form(_samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
    """Return a form with one item per sample: the explanations of all systems; its answers are `judgements`."""
    by_sample: dict[str, list[Row]] = {}
    for row in rows:
        if row.setting != "label-only":
            by_sample.setdefault(row.sample.sample_id, []).append(row)
    return packaged_form(__package__, [_item(rows) for rows in by_sample.values()])


def _item(rows: Sequence[Row]) -> AnnotationItem:
    sample = rows[0].sample
    return AnnotationItem(
        item_id=sample.sample_id,
        strata={"subset": sample.subset, "category": sample.category, "label": str(sample.data["label"])},
        texts=(("Caption", str(sample.data["claim"])), ("Right label", str(sample.data["label"]))),
        picture=sample.ref("picture"),
        parts=[_part(row) for row in rows],
    )


def _part(row: Row) -> AnnotationPart:
    answer = parse_as_authors(row.output, scene_graph=row.setting == "scene-graph")
    return AnnotationPart(
        fields={"id": row.sample.sample_id, "system": f"{row.model}/{row.setting}"},
        texts=(("Explanation", answer.explanation or "(empty)"),),
        questions=(
            Question(column="adequate", label="Is it adequate?", options=YES_NO),
            Question(column="error_type", label="What is wrong?", options=_ERRORS, shown_if=("adequate", "0")),
        ),
    )

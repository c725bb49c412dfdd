"""VAGUE's annotation form: choose among the readings of an item, as models do in `mcq` with the picture."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.benchmarks.people.annotation import (
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    Question,
    packaged_form,
)
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.vague.prompts import readings_by_letter


def annotation_form(samples: Iterable[Sample], _rows: Iterable[Row], /) -> AnnotationForm:
    """Return a form with one item per sample; its answers are `choices`."""
    return packaged_form(__package__, [_item(sample) for sample in samples])


def _item(sample: Sample) -> AnnotationItem:
    readings = sorted(readings_by_letter(sample).items())
    options = [(letter, f"{letter}: {reading}") for letter, reading in readings]
    rating = sample.data.get("rating") or {}
    return AnnotationItem(
        item_id=sample.sample_id,
        strata={"subset": sample.subset, "rating": f"{rating.get('direct', '')}/{rating.get('indirect', '')}"},
        texts=(("The speaker says", str(sample.data["indirect"])),),
        picture=sample.ref("picture"),
        parts=(
            AnnotationPart(
                fields={"image_name": sample.sample_id},
                questions=(Question(column="letter", label="The speaker's intention", options=options),),
            ),
        ),
    )

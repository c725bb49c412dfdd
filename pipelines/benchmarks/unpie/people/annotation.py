"""UNPIE's annotation form: does a model's output match, being the right translation or the same pun?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pipelines.benchmarks.people.annotation import (
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    Question,
    packaged_form,
)
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.source import EXPLANATION, disambiguator

_QUESTIONS: Final = {
    "disambiguation": "Does the translation have the meaning that was asked for, and not the other one?",
    "reconstruction": "Is it the same pun: does it play on the same word or sound, with both meanings alive?",
}


def annotation_form(_samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
    """Return a form with one item per output of `disambiguation` and `reconstruction`; its answers are `labels`."""
    return packaged_form(__package__, [_item(row) for row in rows if row.task in _QUESTIONS])


def _item(row: Row) -> AnnotationItem:
    lang, _, meaning = row.variant.partition("/")
    role = disambiguator(int(meaning)) if row.task == "disambiguation" else EXPLANATION
    return AnnotationItem(
        item_id=f"{row.model}/{row.task}/{row.setting}/{row.sample.sample_id}/{row.variant}",
        strata={
            "task": row.task,
            "language": LANGUAGES[lang],
            "category": row.sample.category,
            "setting": row.setting,
            "model": row.model,
        },
        texts=tuple(_texts(row, lang, int(meaning))),
        picture=None if row.setting == "lm" else row.sample.ref(role),
        parts=(
            AnnotationPart(
                fields={
                    "sample_id": row.sample.sample_id,
                    "variant": row.variant,
                    "model": row.model,
                    "setting": row.setting,
                    "task": row.task,
                },
                texts=(("Candidate", row.output or ""),),
                questions=(Question(column="human", label=_QUESTIONS[row.task], options=YES_NO),),
            ),
        ),
    )


def _texts(row: Row, lang: str, meaning: int) -> Iterator[tuple[str, str]]:
    data = row.sample.data
    yield "Pun", str(data["sentence"])
    if row.task == "disambiguation":
        yield "Translation of the meaning that was asked for", str(data["translation"][meaning][lang])
        yield "Translation of the other meaning", str(data["translation"][1 - meaning][lang])

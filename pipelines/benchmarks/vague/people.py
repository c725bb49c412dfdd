"""People's work on VAGUE: the published baseline (one person, 400 unnamed items), files of choices, and the form."""

from collections.abc import Iterable
from typing import ClassVar, Final

from pipelines.benchmarks.human import AnnotationForm, AnnotationItem, AnnotationPart, HumanKind, HumanLevel, Question
from pipelines.benchmarks.people import FileBaseline
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.vague.facts import ERRORS, HUMAN, HUMAN_ITEMS, HUMAN_LISTED, HUMAN_SUBSETS, SETTINGS
from pipelines.benchmarks.vague.prompts import LETTERS, readings_by_letter

_TASK: Final = "mcq"
_SETTING: Final = "vlm"  # people see the picture
_ACCURACY: Final = Key("accuracy", _TASK)


class VagueHumanBaseline(FileBaseline):
    """Accuracy of one person, and comparisons with the people of the files."""

    name = "vague"
    title = "VAGUE"
    kinds = (
        HumanKind(
            name="choices",
            columns=("image_name", "annotator", "letter"),
            about="A person's choice, A to D, among the readings of an item in the order as distributed.",
            item=("image_name",),
            values={"letter": LETTERS},
            sample="image_name",
            sample_noun="item",
            answer={"task": _TASK, "setting": _SETTING, "output": "{letter}"},
        ),
    )
    agreement_headings: ClassVar = {_TASK: "Choices"}
    measures: ClassVar = {_ACCURACY: "correct"}
    compared_settings = SETTINGS
    people_columns: ClassVar = {
        "Accuracy": _ACCURACY,
        "Correct": Key("count_correct", _TASK),
        **{head: Key(metric, _TASK) for metric, head in ERRORS.items()},
    }
    people_settings = SETTINGS

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return the person's accuracy, for the listed items or those that stand in for them, and the errors."""
        subsets = {key.subset for key in results.ours}
        return [
            HumanLevel(
                task=_TASK,
                metric=metric,
                subset=subset,
                settings=("vlm", "vlm-cot"),
                value=results.value(Key(metric, _TASK, _SETTING, HUMAN_LISTED, model=HUMAN), "published"),
                n=HUMAN_ITEMS,
                chance=0.25 if metric == "accuracy" else None,
                items="same" if subset == HUMAN_LISTED else "approximate",
                tables=("Table 2",) if metric == "accuracy" else (),
                drawn=("vlm",) if metric == "accuracy" else (),
                printed_subset=HUMAN_LISTED,
                source="Table 2: one person, 400 items; 374 of the 398 answers counted",
            )
            for subset in HUMAN_SUBSETS
            if subset in subsets
            for metric in ("accuracy", *ERRORS, "count_correct", "count_invalid")
        ]

    def annotation_form(self, samples: Iterable[Sample], _rows: Iterable[Row], /) -> AnnotationForm:
        """Return a form with one item per sample; its answers are `choices`."""
        return AnnotationForm(
            kind="choices",
            title="VAGUE: what does the speaker want?",
            instructions=(
                "The speaker, who is not in the picture, says this to somebody in it. Choose what is meant.",
            ),
            items=[_item(sample) for sample in samples],
            default_strata=("subset",),
        )


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
            AnnotationPart({"image_name": sample.sample_id}, (Question("letter", "The speaker's intention", options),)),
        ),
    )

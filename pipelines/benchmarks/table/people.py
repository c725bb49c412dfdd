"""People on a table benchmark: a form with the questions as models get them, and files of answers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar, Final
from unicodedata import normalize

from pipelines.benchmarks.human import (
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    HumanKind,
    HumanRow,
    Question,
)
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.people import FileBaseline
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.results import Key
from pipelines.benchmarks.table.kinds import DEFAULT, OFFICIAL, row_kind

if TYPE_CHECKING:
    from pipelines.benchmarks.human import HumanBaseline

_MAX_CHOICES: Final = 12  # labels that a form shows to be clicked; more are typed


def _as_ingested(row: HumanRow) -> HumanRow:
    return {**row, "sample_id": normalize("NFC", row["sample_id"])}


_LABELS: Final = HumanKind(
    name="labels",
    columns=("sample_id", "model", "setting", "annotator", "correct"),
    about="A person's 0 or 1 on a model's answer, which the judge judges too.",
    item=("model", "setting", "sample_id"),
    values={"correct": ("0", "1")},
    read=_as_ingested,
    sample="sample_id",
    label=lambda row: (row["model"], "open", row["setting"], row["sample_id"], ""),
    label_column="correct",
)


def human_baseline(definition: TableDefinition) -> "HumanBaseline":
    """Return what is known of people on a table: the answers of files, scored like a model's."""
    kind = definition.kind

    class TableBaseline(FileBaseline):
        """People's answers in the setting `default`."""

        name = definition.name
        title = definition.title or definition.name
        kinds: ClassVar = (
            HumanKind(
                name="answers",
                columns=("sample_id", "annotator", "answer"),
                about="A person's answer to a question, as a model answers: a letter, a word, a number.",
                item=("sample_id",),
                may_be_empty=("answer",),
                read=_as_ingested,
                sample="sample_id",
                answer={"task": kind, "setting": DEFAULT, "output": "{answer}"},
            ),
            *((_LABELS,) if kind == "open" else ()),
        )
        measures: ClassVar = (
            {}
            if kind == "open"
            else {
                Key("accuracy", kind): "correct",
                **({Key(OFFICIAL, kind): OFFICIAL} if kind in definition.scorers else {}),
            }
        )
        agreement_headings: ClassVar = {} if kind in ("open", "text") else {kind: kind}
        people_columns: ClassVar = (
            {"ROUGE-L": Key("rouge", kind)} if kind == "open" else {"Accuracy": Key("accuracy", kind)}
        )
        people_settings = (DEFAULT,)

        def annotation_form(self, samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
            """Return a form with one item per row, a file of kind `answers`; of `open` per model's answer: `labels`."""
            return _form(definition, samples, rows)

    return TableBaseline()


def _form(definition: TableDefinition, samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
    if definition.kind == "open":
        return AnnotationForm(
            kind="labels",
            title=f"{definition.title or definition.name}: is the answer correct?",
            instructions=("Correct is what agrees in meaning with a reference; the words do not matter.",),
            items=[_answer_item(definition, row) for row in rows],
            default_strata=("setting", "category"),
        )
    return AnnotationForm(
        kind="answers",
        title=definition.title or definition.name,
        instructions=("Look at the picture or clip where there is one, and answer the question.",),
        items=[_item(definition, sample) for sample in samples if row_kind(definition, sample) == definition.kind],
        default_strata=("category",),
    )


def _answer_item(definition: TableDefinition, row: Row) -> AnnotationItem:
    fields = {"sample_id": row.sample.sample_id, "model": row.model, "setting": row.setting}
    item = _item(definition, row.sample)
    return replace(
        item,
        item_id=f"{row.model}/{row.setting}/{row.sample.sample_id}",
        strata={**item.strata, "setting": row.setting, "model": row.model},
        texts=(*item.texts, ("References", "\n".join(row.sample.data["answers"]))),
        parts=(
            AnnotationPart(
                fields, (Question("correct", "Is the answer correct?", YES_NO),), (("Answer", row.output or ""),)
            ),
        ),
    )


def _item(definition: TableDefinition, sample: Sample) -> AnnotationItem:
    hint, question = sample.data.get("hint", ""), sample.data.get("question", "") or definition.prompt
    return AnnotationItem(
        item_id=sample.sample_id,
        strata={"task": definition.kind, "setting": DEFAULT, "category": sample.category, "subset": sample.subset},
        texts=(*((("Hint", hint),) if hint else ()), ("Question", question)),
        picture=sample.media[0] if sample.media else None,
        further=sample.media[1:],
        parts=(
            AnnotationPart(
                {"sample_id": sample.sample_id}, (Question("answer", "Answer", _options(definition, sample)),)
            ),
        ),
    )


def _options(definition: TableDefinition, sample: Sample) -> Sequence[tuple[str, str]]:
    if definition.kind == "choice":
        pairs = zip(ascii_uppercase, sample.data["options"], strict=False)
        return [(letter, f"{letter}. {text}") for letter, text in pairs]
    if definition.kind == "yes-no":
        return (("yes", "Yes"), ("no", "No"))
    return [(label, label) for label in definition.labels] if len(definition.labels) <= _MAX_CHOICES else ()

"""People's work on UNPIE: chance levels, files with answers and labels of models' outputs, and the annotation form.

No human result on the tasks is published; labels measure the agreement of our verdicts with people's (Tables 8 and 9).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import ClassVar, Final

import pandas as pd

from pipelines.benchmarks.human import (
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    HumanKind,
    HumanLevel,
    HumanRow,
    OutputKey,
    Question,
)
from pipelines.benchmarks.people import FileBaseline, paired_metrics
from pipelines.benchmarks.records import Metric, Row, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.unpie.files import LANGUAGES
from pipelines.benchmarks.unpie.metrics import ALL, HEADLINES, KINDS, PAIRS
from pipelines.benchmarks.unpie.prompts import VARIANTS
from pipelines.benchmarks.unpie.source import EXPLANATION, disambiguator

_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": ("sm", "vlm"),
    "reconstruction": ("lm", "sm", "vlm"),
}
_SETTING: Final = "vlm"  # people see the picture
_MEASURES: Final[Mapping[Key, str]] = {
    Key("exact_match", "grounding"): "correct",
    Key("accuracy", "disambiguation"): "correct",
    Key("correct_pct", "reconstruction"): "accepted",
}
_TABLES: Final = {"grounding": "Table 4", "disambiguation": "Table 5", "reconstruction": "Table 6"}
_UNPUBLISHED: Final = "no human score on this task is published"


def _label(row: HumanRow) -> HumanRow:
    """Return a label with its task: `lm` alone implies reconstruction."""
    task = row["task"] or ("reconstruction" if row["setting"] == "lm" else "")
    if row["setting"] not in _SETTINGS.get(task, ()):
        raise ValueError(
            f"setting {row['setting']!r} of task {task!r}: expected disambiguation "
            "with sm or vlm, or reconstruction with lm, sm or vlm"
        )
    return {**row, "task": task}


def _output_key(row: HumanRow) -> OutputKey:
    return row["model"], row["task"], row["setting"], row["sample_id"], row["variant"]


def _answer(row: HumanRow) -> HumanRow:
    """Return an answer whose task has such a variant."""
    variants = [""] if row["task"] == "grounding" else [f"{lang}/{meaning}" for lang, meaning in VARIANTS]
    if row["task"] in _TABLES and row["variant"] not in variants:
        expected = "an empty one" if row["task"] == "grounding" else f"one of {', '.join(variants)}"
        raise ValueError(f"variant of {row['task']} is {row['variant']!r}, expected {expected}")
    return row


_QUESTIONS: Final = {
    "disambiguation": "Does the translation have the meaning that was asked for, and not the other one?",
    "reconstruction": "Is it the same pun: does it play on the same word or sound, with both meanings alive?",
}


class UnpieHumanBaseline(FileBaseline):
    """Chance levels, and comparisons with the people of the files."""

    name = "unpie"
    title = "UNPIE"
    label_kind = "labels"
    kinds = (
        HumanKind(
            name="labels",
            columns=("sample_id", "variant", "model", "setting", "human"),
            optional=("task", "annotator"),
            about="A person's 0 or 1 on one output of a model: the right translation (task disambiguation), or the same"
            " pun (task reconstruction). The column task may be left out where the setting is lm, the column annotator"
            " where one person labels.",
            item=("task", "setting", "sample_id", "variant", "model"),
            values={"human": ("0", "1")},
            read=_label,
            sample="sample_id",
            label=_output_key,
            label_column="human",
        ),
        HumanKind(
            name="answers",
            columns=("sample_id", "task", "variant", "annotator", "answer"),
            about="A person's own answer to a task with its picture, scored like a model's.",
            item=("sample_id", "task", "variant"),
            may_be_empty=("variant",),
            values={"task": tuple(_TABLES)},
            read=_answer,
            sample="sample_id",
            answer={"task": "{task}", "setting": _SETTING, "variant": "{variant}", "output": "{answer}"},
        ),
    )
    agreement_headings: ClassVar = {"grounding": "Grounding"}  # no two free translations are equal
    measures: ClassVar = _MEASURES
    people_columns: ClassVar = {key.task.capitalize(): key for key in _MEASURES}
    people_settings = _SETTINGS["reconstruction"]

    def annotation_form(self, _samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
        """Return a form with one item per output of two tasks; its answers are `labels`."""
        return AnnotationForm(
            kind="labels",
            title="UNPIE: match or no match?",
            instructions=("Judge the meaning of the candidate, not its style.",),
            items=[_item(row) for row in rows if row.task in _QUESTIONS],
            default_strata=("task", "language"),
        )

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return chance only, for no human result on these tasks is published."""
        measured = {key._replace(model="", setting="") for key in results.ours}
        levels = []
        for task, (metric, subsets) in HEADLINES.items():
            for subset in subsets:
                one_kind = Key(metric, task, subset=subset) in measured
                one_kind &= Key(metric, task, subset=subset, category=ALL) not in measured
                level = HumanLevel(
                    task=task,
                    metric=metric,
                    subset=subset,
                    category="" if one_kind else ALL,
                    chance=0.5 if task == "disambiguation" else None,
                    chance_metric="random_exact_match" if task == "grounding" else "",
                    items="unpublished",
                    best_of=(_TABLES[task],),
                    printed_parts=KINDS if task == "grounding" else (),
                    drawn=(_SETTING,),
                    source=_UNPUBLISHED,
                )
                levels.append(level)
        return levels

    def labels(self, files: Mapping[str, str], /) -> dict[str, dict[str, Mapping[Hashable, Hashable]]]:
        """Return people's labels of translations and of reconstructed puns."""
        groups: dict[str, dict[str, dict[Hashable, Hashable]]] = {}
        for row in self.rows(files, "labels"):
            labels = groups.setdefault(f"Labels, {row['task']}", {}).setdefault(row["annotator"], {})
            labels[_output_key(row)] = row["human"]
        return {heading: {**by_person} for heading, by_person in groups.items()}

    def compare(self, rows: pd.DataFrame, key: Key) -> list[Metric]:
        """Compare a task also by language."""
        metrics = super().compare(rows, key)
        for lang, pair in zip(LANGUAGES, PAIRS.get(key.task, ()), strict=False):
            metrics += paired_metrics(rows[rows["variant"].str.startswith(lang)], key._replace(category=pair))
        return metrics


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
                {
                    "sample_id": row.sample.sample_id,
                    "variant": row.variant,
                    "model": row.model,
                    "setting": row.setting,
                    "task": row.task,
                },
                (Question("human", _QUESTIONS[row.task], YES_NO),),
                (("Candidate", row.output or ""),),
            ),
        ),
    )


def _texts(row: Row, lang: str, meaning: int) -> Iterator[tuple[str, str]]:
    data = row.sample.data
    yield "Pun", str(data["sentence"])
    if row.task == "disambiguation":
        yield "Translation of the meaning that was asked for", str(data["translation"][meaning][lang])
        yield "Translation of the other meaning", str(data["translation"][1 - meaning][lang])

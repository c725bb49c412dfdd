"""UNPIE's human baseline: chance levels, and files with people's answers and their labels of model outputs.

No human result on the tasks is published; labels measure the agreement of our verdicts with people's (Tables 8 and 9).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pipelines.benchmarks.human import HumanLevel, HumanRow, OutputKey, human_kind
from pipelines.benchmarks.people.baseline import FileBaseline
from pipelines.benchmarks.people.comparison import paired_metrics
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.facts import ALL, HEADLINES, KINDS, PAIRS
from pipelines.benchmarks.unpie.prompts import VARIANTS

if TYPE_CHECKING:
    import pandas as pd

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


class UnpieHumanBaseline(FileBaseline):
    """Chance levels, and comparisons with the people of the files."""

    name = "unpie"
    title = "UNPIE"
    label_kind = "labels"
    kinds = (
        human_kind(__package__, "labels", read=_label, label=_output_key),
        human_kind(__package__, "answers", read=_answer),
    )
    agreement_headings: ClassVar = {"grounding": "Grounding"}  # no two free translations are equal
    measures: ClassVar = _MEASURES
    people_columns: ClassVar = {key.task.capitalize(): key for key in _MEASURES}
    people_settings = _SETTINGS["reconstruction"]

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


HUMAN_BASELINE: Final = UnpieHumanBaseline()

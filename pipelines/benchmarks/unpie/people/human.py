"""UNPIE's human baseline: chance levels, and files with people's answers and their labels of model outputs.

No human result on the tasks is published; labels measure the agreement of our verdicts with people's (Tables 8 and 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    HumanBaseline,
    HumanInputs,
    HumanKind,
    HumanLevel,
    OutputKey,
    csv_rows,
    human_prediction,
    unique_rows,
)
from pipelines.benchmarks.people.comparison import paired_metrics, people_table, shared_rows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.prompts import VARIANTS
from pipelines.benchmarks.unpie.results import HEADLINES, PAIRS

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS: Final = ("sample_id", "variant", "model", "setting", "human")
_OUTPUT_KEY: Final = ("task", "setting", "sample_id", "variant", "model")
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": ("sm", "vlm"),
    "reconstruction": ("lm", "sm", "vlm"),
}
_ANSWER_COLUMNS: Final = ("sample_id", "task", "variant", "annotator", "answer")
_SETTING: Final = "vlm"  # people see the picture
_MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "grounding": ("exact_match", "correct"),
    "disambiguation": ("accuracy", "correct"),
    "reconstruction": ("correct_pct", "accepted"),
}
"""Task -> metric, and the column of scores that it is the mean of."""
_TABLES: Final = {"grounding": "Table 4", "disambiguation": "Table 5", "reconstruction": "Table 6"}
_UNPUBLISHED: Final = "no human score on this task is published"


class UnpieHumanBaseline(HumanBaseline):
    """Chance levels, and comparisons with the people of the files."""

    label_kind: ClassVar[str] = "labels"
    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="labels",
            columns=_COLUMNS,
            optional=("task", "annotator"),
            about=(
                "A person's 0 or 1 on one output of a model: the right translation (task disambiguation), or the same"
                " pun (task reconstruction). The column task may be left out where the setting is lm, the column"
                " annotator where one person labels."
            ),
        ),
        HumanKind(
            name="answers",
            columns=_ANSWER_COLUMNS,
            about="A person's own answer to a task with its picture, scored like a model's.",
        ),
    )

    agreement_headings: ClassVar[Mapping[str, str]] = {"grounding": "Grounding"}  # no two free translations are equal

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return chance only, for no human result on these tasks is published."""
        levels = []
        for task, (metric, subsets) in HEADLINES.items():
            for subset in subsets:
                keys = {key._replace(model="", setting="") for key in results.ours}
                has_both = Key(metric, task, "", subset, ALL) in keys or Key(metric, task, "", subset) not in keys
                level = HumanLevel(
                    task=task,
                    metric=metric,
                    subset=subset,
                    category=ALL if has_both else "",
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

    def check(self, kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check that every row answers a request, or labels a possible output with 0 or 1, and none twice."""
        if kind == "answers":
            for line, row in _answers(text):
                if row["sample_id"] not in samples:
                    raise ValueError(f"line {line}: the data has no sample {row['sample_id']!r}")
            return
        for line, row in unique_rows(_rows(text), _OUTPUT_KEY, "annotator"):
            if row["human"] not in ("0", "1"):
                raise ValueError(f"line {line}: human is {row['human']!r}, expected 0 or 1")
            if row["sample_id"] not in samples:
                raise ValueError(f"line {line}: the data has no sample {row['sample_id']!r}")
            if row["setting"] not in _SETTINGS.get(row["task"], ()):
                raise ValueError(
                    f"line {line}: setting {row['setting']!r} of task {row['task']!r}: expected disambiguation "
                    "with sm or vlm, or reconstruction with lm, sm or vlm"
                )

    def labelled(self, files: Mapping[str, str], /) -> Collection[OutputKey]:
        """Return the outputs with a label."""
        rows = (row for _, row in _rows(files["labels"])) if "labels" in files else ()
        return frozenset(map(_output_key, rows))

    def labels(self, files: Mapping[str, str], /) -> dict[str, dict[str, Mapping[Hashable, Hashable]]]:
        """Return people's labels of translations and of reconstructed puns."""
        groups: dict[str, dict[str, dict[Hashable, Hashable]]] = {}
        for _, row in _rows(files["labels"]) if "labels" in files else ():
            labels = groups.setdefault(f"Labels, {row['task']}", {}).setdefault(row["annotator"], {})
            labels[_output_key(row)] = row["human"]
        return {heading: {**by_person} for heading, by_person in groups.items()}

    def with_labels(self, scores: pd.DataFrame, files: Mapping[str, str], model: str, /) -> pd.DataFrame:
        """Return the scores with the file's labels as column `human`; labels of the predictions remain elsewhere.

        Of several people the majority counts; a tie is no label.
        """
        if "labels" not in files:
            return scores
        votes: dict[tuple[str, ...], Counter[str]] = {}
        for _, row in _rows(files["labels"]):
            if row["model"] == model:
                votes.setdefault(_output_key(row)[1:], Counter())[row["human"]] += 1
        labels = {key: float(vote["1"] > vote["0"]) for key, vote in votes.items() if vote["1"] != vote["0"]}
        keys = zip(*(scores[name] for name in ("task", "setting", "sample_id", "variant")), strict=True)
        earlier = scores["human"] if "human" in scores else [None] * len(scores)
        human = [labels.get(key, old) for key, old in zip(keys, earlier, strict=True)]
        labelled = scores.assign(human=human)
        return labelled.astype({"human": "float64"})

    def predictions(self, kind: str, text: str, /) -> list[dict[str, str]]:
        """Return answers as rows of a predictions file; labels are none."""
        if kind != "answers":
            return []
        return [
            human_prediction(
                "unpie",
                row["annotator"],
                row["answer"],
                task=row["task"],
                setting=_SETTING,
                sample_id=row["sample_id"],
                variant=row["variant"],
            )
            for _, row in _answers(text)
        ]

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute each task in each setting on the items that people answered, and by language, with paired gaps."""
        scores, people = inputs.scores, inputs.people
        metrics: list[Metric] = []
        for setting in map(str, dict.fromkeys(scores["setting"])):
            setting_scores = scores[scores["setting"] == setting]
            for task, (metric, value) in _MEASURES.items():
                rows = shared_rows(setting_scores, people, value, task=task)
                metrics += paired_metrics(rows, Key(metric, task, setting))
                for lang, pair in zip(LANGUAGES, PAIRS.get(task, ()), strict=False):
                    of_language = rows[rows["variant"].str.startswith(lang)]
                    metrics += paired_metrics(of_language, Key(metric, task, setting, category=pair))
        return metrics

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of people's values."""
        columns = {task.capitalize(): Key(metric, task) for task, (metric, _) in _MEASURES.items()}
        return people_table("unpie", "UNPIE", results, columns, _SETTINGS["reconstruction"]), ()


def _rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with their task: `lm` alone implies reconstruction."""
    for line, row in csv_rows(text, _COLUMNS, optional=("task", "annotator")):
        yield line, {**row, "task": row["task"] or ("reconstruction" if row["setting"] == "lm" else "")}


def _output_key(row: Mapping[str, Any]) -> OutputKey:
    return row["model"], row["task"], row["setting"], row["sample_id"], row["variant"]


def _answers(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows by line; ValueError for an unknown task or variant, or a second answer of one person."""
    of_languages = [f"{lang}/{meaning}" for lang, meaning in VARIANTS]
    rows = csv_rows(text, _ANSWER_COLUMNS, may_be_empty=("variant",))
    for line, row in unique_rows(rows, ("sample_id", "task", "variant"), "annotator"):
        if row["task"] not in _MEASURES:
            raise ValueError(f"line {line}: task is {row['task']!r}, expected one of {', '.join(_MEASURES)}")
        variants = [""] if row["task"] == "grounding" else of_languages
        if row["variant"] not in variants:
            expected = "an empty one" if row["task"] == "grounding" else f"one of {', '.join(variants)}"
            raise ValueError(f"line {line}: variant of {row['task']} is {row['variant']!r}, expected {expected}")
        yield line, row


HUMAN_BASELINE: Final = UnpieHumanBaseline()

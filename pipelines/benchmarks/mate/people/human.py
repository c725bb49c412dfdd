"""MATE's human baseline: as published (five people, 384 unnamed examples), and files with people's predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import ClassVar, Final

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    ANNOTATOR,
    HumanBaseline,
    HumanInputs,
    HumanKind,
    HumanLevel,
    csv_rows,
    csv_text,
    human_prediction,
    is_person,
    unique_rows,
)
from pipelines.benchmarks.mate.metrics import KINDS
from pipelines.benchmarks.mate.people.authors_files import READER, typed_answer
from pipelines.benchmarks.mate.rows import COT, SETTINGS, find_row
from pipelines.benchmarks.mate.scene import TASKS, canonical_task
from pipelines.benchmarks.people.comparison import paired_metrics, people_table, shared_rows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table

_TASKS: Final = {
    "crossmodal": "Table 1",
    "img2txt": "Table 1",
    "txt2img": "Table 1",
    "unimodal": "Table 3",
    "img2img": "Table 3",
    "txt2txt": "Table 3",
}
_PUBLISHED_ITEMS: Final = 384
_CROSSMODAL_SOURCE: Final = "five people, 2-shot, 384 cross-modal examples that are not named"
_UNIMODAL_SOURCE: Final = "five people, 2-shot; on how many unimodal examples is not said"
_GENERATED: Final = "ours are generated scenes and theirs are not"
_COLUMNS: Final = ("example_id", "task", "setting", "evaluator", "prediction")
_PEOPLE_COLUMNS: Final[Mapping[str, Key]] = {
    **{task: Key("exact_match", task) for task in _TASKS},
    "OSE": Key("ose", "crossmodal"),
}


class MateHumanBaseline(HumanBaseline):
    """Human accuracy as published, and comparisons with the people of the files."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="predictions",
            columns=_COLUMNS,
            about=(
                "A person's answer to the question of a scene in a task and setting, bare or as the JSON object that "
                "the question demands. The authors' `predictions/<file>_human.jsonl` is read as it is."
            ),
        ),
    )

    agreement_headings: ClassVar[Mapping[str, str]] = dict(zip(TASKS, TASKS, strict=True))

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return accuracy by task and mean of tasks; generated scenes are compared with no published model."""
        generated = any(key.metric == "generated" and number.value for key, number in results.ours.items())
        levels = []
        for task, table in _TASKS.items():
            human = results.value(Key("exact_match", task, model="Human"), "published", table=table)
            people = _CROSSMODAL_SOURCE if table == "Table 1" else _UNIMODAL_SOURCE
            source = f"{table}: {people}; intervals of ours resample scenes"
            levels.append(
                HumanLevel(
                    task=task,
                    metric="exact_match",
                    settings=("0-shot", "1-shot", "2-shot", "2-shot-cot"),
                    value=human,
                    n=_PUBLISHED_ITEMS if task == "crossmodal" else None,
                    chance_metric="chance",
                    items="approximate",
                    drawn=("2-shot",) if task in ("crossmodal", "unimodal") else (),
                    tables=() if generated else (table,),
                    source=f"{source}; {_GENERATED}" if generated else source,
                )
            )
        return levels

    def from_json_lines(self, name: str, text: str, /) -> tuple[str, str]:
        """Read the authors' file of people's predictions, in which every row has an `evaluator`."""
        rows = []
        for line, row in READER.rows(PurePath(name), text):
            if isinstance(row, Exception):
                raise ValueError(f"line {line}: {row}") from row  # noqa: TRY004  of foreign data
            if not is_person(row["model"]):
                raise ValueError(f"line {line}: no evaluator; give predictions of models to `score --predictions`")
            evaluator = row["model"].removeprefix(ANNOTATOR)
            fields = (row["sample_id"], row["task"], row["setting"], evaluator, row["output"] or "")
            rows.append(dict(zip(_COLUMNS, fields, strict=True)))
        return "predictions", csv_text(_COLUMNS, rows)

    def check(self, _kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check tasks, settings and duplicates, and that the data set has every question."""
        for line, row in _answers(text):
            sample = samples.get(row["example_id"])
            if sample is None or find_row(sample, row["task"], row["setting"]) is None:
                name = "/".join(row[field] for field in _COLUMNS[:3])
                raise ValueError(f"line {line}: the data has no question {name!r}")

    def predictions(self, _kind: str, text: str, /) -> list[dict[str, str]]:
        """Return answers as rows of a predictions file, bare ones as the JSON object that the question demands."""
        return [
            human_prediction(
                "mate",
                row["evaluator"],
                typed_answer(row["prediction"]),
                task=row["task"],
                setting=row["setting"],
                sample_id=row["example_id"],
            )
            for _, row in _answers(text)
        ]

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute exact match by task, and the mean over tasks, on people's questions, with the paired gap.

        Each setting asks a scene another question, so only rows of one setting are paired; that with steps asks those
        of two examples.
        """
        import pandas as pd

        scores, people = inputs.scores, inputs.people
        metrics: list[Metric] = []
        for setting in (name for name in SETTINGS if (scores["setting"] == name).any()):
            setting_scores = scores[scores["setting"] == setting]
            source = "2-shot" if setting == COT else setting
            rows = {task: shared_rows(setting_scores, people, "correct", task=task, setting=source) for task in TASKS}
            for task, shared in rows.items():
                metrics += paired_metrics(shared, Key("exact_match", task, setting))
            for kind, tasks in KINDS.items():
                combined = pd.concat([rows[task].assign(task=task) for task in tasks], ignore_index=True)
                parts = [(combined["task"] == task).to_numpy() for task in tasks]
                metrics += paired_metrics(combined, Key("exact_match", kind, setting), parts)
        return metrics

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of people's accuracy."""
        return people_table("mate", "MATE", results, _PEOPLE_COLUMNS, SETTINGS), ()


def _answers(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows by line, tasks by our names; ValueError for a wrong value or a second answer of one person."""
    return unique_rows(_valid_answers(text), _COLUMNS[:3], "evaluator")


def _valid_answers(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for line, row in csv_rows(text, _COLUMNS, may_be_empty=("prediction",)):
        try:
            row["task"] = canonical_task(row["task"])
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from error
        if row["setting"] not in SETTINGS:
            raise ValueError(f"line {line}: setting is {row['setting']!r}, expected one of {', '.join(SETTINGS)}")
        yield line, row


HUMAN_BASELINE: Final = MateHumanBaseline()

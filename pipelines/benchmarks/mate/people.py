"""People's work on MATE: baselines, files with their predictions, and the annotation form.

Five people answered 384 unnamed examples for the paper; its random baseline is the mean of ten runs.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, ClassVar, Final

import pandas as pd

from pipelines.benchmarks.human import (
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    HumanInputs,
    HumanKind,
    HumanLevel,
    Question,
    csv_text,
)
from pipelines.benchmarks.mate.authors_files import READER, RUN, typed_answer
from pipelines.benchmarks.mate.metrics import KINDS, reduce_scores
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.rows import COT, SETTINGS, find_row, question_of, shots_of
from pipelines.benchmarks.mate.scene import TASKS, canonical_task, parse_scene
from pipelines.benchmarks.mate.source import PICTURE
from pipelines.benchmarks.people import FileBaseline, mean_metrics, paired_metrics, shared_rows
from pipelines.benchmarks.records import Metric, Row, Sample, is_person, person_name
from pipelines.benchmarks.results import Key, Results

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


_PREDICTIONS: Final = HumanKind(
    name="predictions",
    columns=("example_id", "task", "setting", "evaluator", "prediction"),
    about="A person's answer to the question of a scene in a task and setting, bare or as the JSON object that the"
    " question demands. The authors' `predictions/<file>_human.jsonl` is read as it is.",
    item=("example_id", "task", "setting"),
    person="evaluator",
    may_be_empty=("prediction",),
    values={"setting": SETTINGS},
    read=lambda row: {**row, "task": canonical_task(row["task"]), "output": typed_answer(row["prediction"])},
    sample="example_id",
    answer={"task": "{task}", "setting": "{setting}", "output": "{output}"},
)


class MateHumanBaseline(FileBaseline):
    """Human accuracy as published, and comparisons with the people of the files."""

    name = "mate"
    title = "MATE"
    kinds = (_PREDICTIONS,)
    agreement_headings: ClassVar = dict(zip(TASKS, TASKS, strict=True))
    people_columns: ClassVar = {**{task: Key("exact_match", task) for task in _TASKS}, "OSE": Key("ose", "crossmodal")}
    people_settings = SETTINGS

    def annotation_form(self, samples: Iterable[Sample], _rows: Iterable[Row], /) -> AnnotationForm:
        """Return a form with one item per question; its answers are `predictions`, bare or as a JSON object."""
        # With steps the questions are those of two examples.
        questions = ((sample, row) for sample in samples for row in sample.data["rows"] if row["setting"] != COT)
        return AnnotationForm(
            kind="predictions",
            annotator="evaluator",
            title="MATE: which object, and what is it like?",
            instructions=(
                "Read the text, look at the picture where there is one, and type the answer to the last question.",
                "The bare value is enough, such as red, Object_3, 0.35 or [1.5, -0.2, 0.7]; numbers as in the text.",
            ),
            items=[_item(sample, row) for sample, row in questions],
            default_strata=("task", "objects"),
        )

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return accuracy by task and mean of tasks; generated scenes are compared with no published model."""
        generated = any(key.metric == "generated" and number.value for key, number in results.ours.items())
        levels = []
        for task, table in _TASKS.items():
            human = results.value(Key("exact_match", task, model="Human"), "published", table=table)
            people = _CROSSMODAL_SOURCE if table == "Table 1" else _UNIMODAL_SOURCE
            source = f"{table}: {people}; intervals of ours are over scenes"
            levels.append(
                HumanLevel(
                    task=task,
                    metric="exact_match",
                    settings=SETTINGS,
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
            evaluator = person_name(row["model"])
            fields = (row["sample_id"], row["task"], row["setting"], evaluator, row["output"] or "")
            rows.append(dict(zip(_PREDICTIONS.columns, fields, strict=True)))
        return "predictions", csv_text(_PREDICTIONS.columns, rows)

    def check(self, kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check also that the data have the question of every row."""
        super().check(kind, text, samples)
        for line, row in _PREDICTIONS.rows(text):
            if find_row(samples[row["example_id"]], row["task"], row["setting"]) is None:
                name = "/".join(row[field] for field in _PREDICTIONS.item)
                raise ValueError(f"line {line}: the data has no question {name!r}")

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute exact match by task, and the mean over tasks, on people's questions, with the paired gap.

        Each setting asks a scene another question, so only rows of one setting are paired; that with steps asks those
        of two examples.
        """
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


def mean_of_runs(frames: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]) -> dict[str, list[Metric]]:
    """Return the mean over runs of every metric, by the name under which it is shown; without intervals."""
    runs: dict[str, list[list[Metric]]] = {}
    for name, frame in frames.items():
        if match := RUN.fullmatch(name):
            runs.setdefault(match["model"], []).append(reduce_scores(frame, samples))
    return {f"{model}, mean of {len(metrics)} runs": mean_metrics(metrics) for model, metrics in runs.items()}


def _item(sample: Sample, row: Mapping[str, Any]) -> AnnotationItem:
    task, setting, scene = row["task"], row["setting"], sample.data["scene"]
    text = row["text"]
    if text is None:
        text = build_prompt(parse_scene(scene), question_of(row), shots_of(row), cot=False)
    return AnnotationItem(
        item_id=f"{sample.sample_id}/{task}/{setting}",
        strata={
            "task": task,
            "setting": setting,
            "objects": str(len(scene["objects"])),
            "pointer": row["pointer"][0],
            "target": row["target"],
        },
        texts=(("Task", text),),
        picture=None if task == "txt2txt" else sample.ref(PICTURE),
        parts=(
            AnnotationPart(
                {"example_id": sample.sample_id, "task": task, "setting": setting},
                (Question("prediction", f"Answer ({row['target']})"),),
            ),
        ),
    )

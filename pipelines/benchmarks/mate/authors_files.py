"""Read predictions in the form in which MATE's authors distribute them.

Files are `predictions/<file>_<model>.jsonl`. `file` is one of the seven question files,
whose name tells the setting. Each line is the row of the question with `model` and `prediction`; the files of the
random baseline add `run`, those of people `evaluator`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from pipelines.benchmarks.base import PredictionsReader
from pipelines.benchmarks.human import prediction_row
from pipelines.benchmarks.mate.rows import SETTINGS
from pipelines.benchmarks.mate.scene import canonical_task
from pipelines.benchmarks.records import person

_FILES: Final[Mapping[str, str]] = {
    "mm_2shot_cot": "2-shot-cot",
    **{f"{kind}_{shots}shot": SETTINGS[shots] for kind in ("mm", "um") for shots in (0, 1, 2)},
}  # the longest name first, because it begins with another


def _rows(path: PurePath, text: str) -> Iterator[tuple[int, dict[str, Any] | Exception]]:
    for line, raw in enumerate(text.split("\n"), start=1):  # `splitlines` also splits at U+2028, within answers
        if raw.strip():
            try:
                row = json.loads(raw)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")  # noqa: TRY004, TRY301  of foreign data
                yield line, read_prediction(path.name, row)
            except (ValueError, RecursionError) as error:
                yield line, error


def read_prediction(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of such a file as a row of a predictions file; ValueError with the reason where it is none.

    People become models `human:EVALUATOR`, the runs of the random baseline `MODEL run N`. A missing prediction is None,
    and a person's bare answer becomes the JSON object that the question demands.
    """
    file = _file_of(name)
    absent = [field for field in ("example_id", "task", "prediction") if field not in raw]
    if file is None or absent:
        raise ValueError(f"no field {', '.join(absent)}" if absent else f"{name} is no <file>_<model>.jsonl")
    output, evaluator = raw["prediction"], raw.get("evaluator")
    if not isinstance(output, str | None):
        raise ValueError("prediction is not text")  # noqa: TRY004  of foreign data, like the other reasons
    model = str(raw.get("model") or name.removesuffix(".jsonl")[len(file) + 1 :])
    if evaluator:
        model = person(evaluator)
        output = None if output is None else typed_answer(output)
    elif raw.get("run") is not None:
        model = f"{model} run {raw['run']}"
    task, name = canonical_task(str(raw["task"])), str(raw["example_id"])
    return prediction_row("mate", model, task=task, setting=_FILES[file], sample_id=name, output=output)


def typed_answer(text: str) -> str:
    """Return a person's answer as the JSON object that the question demands; what has a brace is returned unchanged.

    A bare answer is quoted unless it begins with a quote, a bracket or a digit.
    """
    answer = text.strip()
    if "{" in answer or not answer:
        return text
    value = answer if answer[0] in '"[' or answer[0].isdecimal() else f'"{answer}"'
    return f'{{"answer": {value}}}'


READER: Final = PredictionsReader(
    accepts=lambda path: path.suffix == ".jsonl" and _file_of(path.name) is not None, rows=_rows
)


def _file_of(name: str) -> str | None:
    return next((file for file in _FILES if name.startswith(f"{file}_")), None)


RUN: Final = re.compile(r"(?P<model>.+) run \d+")


def is_run(model: str) -> bool:
    """Return whether a model's name is that of one of several runs."""
    return RUN.fullmatch(model) is not None

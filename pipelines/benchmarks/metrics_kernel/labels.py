"""Names of metrics in words, from `labels.csv`; a metric without one is its id with blanks."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Self

_ENDINGS: Final[Mapping[str, str]] = {
    "_macro": "{}, mean of categories",
    "_robust": "{}, second reading",
    "_corrected": "{}, corrected for the judge",
    "_of_people": "{} of people",
    "_minus_people": "{} minus people",
}


class MetricName(str):
    """A metric's id as the text of a cell: files for machines keep it, pages show its label, or other `words`."""

    __slots__ = ("words",)
    words: str

    def __new__(cls, metric: str, words: str = "") -> Self:
        """Return the text with its words."""
        name = super().__new__(cls, metric)
        name.words = words or metric_label(metric)
        return name


def metric_label(metric: str) -> str:
    """Return a metric in words; `@JUDGE` at its end says whose verdicts it rests on."""
    name, _, judge = metric.partition("@")
    return f"{_label(name)}, judged by {judge}" if judge else _label(name)


def _label(name: str) -> str:
    if name in _labels():
        return _labels()[name]
    for ending, words in _ENDINGS.items():
        if name.endswith(ending):
            return words.format(_label(name.removesuffix(ending)))
    return name.replace("_", " ")


@cache
def _labels() -> Mapping[str, str]:
    text = files(__package__).joinpath("labels.csv").read_text(encoding="utf-8")
    return {row["metric"]: row["label"] for row in csv.DictReader(text.splitlines())}

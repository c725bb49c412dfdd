"""Look up our numbers in each model's best setting, chance, and the paper's numbers, for MATE's tables and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.mate.rows import COT
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import TableValue

CLOSED_MODELS: Final = frozenset(
    {"Gemini 1.5", "GPT-4o", "Claude 3.5", "gemini-1.5-flash", "gpt-4o-2024-11-20", "claude-3-5-sonnet-20241022"}
)
"""Published models behind an API; all others are open."""
FULL_SET: Final = 5500  # cross-modal examples behind the published numbers, and as many unimodal ones

_PAPER_SETTING: Final = "2-shot"
_PREFERRED_SETTINGS: Final = (_PAPER_SETTING, "1-shot", "0-shot", COT)
_OBJECT_COUNT: Final = re.compile(r"(\d+) objects")


def accuracy(task: str, category: str = "") -> Key:
    """Return the key of an accuracy, without model and setting."""
    return Key("exact_match", task, category=category)


@dataclass(frozen=True, slots=True)
class MateResults:
    """The numbers of one report. Generated data have no published numbers."""

    results: Results
    generated: bool

    @classmethod
    def of(cls, results: Results) -> MateResults:
        """Leave the published numbers out where our rows come from generated data."""
        generated = any(key.metric == "generated" and number.value for key, number in results.ours.items())
        return cls(results.without_published() if generated else results, generated)

    @property
    def models(self) -> list[str]:
        """Our models."""
        return self.results.models()

    @property
    def has_published(self) -> bool:
        """Whether there are published numbers."""
        return bool(self.results.published)

    def published_models(self, table: str) -> list[str]:
        """Return the models of a table of the paper, without people and chance."""
        return [model for model in self.results.models("published", table=table) if model not in ("Human", "Random")]

    def setting_of(self, model: str) -> str:
        """Return the setting whose numbers stand for a model: 2-shot as in the paper, else the next best."""
        settings = {key.setting for key in self.results.ours if key.model == model and key.metric == "exact_match"}
        return next((setting for setting in _PREFERRED_SETTINGS if setting in settings), _PAPER_SETTING)

    def label(self, model: str) -> str:
        """Return the model's name, with its setting where that is not the paper's."""
        setting = self.setting_of(model)
        return model if setting == _PAPER_SETTING else f"{model}, {setting}"

    def find(self, model: str, key: Key, setting: str = "") -> TableValue | None:
        """Return one of our numbers, by default of the model's best setting."""
        return self.results.find(key.of(model, setting or self.setting_of(model)))

    def printed(self, table: str, model: str, key: Key, setting: str = _PAPER_SETTING) -> TableValue | None:
        """Return a number of a table of the paper; None where the table has none."""
        number = self.results.find(key.of(model, setting), "published", table=table)
        return None if number is None or (number.value is None and not number.doubtful) else number

    def chance(self, key: Key, setting: str = "") -> float | None:
        """Return what guessing would score on our rows; None for anything but accuracy."""
        if key.metric != "exact_match":
            return None
        numbers = (self.find(model, key._replace(metric="chance"), setting) for model in self.models)
        return next((number.value for number in numbers if number is not None), None)

    def object_counts(self, task: str, setting: str = "") -> list[int]:
        """Return the numbers of objects of the scenes that any of our models was tested on."""
        counts: set[int] = set()
        for key in self.results.ours:
            match = _OBJECT_COUNT.fullmatch(key.category)
            if match and key.task == task and key.setting == (setting or self.setting_of(key.model)):
                counts.add(int(match[1]))
        return sorted(counts)

    def notes(self) -> Iterator[str]:
        """Yield the notes on our data that every table has."""
        if self.generated:
            yield "Generated data: published numbers are left out, for they are of other data."
            return
        wholes = (accuracy("crossmodal"), accuracy("unimodal"))
        for size in self.results.sizes(lambda key: key._replace(model="", setting="") in wholes):
            if size < FULL_SET:
                yield f"Subset: {size:,} of {FULL_SET:,} examples; not comparable with the published full-set values."

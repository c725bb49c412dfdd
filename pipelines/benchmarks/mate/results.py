"""Our numbers and the published ones of MATE, looked up by what they measure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pipelines.benchmarks.mate.rows import COT
from pipelines.benchmarks.tables import TableCell, TableValue

if TYPE_CHECKING:
    import pandas as pd

What: TypeAlias = tuple[str, str, str]
"""Task, category, metric."""

CLOSED: Final = frozenset(
    {"Gemini 1.5", "GPT-4o", "Claude 3.5", "gemini-1.5-flash", "gpt-4o-2024-11-20", "claude-3-5-sonnet-20241022"}
)
"""Published models behind an API; all others are open."""
FULL_SET: Final = 5500
"""Cross-modal examples behind the published numbers, and as many unimodal ones."""

_BEST_FIRST: Final = ("2-shot", "1-shot", "0-shot", COT)
_DOUBTS = ("suspect", "inconsistent", "misprint")
_COUNT = re.compile(r"(\d+) objects")


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one report."""

    ours: Mapping[tuple[str, str, What], TableValue]
    """By model, setting and what."""
    printed: Mapping[tuple[str, str, str, What], TableValue]
    """By the paper's table, model, setting and what."""
    generated: bool
    """Whether our rows come from generated data, beside which no published number stands."""

    @classmethod
    def of(cls, metrics: pd.DataFrame, published: pd.DataFrame) -> Results:
        """Read the rows of `metrics.json`, a `note` with each where there is one, and of the published CSV."""
        rows = [row for row in metrics.to_dict("records") if row["benchmark"] == "mate"]
        ours = {(str(row["model"]), str(row["setting"]), _what(row)): _measured(row) for row in rows}
        generated = any(row["metric"] == "generated" and row["value"] for row in rows)
        mate = [row for row in published.to_dict("records") if row["benchmark"] == "mate"]
        printed = {
            (str(row["table"]), str(row["model"]), str(row["setting"]), _what(row)): _measured(row) for row in mate
        }
        return cls(ours, {} if generated else printed, generated)

    @property
    def models(self) -> list[str]:
        """Ours, in the order in which they come."""
        return list(dict.fromkeys(model for model, _, _ in self.ours))

    def printed_models(self, table: str) -> list[str]:
        """Models of one of the paper's tables, in its order, without people and chance."""
        found = dict.fromkeys(model for name, model, _, _ in self.printed if name == table)
        return [model for model in found if model not in ("Human", "Random")]

    def setting_of(self, model: str) -> str:
        """The setting whose numbers stand for the model: 2-shot as in the paper, else the next best there is."""
        there = {setting for name, setting, what in self.ours if name == model and what[2] == "exact_match"}
        return next((setting for setting in _BEST_FIRST if setting in there), "2-shot")

    def label(self, model: str) -> str:
        """The model's name, with its setting where that is not the paper's."""
        setting = self.setting_of(model)
        return model if setting == "2-shot" else f"{model}, {setting}"

    def find(self, model: str, what: What, setting: str = "") -> TableValue | None:
        """One of our numbers; of the model's best setting where none is named."""
        return self.ours.get((model, setting or self.setting_of(model), what))

    def chance(self, what: What, setting: str = "") -> float | None:
        """What guessing would score on our rows; None for anything but accuracy."""
        task, category, metric = what
        if metric != "exact_match":
            return None
        found = (self.find(model, (task, category, "chance"), setting) for model in self.models)
        return next((number.value for number in found if number is not None), None)

    def counts(self, kind: str, setting: str = "") -> list[int]:
        """Numbers of objects that any of our models was asked about."""
        found: set[int] = set()
        for model, own, (task, category, _) in self.ours:
            match = _COUNT.fullmatch(category)
            if match and task == kind and own == (setting or self.setting_of(model)):
                found.add(int(match[1]))
        return sorted(found)

    def notes(self) -> Iterator[str]:
        """What every table says of our data."""
        if self.generated:
            yield "Generated data: published numbers are left out, for they are of other data."
            return
        sizes = {
            number.n
            for (_, _, (task, category, metric)), number in self.ours.items()
            if task in ("crossmodal", "unimodal") and not category and metric == "exact_match" and number.n
        }
        for size in sorted(size for size in sizes if size < FULL_SET):
            yield f"Subset: {size:,} of {FULL_SET:,} examples; not comparable with the published full-set values."


def with_interval(number: TableValue | None) -> TableCell:
    """A number of ours with interval and n; its note where it is missing."""
    if number is None:
        return None
    if number.value is None:
        return TableValue(value=None, note=number.note)
    return TableValue(
        value=number.value, low=number.low, high=number.high, n=number.n, n_failed=number.n_failed or None
    )


def _what(row: Mapping[Any, Any]) -> What:
    return str(row["task"]), str(row["category"]), str(row["metric"])


def _measured(row: Mapping[Any, Any]) -> TableValue:
    note = row.get("note")
    note = note if isinstance(note, str) else ""
    doubtful = "table" in row and note.startswith(_DOUBTS)
    if "n" not in row:
        return TableValue(value=_number(row["value"]), note=note if doubtful else "", doubtful=doubtful)
    return TableValue(
        value=_number(row["value"]),
        low=_number(row["ci_low"]),
        high=_number(row["ci_high"]),
        n=int(row["n"]),
        n_failed=int(row["n_failed"]),
        note=note,
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)

"""Our numbers and the published ones of VAGUE, looked up by what they measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pipelines.benchmarks.tables import TableCell, TableValue
from pipelines.benchmarks.vague.facts import SIZES

if TYPE_CHECKING:
    import pandas as pd

Origin: TypeAlias = Literal["ours", "published"]
SETTING_LABELS: Final[Mapping[str, str]] = {
    "lm": "LM",
    "sm": "SM",
    "sm-cot": "SM+CoT",
    "vlm": "VLM",
    "vlm-cot": "VLM+CoT",
}
ERRORS: Final[Mapping[str, str]] = {"count_fs": "FS", "count_su": "SU", "count_ne": "NE"}
HUMAN: Final = "Human"

_DOUBTS = ("suspect", "inconsistent", "misprint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a number measures."""

    model: str
    setting: str
    metric: str
    task: str = "mcq"
    subset: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one report. `models` are ours, in the order in which they come."""

    ours: Mapping[Key, TableValue]
    printed: Mapping[tuple[str, Key], TableValue]
    """By the table that prints them, for some are printed in two."""
    models: tuple[str, ...]

    @classmethod
    def of(cls, metrics: pd.DataFrame, published: pd.DataFrame) -> Results:
        """Read the rows of `metrics.json`, a `note` with each where there is one, and of the published CSV."""
        mine = [row for row in metrics.to_dict("records") if row["benchmark"] == "vague"]
        ours = {_key(row): _measured(row) for row in mine}
        printed = {}
        for row in published.to_dict("records"):
            if row["benchmark"] == "vague":
                printed[row["table"], _key(row)] = _measured(row)
        return cls(ours, printed, tuple(dict.fromkeys(str(row["model"]) for row in mine)))

    def find(self, table: str, key: Key) -> TableValue | None:
        """One number: printed in this table, or ours where `table` is ''."""
        return self.printed.get((table, key)) if table else self.ours.get(key)

    def printed_models(self, table: str) -> list[str]:
        """Models of a printed table, in its order."""
        return list(dict.fromkeys(key.model for name, key in self.printed if name == table))

    def asked(self, settings: Iterable[str], *, task: str = "mcq", subset: str = "") -> list[str]:
        """Our models with a row of this task and subset in one of the settings."""
        wanted = set(settings)
        return [
            model
            for model in self.models
            if any(
                key.model == model and key.task == task and key.setting in wanted and key.subset == subset
                for key in self.ours
            )
        ]

    def incomplete(self, subsets: Iterable[str]) -> tuple[str, ...]:
        """What to say where ours is not of all the items behind the published numbers."""
        wanted = set(subsets)
        found = {
            (key.subset, number.n or 0)
            for key, number in self.ours.items()
            if key.task and key.subset in wanted and key.metric in ("accuracy", "bleu1")
        }
        return tuple(
            f"incomplete: {size:,} of {SIZES[subset]:,} items{f' of {subset}' if subset else ''}; not comparable with "
            "the published values"
            for subset, size in sorted(found)
            if size < SIZES[subset]
        )


def without_interval(number: TableValue | None) -> TableCell:
    """The number alone; with its note where it is missing or cannot be right."""
    if number is None or (number.value is not None and not number.doubtful):
        return None if number is None else number.value
    return TableValue(value=number.value, note=number.note, doubtful=number.doubtful)


def count_of(number: TableValue | None) -> int | None:
    """A count as an int."""
    return None if number is None or number.value is None else int(number.value)


def _key(row: Mapping[Any, Any]) -> Key:
    return Key(**{name: str(row[name]) for name in Key.__slots__})


def _measured(row: Mapping[Any, Any]) -> TableValue:
    note = row.get("note")
    note = note if isinstance(note, str) else ""
    value = _number(row["value"])
    value = int(value) if value is not None and row["unit"] == "count" else value
    found = TableValue(value=value, note=note, doubtful=note.startswith(_DOUBTS))
    if "n" not in row:
        return found
    low, high = _number(row["ci_low"]), _number(row["ci_high"])
    return replace(found, low=low, high=high, n=int(row["n"]), n_failed=int(row["n_failed"]))


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)

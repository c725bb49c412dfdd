"""Our numbers and the published ones of MAIA, looked up by what they measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pipelines.benchmarks.human import ANNOTATOR, SAME_ITEMS
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.tables import TableValue

if TYPE_CHECKING:
    import pandas as pd

Kind: TypeAlias = tuple[str, str]
"""Task and metric."""
Origin: TypeAlias = Literal["ours", "published"]

STATEMENTS: Final[Kind] = ("vsv", "statement_accuracy")
POOLS: Final[Kind] = ("vsv", "pool_accuracy")
OEVQA: Final[Kind] = ("oevqa", "oevqa_accuracy")
AGG: Final[Kind] = ("aggregate", "agg_acc")

BLOCKS: Final[Mapping[str, str]] = {"black-video": "Black video", "1-frame": "1-Frame", "32-frames": "32-Frames"}
"""Settings with a video and their headings, in the paper's order."""
HEADS: Final = tuple(name if name == "Out-of-Scope" else name.replace("-", " ") for name in COLUMNS)
"""Heads of the category columns as printed."""
FULL_SET: Final = 2400
"""Questions behind the published numbers."""

_OWN_PEOPLE = "People of the files given: the mean of their values, each on what that person answered; n is all of it."
_DOUBTS = ("suspect", "inconsistent", "misprint")
_Key: TypeAlias = tuple[Origin, str, str, Kind, str]


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one report; MAIA's have no subsets but for the answers that people checked the judge on.

    `models` are ours and the published ones, each in the order in which they come.
    """

    numbers: Mapping[_Key, TableValue]
    models: Mapping[Origin, tuple[str, ...]]
    people: Mapping[Kind, tuple[TableValue, ...]] = field(default_factory=dict)
    """What people of one's own reach, each on the rows that they answered."""

    @classmethod
    def of(cls, metrics: pd.DataFrame, published: pd.DataFrame) -> Results:
        """Read the rows of `metrics.json`, a `note` with each where there is one, and of the published CSV."""
        numbers: dict[_Key, TableValue] = {}
        models: dict[Origin, tuple[str, ...]] = {}
        people: dict[Kind, tuple[TableValue, ...]] = {}
        sources: tuple[tuple[Origin, pd.DataFrame], ...] = (("ours", metrics), ("published", published))
        for origin, frame in sources:
            rows = [row for row in frame.to_dict("records") if row["benchmark"] == "maia"]
            for row in rows:
                if str(row["model"]).startswith(ANNOTATOR) and not row["category"]:
                    kind = (row["task"], row["metric"])
                    people[kind] = (*people.get(kind, ()), _measured(row))
            rows = [row for row in rows if not _of_people(row)]
            models[origin] = tuple(dict.fromkeys(str(row["model"]) for row in rows))
            for row in rows:
                key = (origin, row["model"], row["setting"], (row["task"], row["metric"]), row["category"])
                numbers[key] = _measured(row)
        return cls(numbers, models, people)

    def human(self, kind: Kind) -> TableValue | None:
        """The mean of people's values; None where nobody answered, or one of them has none."""
        found = self.people.get(kind, ())
        values = [one.value for one in found if one.value is not None]
        if not found or len(values) < len(found):
            return None
        return TableValue(value=math.fsum(values) / len(values), n=sum(one.n or 0 for one in found), note=_OWN_PEOPLE)

    def find(self, origin: Origin, model: str, setting: str, kind: Kind, category: str = "") -> TableValue | None:
        """One number; None where there is no such row."""
        return self.numbers.get((origin, model, setting, kind, category))

    def with_rows(self, origin: Origin, kind: Kind, settings: Iterable[str]) -> list[str]:
        """Models that have a row of this kind in one of the settings, in the order of these rows."""
        wanted = set(settings)
        found = (
            key[1] for key in self.numbers if key[0] == origin and key[3] == kind and not key[4] and key[2] in wanted
        )
        return list(dict.fromkeys(found))

    def subset_notes(self) -> tuple[str, ...]:
        """What to say where ours is not the full set."""
        sizes = {
            number.n
            for (origin, _, _, kind, category), number in self.numbers.items()
            if origin == "ours" and kind in (POOLS, OEVQA, AGG) and not category and number.n
        }
        return tuple(
            f"subset: {size:,} of {FULL_SET:,} questions; not comparable with the published full-set values"
            for size in sorted(size for size in sizes if size < FULL_SET)
        )


def _of_people(row: Mapping[Any, Any]) -> bool:
    """Rows of people, and those of models on people's rows, which have tables of their own."""
    return str(row["model"]).startswith(ANNOTATOR) or row["subset"] == SAME_ITEMS


def mean_of(numbers: Iterable[TableValue | None]) -> float | None:
    """The mean of two numbers or more; None where one of them is missing."""
    values = [None if number is None else number.value for number in numbers]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) > 1 else None


def _measured(row: Mapping[Any, Any]) -> TableValue:
    note = row.get("note")
    note = note if isinstance(note, str) else ""
    value = _number(row["value"])
    found = TableValue(value=value, note=note, doubtful=note.startswith(_DOUBTS))
    if "n" not in row:
        return found
    return replace(
        found,
        value=int(value) if value is not None and row["unit"] == "count" else value,
        low=_number(row["ci_low"]),
        high=_number(row["ci_high"]),
        n=int(row["n"]),
        n_failed=int(row["n_failed"]),
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)

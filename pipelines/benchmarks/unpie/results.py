"""Our numbers and the published ones of UNPIE, looked up by what they measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from pipelines.benchmarks.tables import TableCell, TableValue
from pipelines.benchmarks.unpie.aggregate import KINDS
from pipelines.benchmarks.unpie.column_map import LANGUAGES

if TYPE_CHECKING:
    import pandas as pd

Origin: TypeAlias = Literal["ours", "published"]

TYPES: Final[Mapping[str, str]] = {"lm": "LM", "sm": "SM", "vlm": "VLM"}
"""Settings in the paper's order and words."""
INPUTS: Final[Mapping[str, str]] = {"lm": "L", "sm": "V+L", "vlm": "V+L"}
PAIRS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": tuple(f"En-{lang.capitalize()}" for lang in LANGUAGES),
    "reconstruction": tuple(f"{lang.capitalize()}-En" for lang in LANGUAGES),
}
COVERED: Final = 0.99
"""Share of the requests that must have been possible for ours to stand beside the published."""
_FULL: Final[Mapping[str, int]] = {"grounding": 1000, "disambiguation": 6000, "reconstruction": 6000}
_DOUBTS: Final = ("suspect", "inconsistent", "misprint")


class Key(NamedTuple):
    """What a number measures, but for whose it is."""

    task: str
    setting: str
    metric: str
    subset: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one report; `models` are ours and the published ones, each in the order in which they come."""

    numbers: Mapping[tuple[Origin, str, Key], TableValue]
    models: Mapping[Origin, tuple[str, ...]]

    @classmethod
    def of(cls, metrics: pd.DataFrame, published: pd.DataFrame) -> Results:
        """Read the rows of `metrics.json`, a `note` with each where there is one, and of the published CSV."""
        numbers: dict[tuple[Origin, str, Key], TableValue] = {}
        models: dict[Origin, tuple[str, ...]] = {}
        sources: tuple[tuple[Origin, pd.DataFrame], ...] = (("ours", metrics), ("published", published))
        for origin, frame in sources:
            rows = [row for row in frame.to_dict("records") if row["benchmark"] == "unpie"]
            models[origin] = tuple(dict.fromkeys(str(row["model"]) for row in rows))
            for row in rows:
                key = Key(*(str(row[name]) for name in ("task", "setting", "metric", "subset", "category")))
                numbers[origin, str(row["model"]), key] = _measured(row)
        return cls(numbers, models)

    def find(self, origin: Origin, model: str, key: Key) -> TableValue | None:
        """One number; None where there is no such row."""
        return self.numbers.get((origin, model, key))

    def value(self, origin: Origin, model: str, key: Key) -> float | None:
        """The number alone."""
        found = self.find(origin, model, key)
        return None if found is None else found.value

    def with_values(self, origin: Origin, keys: Iterable[Key]) -> list[str]:
        """Models with a value for one of the keys."""
        wanted = list(keys)
        return [
            model for model in self.models[origin] if any(self.value(origin, model, key) is not None for key in wanted)
        ]

    def thin(self, model: str, task: str, setting: str) -> bool:
        """Whether too many of our requests could not be asked to stand beside the published."""
        places = [(subset, category) for subset in ("", *PAIRS.get(task, ())) for category in ("", *KINDS)]
        shares = [self.value("ours", model, Key(task, setting, "coverage", *place)) for place in places]
        return any(share is not None and share < COVERED for share in shares)

    def subset_notes(self, task: str) -> tuple[str, ...]:
        """What to say where ours is not the full set."""
        sizes = {
            number.n
            for (origin, _, key), number in self.numbers.items()
            if origin == "ours" and key == Key(task, key.setting, "coverage") and number.n
        }
        full = _FULL[task]
        return tuple(
            f"subset: {size:,} of {full:,} requests; not comparable with the published full-set values"
            for size in sorted(size for size in sizes if size < full)
        )


def without_interval(number: TableValue | None, delta: TableValue | None = None) -> TableCell:
    """The number with its change, and with its note where it is missing or cannot be right."""
    if number is None:
        return None
    change = None if delta is None else delta.value
    note = number.note if number.doubtful or number.value is None else ""
    if delta is not None and delta.doubtful:
        note = "; ".join(filter(None, (note, f"change: {delta.note}")))
    if change is None and not note:
        return number.value
    return TableValue(value=number.value, delta=change, note=note, doubtful=number.doubtful)


def _measured(row: Mapping[Any, Any]) -> TableValue:
    note = row.get("note")
    note = note if isinstance(note, str) else ""
    value = _number(row["value"])
    if "n" not in row:
        return TableValue(value=value, note=note, doubtful=note.startswith(_DOUBTS))
    return TableValue(
        value=int(value) if value is not None and row["unit"] == "count" else value,
        low=_number(row["ci_low"]),
        high=_number(row["ci_high"]),
        n=int(row["n"]),
        n_failed=int(row["n_failed"]),
        note=note,
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)

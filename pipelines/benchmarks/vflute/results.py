"""Our numbers and the published ones of V-FLUTE, looked up by what they measure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.tables import TableValue
from pipelines.benchmarks.vflute.facts import FULL_TEST, SETTINGS

if TYPE_CHECKING:
    import pandas as pd

Origin: TypeAlias = Literal["ours", "published"]
EXPLAINED: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image")
"""Settings with explanations."""

_DOUBTS: Final = ("suspect", "inconsistent", "misprint")
_SUFFIX: Final[Mapping[str, str]] = {
    "zero-shot": "",
    "scene-graph": " + SG",
    "no-image": " \N{MINUS SIGN} Image",
}
_Key: TypeAlias = tuple[Origin, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Who:
    """A model in a setting."""

    model: str
    setting: str

    @property
    def label(self) -> str:
        """As the paper names it."""
        return self.model + _SUFFIX.get(self.setting, f", {self.setting}" if self.setting else "")


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one report."""

    numbers: Mapping[_Key, TableValue]
    ours: tuple[Who, ...]
    """Models by setting, in the order of settings; no annotators."""
    annotators: tuple[str, ...]
    tables: Mapping[str, tuple[Who, ...]]
    """Published table -> its rows."""

    @classmethod
    def of(cls, metrics: pd.DataFrame, published: pd.DataFrame) -> Results:
        """Read the rows of `metrics.json`, a `note` with each where there is one, and of the published CSV."""
        numbers: dict[_Key, TableValue] = {}
        ours: dict[Who, None] = {}
        tables: dict[str, dict[Who, None]] = {}
        sources: tuple[tuple[Origin, pd.DataFrame], ...] = (("ours", metrics), ("published", published))
        for origin, frame in sources:
            for row in frame.to_dict("records"):
                if row["benchmark"] != "vflute":
                    continue
                who = Who(str(row["model"]), str(row["setting"]))
                place = (str(row["subset"]), str(row["category"]), str(row["metric"]))
                numbers[origin, who.model, who.setting, *place] = _measured(row)
                if origin == "published":
                    tables.setdefault(str(row["table"]), {})[who] = None
                elif who.setting:
                    ours[who] = None
        models = sorted(ours, key=lambda who: SETTINGS.index(who.setting))  # a steady sort: models stay in order
        return cls(
            numbers,
            tuple(who for who in models if not who.model.startswith(ANNOTATOR)),
            tuple(dict.fromkeys(who.model for who in models if who.model.startswith(ANNOTATOR))),
            {name: tuple(rows) for name, rows in tables.items()},
        )

    def find(self, origin: Origin, who: Who, metric: str, group: tuple[str, str] = ("", "")) -> TableValue | None:
        """One number; None where there is no such row."""
        return self.numbers.get((origin, who.model, who.setting, *group, metric))

    def in_settings(self, *settings: str) -> list[Who]:
        """Ours in these settings."""
        return [who for who in self.ours if who.setting in settings]

    def human(self, group: tuple[str, str]) -> TableValue | None:
        """Mean F1@0 of annotators: our own where their labels were scored, else the published one."""
        own = [
            self.find("ours", Who(name, setting), "f1_at_0", group) for name in self.annotators for setting in SETTINGS
        ]
        known = [one for one in own if one is not None]
        value = mean_of(known)
        if value is not None:
            rows = {one.n for one in known}
            return TableValue(value=value, n=rows.pop() if len(rows) == 1 else None, note="own annotators")
        return self.find("published", Who("Human", ""), "f1_at_0", group)

    def best_published(self, group: tuple[str, str]) -> tuple[str, float] | None:
        """The model with the highest printed F1@0 in a group; appendix J judges labels without explanations."""
        apart = {who.model for who in self.tables.get("Appendix J", ())} | {"Human"}
        found = [
            (number.value, Who(model, setting).label)
            for (origin, model, setting, subset, category, metric), number in self.numbers.items()
            if origin == "published" and metric == "f1_at_0" and (subset, category) == group and setting
            and model not in apart and number.value is not None and not number.doubtful
        ]  # fmt: skip
        value, name = max(found, default=(None, ""))
        return None if value is None else (name, value)

    def curve(self, who: Who, group: tuple[str, str]) -> list[float] | None:
        """F1@k of k = 0..100; a threshold that has no row has the value of the one before."""
        first = self.find("ours", who, "f1_at_0", group)
        if first is None or first.value is None or self.find("ours", who, "f1_at_60", group) is None:
            return None
        values = [float(first.value)]
        for k in range(1, 101):
            at_k = self.find("ours", who, f"f1_at_{k}", group)
            values.append(values[-1] if at_k is None or at_k.value is None else float(at_k.value))
        return values

    def subset_notes(self) -> tuple[str, ...]:
        """What to say where ours is not the full test split."""
        sizes = {n.n for n in (self.find("ours", who, "accuracy") for who in self.ours) if n is not None and n.n}
        return tuple(
            f"Ours: {size:,} of {FULL_TEST} test rows; not comparable with the published full-set values."
            for size in sorted(sizes)
            if size < FULL_TEST
        )

    def counts(self, prefix: str) -> Iterator[tuple[str, str, int]]:
        """Metrics of one model that are counts by subset: metric, subset, value."""
        models = {key[1] for key in self.numbers if key[0] == "ours" and key[5].startswith(prefix)}
        for (origin, model, _, subset, _, metric), number in self.numbers.items():
            if origin == "ours" and models and model == min(models) and metric.startswith(prefix):
                yield metric, subset, int(number.value or 0)


def mean_of(numbers: list[TableValue]) -> float | None:
    """The mean of all; None where there is none, or one of them is missing."""
    values = [one.value for one in numbers if one.value is not None]
    return math.fsum(values) / len(values) if values and len(values) == len(numbers) else None


def without_interval(number: TableValue | None) -> float | TableValue | None:
    """The number alone; with its note where it is missing or cannot be right."""
    if number is None:
        return None
    if number.value is None or number.doubtful:
        return TableValue(value=number.value, note=number.note, doubtful=number.doubtful)
    return number.value


def _measured(row: Mapping[Any, Any]) -> TableValue:
    note = row.get("note")
    note = note if isinstance(note, str) else ""
    value, counted = _number(row["value"]), "n" in row
    if value is not None and row["unit"] == "count":
        value = int(value)
    return TableValue(
        value=value,
        low=_number(row["ci_low"]) if counted else None,
        high=_number(row["ci_high"]) if counted else None,
        n=int(row["n"]) if counted else None,
        n_failed=int(row["n_failed"]) if counted else None,
        note=note,
        doubtful=note.startswith(_DOUBTS),
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)

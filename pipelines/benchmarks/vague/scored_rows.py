"""One model's scored rows on VAGUE as columns over its items, a set of columns a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Sample
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Bools: TypeAlias = NDArray[np.bool_]

SETTINGS: Final = ("lm", "sm", "vlm", "sm-cot", "vlm-cot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Some of the items: the whole, a subset, those that a human answered."""

    subset: str
    mask: Bools
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """One task in one setting; every array has one place an item."""

    task: str
    setting: str
    status: NDArray[Any]
    """`ok`, `error`, `excluded`, `missing`; '' where the item was not asked."""
    answer: NDArray[Any]
    rule: NDArray[Any]
    flags: NDArray[Any]
    """Tuples of texts; None where the item was not asked."""
    values: Mapping[str, FloatArray]
    """NaN where there is none."""

    @property
    def ok(self) -> Bools:
        """Items with an answer."""
        found: Bools = self.status == "ok"
        return found

    @property
    def failed(self) -> Bools:
        """Items whose request failed."""
        found: Bools = self.status == "error"
        return found

    def flagged(self, flag: str) -> Bools:
        """Items whose answer has this flag."""
        return np.array([flag in (flags or ()) for flags in self.flags], dtype=np.bool_) & self.ok

    def column(self, name: str) -> FloatArray:
        """One value by name, NaN but for answers."""
        found = self.values.get(name)
        return np.where(self.ok, np.nan if found is None else found, np.nan)

    def note(self, mask: Bools) -> str:
        """What is lacking of some items."""
        failed, never = int((self.failed & mask).sum()), int(((self.status == "missing") & mask).sum())
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{never:,} never run"] if never else []
        return f"incomplete: {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """All cells over the same items."""

    samples: Sequence[Sample]
    clusters: NDArray[np.str_]
    cells: Mapping[tuple[str, str], SettingRows]

    @classmethod
    def of(cls, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> ScoredRows:
        """Arrange the rows of `Benchmark.reduce`."""
        names = list(dict.fromkeys(scores["sample_id"]))
        place = {name: index for index, name in enumerate(names)}
        cells = {}
        for key, rows in scores.groupby(["task", "setting"], sort=False):
            task, setting = map(str, key)
            places = np.array([place[name] for name in rows["sample_id"]], dtype=np.intp)
            cells[task, setting] = _cell(task, setting, rows, _Spread(places, len(names)))
        chosen = [samples[name] for name in names]
        clusters = np.array([sample.cluster or sample.sample_id for sample in chosen], dtype=np.str_)
        return cls(samples=chosen, clusters=clusters, cells=dict(sorted(cells.items(), key=_order)))

    def scopes(self) -> list[Scope]:
        """The whole, the subsets, and the items that a human answered or those that stand in for them."""
        subsets = np.array([sample.subset for sample in self.samples])
        human = np.array([sample.data.get("human", "") for sample in self.samples])
        found = [Scope(subset="", mask=np.ones(len(self.samples), dtype=np.bool_))]
        found += [Scope(subset=name, mask=subsets == name) for name in dict.fromkeys(subsets.tolist()) if name]
        for name in sorted(set(human.tolist()) - {""}):
            note = "the best-rated items, for which of them the human answered is not published"
            found.append(Scope(subset=name, mask=human == name, note=note if name.endswith("approx") else ""))
        return found


def _order(entry: tuple[tuple[str, str], SettingRows]) -> tuple[bool, int]:
    (task, setting), _ = entry
    return task != "mcq", SETTINGS.index(setting)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Puts a cell's rows at the places of their items."""

    places: NDArray[np.intp]
    size: int

    def texts(self, values: Sequence[Any], empty: str | None) -> NDArray[Any]:
        found = np.empty(self.size, dtype=object)
        found[:] = empty
        for place, value in zip(self.places, values, strict=True):
            found[place] = value
        return found

    def floats(self, values: FloatArray) -> FloatArray:
        found = np.full(self.size, np.nan)
        found[self.places] = values
        return found


_NOT_VALUES: Final = {
    *("request_id", "sample_id", "task", "setting", "variant", "subset", "category", "cluster"),
    *("finish_reason", "verdict_state", "status", "answer", "rule", "flags"),
}


def _cell(task: str, setting: str, rows: pd.DataFrame, spread: _Spread) -> SettingRows:
    def texts(name: str) -> list[str | None]:
        # pandas may tell a missing text as NaN
        column = rows[name] if name in rows else [None] * len(rows)
        return [text if isinstance(text, str) else None for text in column]

    flags = [_list(one) for one in rows["flags"]] if "flags" in rows else [()] * len(rows)
    return SettingRows(
        task=task,
        setting=setting,
        status=spread.texts(texts("status"), ""),
        answer=spread.texts(texts("answer"), None),
        rule=spread.texts(texts("rule"), None),
        flags=spread.texts(flags, None),
        values={
            str(name): spread.floats(rows[name].to_numpy(dtype=np.float64))
            for name in rows.columns
            if name not in _NOT_VALUES
        },
    )


def _list(flags: object) -> tuple[str, ...]:
    return tuple(flags) if isinstance(flags, list | tuple | np.ndarray) else ()

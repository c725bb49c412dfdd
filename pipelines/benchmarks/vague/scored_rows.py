"""One model's scored rows on VAGUE as columns over the items, one set of columns a task and setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vague.facts import CAPTIONED, SETTINGS
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A selection of items: all, a subset, or those that a person answered."""

    subset: str
    mask: Bools
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """One task in one setting; every array has one element an item."""

    task: str
    setting: str
    status: NDArray[Any]
    """`ok`, `error`, `excluded`, `missing`; '' where the item has no request."""
    answer: NDArray[Any]
    rule: NDArray[Any]
    flags: NDArray[Any]
    """Tuples of texts; None where the item has no request."""
    values: Mapping[str, FloatArray]
    """NaN where an item has no value."""

    @property
    def ok(self) -> Bools:
        """Items with an answer."""
        return np.asarray(self.status == "ok", dtype=np.bool_)

    @property
    def failed(self) -> Bools:
        """Items whose request failed."""
        return np.asarray(self.status == "error", dtype=np.bool_)

    def flagged(self, flag: str) -> Bools:
        """Return which items' answers have this flag."""
        return np.array([flag in (flags or ()) for flags in self.flags], dtype=np.bool_) & self.ok

    def column(self, name: str) -> FloatArray:
        """Return one value by name, NaN where there is no answer."""
        return np.where(self.ok, self.values.get(name, np.nan), np.nan)

    def note(self, mask: Bools) -> str:
        """Describe the failed and missing requests of a selection; '' where it is complete."""
        failed, missing = int((self.failed & mask).sum()), int(((self.status == "missing") & mask).sum())
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{missing:,} never run"] if missing else []
        return f"incomplete: {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """All tasks and settings over the same items."""

    samples: Sequence[Sample]
    clusters: NDArray[np.str_]
    by_setting: Mapping[tuple[str, str], SettingRows]

    @classmethod
    def of(cls, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> ScoredRows:
        """Arrange the rows of `Reporter.reduce`."""
        names = list(dict.fromkeys(scores["sample_id"]))
        indices = {name: index for index, name in enumerate(names)}
        by_setting = {}
        for key, rows in scores.groupby(["task", "setting"], sort=False):
            task, setting = map(str, key)
            positions = np.array([indices[name] for name in rows["sample_id"]], dtype=np.intp)
            by_setting[task, setting] = _setting_rows(task, setting, rows, _Scatter(positions, len(names)))
        selected = [samples[name] for name in names]
        clusters = np.array([sample.cluster or sample.sample_id for sample in selected], dtype=np.str_)
        return cls(samples=selected, clusters=clusters, by_setting=dict(sorted(by_setting.items(), key=_order)))

    def scopes(self) -> list[Scope]:
        """Return all items, the subsets, and the items that a person answered or those that stand in for them."""
        subsets = np.array([sample.subset for sample in self.samples])
        human = np.array([sample.data.get("human", "") for sample in self.samples])
        scopes = [Scope(subset="", mask=np.ones(len(self.samples), dtype=np.bool_))]
        scopes += [Scope(subset=name, mask=subsets == name) for name in dict.fromkeys(subsets.tolist()) if name]
        for name in sorted(set(human.tolist()) - {""}):
            note = "the best-rated items, for which of them the human answered is not published"
            scopes.append(Scope(subset=name, mask=human == name, note=note if name.endswith("approx") else ""))
        return scopes


def _order(entry: tuple[tuple[str, str], SettingRows]) -> tuple[bool, int]:
    (task, setting), _ = entry
    return task != "mcq", (*SETTINGS, CAPTIONED).index(setting)


@dataclass(frozen=True, slots=True)
class _Scatter:
    """Scatters the rows of a setting to the positions of their items."""

    positions: NDArray[np.intp]
    size: int

    def texts(self, values: Sequence[Any], empty: str | None) -> NDArray[Any]:
        column = np.empty(self.size, dtype=object)
        column[:] = empty
        for position, value in zip(self.positions, values, strict=True):
            column[position] = value
        return column

    def floats(self, values: FloatArray) -> FloatArray:
        column = np.full(self.size, np.nan)
        column[self.positions] = values
        return column


_TEXT_COLUMNS: Final = {
    *("request_id", "sample_id", "task", "setting", "variant", "subset", "category", "cluster"),
    *("finish_reason", "verdict_state", "status", "answer", "rule", "flags"),
}


def _setting_rows(task: str, setting: str, rows: pd.DataFrame, scatter: _Scatter) -> SettingRows:
    def texts(name: str) -> list[str | None]:
        # pandas may represent a missing text as NaN
        column = rows[name] if name in rows else [None] * len(rows)
        return [text if isinstance(text, str) else None for text in column]

    flags = [_flags(cell) for cell in rows["flags"]] if "flags" in rows else [()] * len(rows)
    return SettingRows(
        task=task,
        setting=setting,
        status=scatter.texts(texts("status"), ""),
        answer=scatter.texts(texts("answer"), None),
        rule=scatter.texts(texts("rule"), None),
        flags=scatter.texts(flags, None),
        values={
            str(name): scatter.floats(rows[name].to_numpy(dtype=np.float64))
            for name in rows.columns
            if name not in _TEXT_COLUMNS
        },
    )


def _flags(flags: object) -> tuple[str, ...]:
    return tuple(flags) if isinstance(flags, list | tuple | np.ndarray) else ()

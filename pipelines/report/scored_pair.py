"""The score rows of two models on one benchmark, aligned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.benchmarks.judges import is_verdict_value
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import split_variant
from pipelines.metrics.intervals import FloatArray
from pipelines.plan.completed import ids_of_other_prompt_sets
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.entry_frame import value_columns
from pipelines.schemas import SCORES
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

_KEY: Final = ("task", "setting", "sample_id", "variant")
_TEXTS: Final = (*_KEY, "subset", "category", "cluster", "status", "answer", "flags")
_Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRows:
    """Score rows of one model as columns, (rows,) each."""

    texts: Mapping[str, NDArray[Any]]  # `_TEXTS`
    values: Mapping[str, FloatArray]  # scores by name; NaN where a row has none
    indices: Mapping[_Key, int]  # of each row

    @classmethod
    def read(cls, out: Store, entry: ManifestEntry, setting: str = "", shown: str = "") -> ScoreRows:
        """Read the rows of an entry in its first set of prompts, of one setting under another name where given.

        Of rows with one key the last counts.
        """
        folder = part_folder("scores", entry.benchmark, entry.model)
        parts = [_part(out, entry, info.path) for info in list_parts(out, folder)]
        table = pa.concat_tables([SCORES.empty_table(), *parts], promote_options="default")
        texts = {name: _objects(table[name].to_pylist()) for name in _TEXTS}
        texts["cluster"] = np.where(texts["cluster"].astype(bool), texts["cluster"], texts["sample_id"])
        values = dict(value_columns(table["values"]))
        if setting:
            selected = texts["setting"] == setting
            texts, values = ({name: column[selected] for name, column in of.items()} for of in (texts, values))
            texts["setting"] = _objects([shown] * int(selected.sum()))
        keys = zip(*(texts[name].tolist() for name in _KEY), strict=True)
        return cls(texts, values, {key: index for index, key in enumerate(keys)})


def _part(out: Store, entry: ManifestEntry, path: str) -> pa.Table:
    part = read_part(out, path)
    other_set_ids = ids_of_other_prompt_sets(out, entry, path.replace("scores/", "predictions/", 1))
    if not other_set_ids:
        return part
    return part.filter(pa.array([request_id not in other_set_ids for request_id in part["request_id"].to_pylist()]))


def _objects(items: list[Any]) -> NDArray[Any]:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPair:
    """Two models on one benchmark, with their score rows."""

    a: ManifestEntry
    b: ManifestEntry
    rows_a: ScoreRows
    rows_b: ScoreRows
    settings: tuple[str, str] = ("", "")  # of A and of B, where one of each is compared; both have A's in the rows

    @classmethod
    def read(
        cls, a: tuple[Store, ManifestEntry], b: tuple[Store, ManifestEntry], settings: tuple[str, str] = ("", "")
    ) -> ScoredPair:
        """Read the scores of two entries, of one setting each where `settings` names them."""
        rows_a, rows_b = (
            ScoreRows.read(*side, setting, settings[0]) for side, setting in zip((a, b), settings, strict=True)
        )
        return cls(a=a[1], b=b[1], rows_a=rows_a, rows_b=rows_b, settings=settings)

    def setting_name(self, setting: str) -> str:
        """Return a setting as a comparison shows it."""
        return setting if len(set(self.settings)) == 1 else " / ".join(self.settings)

    @property
    def unscored(self) -> list[str]:
        """Which of A and B have no score rows; nothing is compared then."""
        return [side for side, rows in (("A", self.rows_a), ("B", self.rows_b)) if not rows.indices]

    @cached_property
    def _keys(self) -> list[_Key]:
        """Keys of the rows of either, sorted."""
        return sorted(self.rows_a.indices.keys() | self.rows_b.indices.keys())

    @cached_property
    def _indices(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Indices of `_keys` in the rows of A and of B; -1 where there is no such row."""
        a, b = (
            np.array([rows.indices.get(key, -1) for key in self._keys], dtype=np.intp)
            for rows in (self.rows_a, self.rows_b)
        )
        return a, b

    @cached_property
    def _cells(self) -> list[tuple[tuple[str, str], slice]]:
        """Slices of `_keys` by task and setting."""
        cells, start = [], 0
        for cell, keys in groupby(self._keys, key=itemgetter(0, 1)):
            stop = start + sum(1 for _ in keys)
            cells.append((cell, slice(start, stop)))
            start = stop
        return cells

    def score_means(self) -> Iterator[tuple[PairedMetric, int, int]]:
        """Yield, for each score of each task and setting, its mean over the rows that have it in both.

        With it come the numbers of rows that only one of the two scored, and of common rows with another answer.
        """
        skipped = {*self.a.definition.descriptive_values}
        names = sorted((self.rows_a.values.keys() & self.rows_b.values.keys()) - skipped)
        names = [name for name in names if not is_verdict_value(name)]
        sides = tuple(zip((self.rows_a, self.rows_b), self._indices, strict=True))
        columns = {
            name: [np.where(indices >= 0, rows.values[name][indices], np.nan) for rows, indices in sides]
            for name in names
        }
        changed = np.not_equal(*(rows.texts["answer"][indices] for rows, indices in sides))
        for cell, cell_rows in self._cells:
            repeats = 1 + max(split_variant(key[3])[1] for key in self._keys[cell_rows])
            for name in names:
                a, b = (column[cell_rows] for column in columns[name])
                has_a, has_b = ~np.isnan(a), ~np.isnan(b)
                both = has_a & has_b
                if not both.any():
                    continue
                metric = PairedMetric.mean(
                    a[both],
                    b[both],
                    task=cell[0],
                    setting=cell[1],
                    metric=name,
                    clusters=self.rows_a.texts["cluster"][self._indices[0][cell_rows][both]],
                    repeats=repeats,
                )
                yield metric, int((has_a ^ has_b).sum()), int(changed[cell_rows][both].sum())

    @cached_property
    def _answered(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of `_keys` A and B answered."""
        a, b = (
            (indices >= 0) & (rows.texts["status"][indices] == "ok")
            for rows, indices in zip((self.rows_a, self.rows_b), self._indices, strict=True)
        )
        return a, b

    def answered(self) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        """Yield, for each setting, the rows that both models answered, in the same order; without repeats."""
        import pandas as pd

        is_first = np.array([not split_variant(key[3])[1] for key in self._keys], dtype=np.bool_)
        both = self._answered[0] & self._answered[1] & is_first
        settings = np.array([key[1] for key in self._keys])
        for setting in sorted(set(settings[both].tolist())):
            chosen = both & (settings == setting)
            frames = []
            for rows, indices in zip((self.rows_a, self.rows_b), self._indices, strict=True):
                chosen_rows = indices[chosen]
                texts = {name: pd.Series(column[chosen_rows], dtype=object) for name, column in rows.texts.items()}
                frames.append(
                    pd.DataFrame({**texts, **{name: column[chosen_rows] for name, column in rows.values.items()}})
                )
            yield frames[0], frames[1]

    def only_one_answered(self, task: str, setting: str) -> int:
        """Count the rows of a task, or of all tasks of a derived one, that only one of the two answered."""
        tasks = self.a.definition.derived_tasks.get(task, (task,))
        exclusive = self._answered[0] ^ self._answered[1]
        return sum(
            int(exclusive[cell_rows].sum())
            for cell, cell_rows in self._cells
            if cell[0] in tasks and cell[1] == setting
        )

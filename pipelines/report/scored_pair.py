"""The score rows of two models on one benchmark, aligned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.benchmarks.judges import is_verdict_value
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import split_variant
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.paired import repeat_variance
from pipelines.plan.planner import ids_of_other_prompt_sets
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.entry_frame import value_columns
from pipelines.schemas import SCORES
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

_KEY: Final = ("task", "setting", "sample_id", "variant")
_TEXTS: Final = (*_KEY, "subset", "category", "cluster", "status", "answer", "flags")


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Score rows of one model as columns, (rows,) each."""

    texts: Mapping[str, NDArray[Any]]  # `_TEXTS`
    values: Mapping[str, FloatArray]  # scores by name; NaN where a row has none

    @classmethod
    def read(cls, out: Store, entry: ManifestEntry, setting: str = "", shown: str = "") -> ScoreRows:
        """Read the rows of an entry in its first set of prompts, of one setting under another name where given."""
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
        return cls(texts, values)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows by key, sorted; of those with one key the last."""
        import pandas as pd

        texts = {name: pd.Series(column, dtype=object) for name, column in self.texts.items()}
        frame = pd.DataFrame({**texts, **self.values}).drop_duplicates([*_KEY], keep="last")
        return frame.set_index([frame[name].rename(None) for name in _KEY]).sort_index()


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


RowReader: TypeAlias = Callable[[Store, ManifestEntry, str, str], ScoreRows]
"""Reads the rows of an entry, of one setting under another name if given."""


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
        cls,
        a: tuple[Store, ManifestEntry],
        b: tuple[Store, ManifestEntry],
        settings: tuple[str, str] = ("", ""),
        read: RowReader = ScoreRows.read,
    ) -> ScoredPair:
        """Read the scores of two entries, of one setting each if `settings` names them; `read` may remember rows."""
        rows_a, rows_b = (read(*side, setting, settings[0]) for side, setting in zip((a, b), settings, strict=True))
        return cls(a=a[1], b=b[1], rows_a=rows_a, rows_b=rows_b, settings=settings)

    def setting_name(self, setting: str) -> str:
        """Return a setting as a comparison shows it."""
        return setting if len(set(self.settings)) == 1 else " / ".join(self.settings)

    @property
    def unscored(self) -> list[str]:
        """Which of A and B have no score rows; nothing is compared then."""
        return [side for side, rows in (("A", self.rows_a), ("B", self.rows_b)) if not len(rows.texts["task"])]

    @cached_property
    def _sides(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The rows of A and of B by the keys of either, sorted; empty where there is no such row."""
        import pandas as pd

        a, b = self.rows_a.frame, self.rows_b.frame
        if a.index.equals(b.index):  # as models of an output usually have
            return a, b
        keys = pd.MultiIndex.from_tuples(sorted({*a.index, *b.index}))
        return a.reindex(keys), b.reindex(keys)

    @cached_property
    def _groups(self) -> list[tuple[tuple[str, str], NDArray[np.intp]]]:
        """Places of the rows by task and setting."""
        places: dict[Any, Any] = self._sides[0].groupby(level=[0, 1]).indices
        return sorted(places.items())

    @cached_property
    def _repeats(self) -> NDArray[np.intp]:
        """The repeat that each row is of, from 0."""
        return np.array([split_variant(key[3])[1] for key in self._sides[0].index], dtype=np.intp)

    @cached_property
    def _questions(self) -> NDArray[np.intp]:
        """A number for each question; its repeats have the same one."""
        keys = [(*key[:3], split_variant(key[3])[0]) for key in self._sides[0].index]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[key] for key in keys], dtype=np.intp)

    def score_means(self) -> Iterator[tuple[PairedMetric, int, int]]:
        """Yield, for each score of each task and setting, its mean over the rows that have it in both.

        With it come the numbers of rows that only one of the two scored, and of common rows with another answer.
        """
        skipped = {*self.a.definition.descriptive_values}
        names = sorted((self.rows_a.values.keys() & self.rows_b.values.keys()) - skipped)
        names = [name for name in names if not is_verdict_value(name)]
        a_rows, b_rows = self._sides
        changed = np.not_equal(a_rows["answer"].to_numpy(object), b_rows["answer"].to_numpy(object))
        for group, places in self._groups:
            repeats = 1 + int(self._repeats[places].max())
            for name in names:
                a, b = (rows[name].to_numpy(np.float64)[places] for rows in self._sides)
                has_a, has_b = ~np.isnan(a), ~np.isnan(b)
                both = has_a & has_b
                if not both.any():
                    continue
                noise = repeat_variance(b[both] - a[both], self._questions[places[both]]) if repeats > 1 else None
                metric = PairedMetric.mean(
                    a[both],
                    b[both],
                    task=group[0],
                    setting=group[1],
                    metric=name,
                    clusters=a_rows["cluster"].to_numpy(object)[places[both]],
                    repeats=repeats,
                    repeat_variance=noise,
                )
                yield metric, int((has_a ^ has_b).sum()), int(changed[places[both]].sum())

    @cached_property
    def _answered(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the rows A and B answered."""
        a, b = ((rows["status"] == "ok").to_numpy(np.bool_) for rows in self._sides)
        return a, b

    def answered(self) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        """Yield, for each setting, the rows that both models answered, in the same order; without repeats."""
        both = self._answered[0] & self._answered[1] & (self._repeats == 0)
        a, b = (rows[both].reset_index(drop=True) for rows in self._sides)
        for setting in sorted({*a["setting"]}):
            first, second = (rows[a["setting"] == setting].reset_index(drop=True) for rows in (a, b))
            yield first, second

    def only_one_answered(self, task: str, setting: str) -> int:
        """Count the rows of a task, or of all tasks of a derived one, that only one of the two answered."""
        tasks = self.a.definition.derived_tasks.get(task, (task,))
        exclusive = self._answered[0] ^ self._answered[1]
        return sum(
            int(exclusive[places].sum()) for group, places in self._groups if group[0] in tasks and group[1] == setting
        )

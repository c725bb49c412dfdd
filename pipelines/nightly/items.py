"""Scores by sample: what two nights are paired on."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.judges import is_verdict_value
from pipelines.metrics.intervals import FloatArray
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store


class CellKey(NamedTuple):
    """One score of a model under one task and setting, such as `correct`."""

    model: str
    benchmark: str
    task: str
    setting: str  # '' for all settings of the task together, which shows smaller changes
    score: str


@dataclass(frozen=True, slots=True, eq=False)
class ItemScores:
    """A score by sample: sums over the sample's rows, and how many rows have it."""

    samples: NDArray[np.str_]  # (samples,), sorted, each once
    totals: FloatArray  # (samples,)
    rows: FloatArray  # (samples,), at least 1

    @classmethod
    def of(cls, samples: NDArray[np.str_], values: FloatArray) -> Self:
        """Sum rows, (rows,) each, by sample."""
        names, inverse = np.unique(samples, return_inverse=True)
        totals, rows = np.zeros(len(names)), np.zeros(len(names))
        np.add.at(totals, inverse.reshape(-1), values)
        np.add.at(rows, inverse.reshape(-1), 1.0)
        return cls(names, totals, rows)

    @property
    def mean(self) -> float:
        """The mean over rows."""
        return float(self.totals.sum() / self.rows.sum())


Items = Mapping[CellKey, ItemScores]

ITEMS: Final = pa.schema(
    [
        *((name, pa.string()) for name in (*CellKey._fields, "sample_id")),
        ("total", pa.float64()),
        ("rows", pa.float64()),
    ]
)


def entry_items(out: Store, entry: ManifestEntry) -> dict[CellKey, ItemScores]:
    """Return the scores of an entry of an output by sample, in its first set of prompts."""
    rows = ScoreRows.read(out, entry)
    skipped = {*benchmark(entry.benchmark).descriptive_values}
    tasks, settings = rows.texts["task"].astype(str), rows.texts["setting"].astype(str)
    samples = rows.texts["sample_id"].astype(str)
    items: dict[CellKey, ItemScores] = {}
    for name, values in sorted(rows.values.items()):
        if name in skipped or is_verdict_value(name):
            continue
        for task, setting in _cells(tasks, settings):
            chosen = ~np.isnan(values) & (tasks == task) & ((settings == setting) if setting else True)
            if chosen.any():
                key = CellKey(entry.model, entry.benchmark, task, setting, name)
                items[key] = ItemScores.of(samples[chosen], values[chosen])
    return items


def _cells(tasks: NDArray[np.str_], settings: NDArray[np.str_]) -> list[tuple[str, str]]:
    """Return tasks with their settings; '' stands for all settings of a task that has several."""
    cells = sorted({*zip(tasks.tolist(), settings.tolist(), strict=True)})
    counts = Counter(task for task, _ in cells)
    return [*cells, *((task, "") for task, count in counts.items() if count > 1)]


def items_table(items: Items) -> pa.Table:
    """Return scores by sample as the columns of ITEMS."""
    tables = [
        pa.table(
            {
                **{name: pa.array([text]).take(pa.array(np.zeros(len(scores.samples), dtype=np.int64)))
                   for name, text in zip(CellKey._fields, key, strict=True)},
                "sample_id": pa.array(scores.samples.tolist(), pa.string()),
                "total": scores.totals,
                "rows": scores.rows,
            },
            schema=ITEMS,
        )
        for key, scores in items.items()
    ]  # fmt: skip
    return pa.concat_tables(tables) if tables else ITEMS.empty_table()


def read_items(table: pa.Table) -> dict[CellKey, ItemScores]:
    """Read the columns of ITEMS; rows of a cell are consecutive."""
    return dict(_read_cells(table))


def _read_cells(table: pa.Table) -> Iterator[tuple[CellKey, ItemScores]]:
    keys = list(zip(*(table[name].to_pylist() for name in CellKey._fields), strict=True))
    samples = np.array(table["sample_id"].to_pylist(), dtype=str)
    totals, rows = (table[name].to_numpy() for name in ("total", "rows"))
    starts = [row for row, key in enumerate(keys) if row == 0 or key != keys[row - 1]]
    for start, stop in pairwise([*starts, len(keys)]):
        yield CellKey(*keys[start]), ItemScores(samples[start:stop], totals[start:stop], rows[start:stop])

"""Scores by sample: what two nights are paired on."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.judges import is_verdict_value
from pipelines.metrics.intervals import FloatArray, shift_p, sums_by
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store

ALLOWANCE: Final = 0.5
"""Standard errors that each night takes off the sums."""
SAMPLES_P: Final = 0.002
"""A change over nights is one of the samples too if its p-value over clusters is below."""
_OVERSHOOT: Final = 1.166  # of a normal sum over its limit (Siegmund 1985)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accumulated:
    """What the nights of a level say of a score; samples that a night lacks keep their mean."""

    samples: NDArray[Any]  # (samples,), of the first night
    clusters: NDArray[Any]  # (samples,)
    weights: FloatArray  # (samples,), rows
    before: FloatArray  # (samples,), means over the nights before the sums left 0
    after: FloatArray  # (samples,), means over the nights since then
    nights_before: int = 1
    nights_after: int = 0
    up: float = 0.0
    down: float = 0.0
    noise: float = 0.0
    """Sum over nights of the variance of the score's sum from night to night."""

    @classmethod
    def start(cls, samples: NDArray[Any], clusters: NDArray[Any], weights: FloatArray, means: FloatArray) -> Self:
        """Return the state after the first night."""
        return cls(samples=samples, clusters=clusters, weights=weights, before=means, after=np.zeros(len(means)))

    @property
    def mean(self) -> FloatArray:
        """The mean of each sample over all nights."""
        nights = self.nights_before + self.nights_after
        mean: FloatArray = (self.nights_before * self.before + self.nights_after * self.after) / nights
        return mean

    def add(self, samples: NDArray[Any], means: FloatArray) -> Self:
        """Add a night's means by sample."""
        nights, mean = self.nights_before + self.nights_after, self.mean
        tonight = _aligned(self.samples, mean, samples, means)
        distances = (tonight - mean) * self.weights * math.sqrt(nights / (nights + 1))
        noise = self.noise + float(np.square(sums_by(self.clusters, distances)).sum())
        z = float(distances.sum()) / math.sqrt(noise / nights) if noise > 0 else 0.0
        up, down = max(0.0, self.up + z - ALLOWANCE), max(0.0, self.down - z - ALLOWANCE)
        changed = replace(self, up=up, down=down, noise=noise)
        if not (up or down):
            after = np.zeros(len(tonight))
            return replace(
                changed, before=mean + (tonight - mean) / (nights + 1), after=after, nights_before=nights + 1,
                nights_after=0,
            )  # fmt: skip
        after = self.after + (tonight - self.after) / (self.nights_after + 1)
        return replace(changed, after=after, nights_after=self.nights_after + 1)

    def p(self, rate: float) -> float | None:
        """Return the p-value over clusters if nights and samples both say that the score changed, else None.

        `rate` is how many false alarms a night the nights may give, for this score.
        """
        if not self.nights_after or max(self.up, self.down) < math.log(1 / rate) - _OVERSHOOT:
            return None
        differences = (self.after - self.before) * self.weights
        p = shift_p(differences, self.clusters)
        return p if p < SAMPLES_P and (differences.sum() > 0) == (self.up > self.down) else None

    @property
    def means(self) -> tuple[float, float]:
        """The means before and since, weighted by rows."""
        before, after = (float(np.average(means, weights=self.weights)) for means in (self.before, self.after))
        return before, after


def _aligned(names: NDArray[Any], earlier: FloatArray, samples: NDArray[Any], means: FloatArray) -> FloatArray:
    """Return a night's means of the samples with these names, those that it lacks as `earlier`."""
    if np.array_equal(names, samples):
        return means
    tonight = earlier.copy()
    _, here, there = np.intersect1d(names, samples, assume_unique=True, return_indices=True)
    tonight[here] = means[there]
    return tonight


class ScoreKey(NamedTuple):
    """One score of a model under one task and setting, such as `correct`."""

    model: str
    benchmark: str
    task: str  # '' for all tasks and settings together, which shows smaller changes
    setting: str  # '' for all settings of the task together
    score: str


@dataclass(frozen=True, slots=True, eq=False)
class ItemScores:
    """A score by sample: sums over the sample's rows, and how many rows have it."""

    samples: NDArray[Any]  # (samples,), sorted, each once
    totals: FloatArray  # (samples,)
    rows: FloatArray  # (samples,), at least 1
    clusters: NDArray[Any]  # (samples,), what shares media or origin
    accumulated: Accumulated | None = None  # over the nights of the level up to this one

    @classmethod
    def of(cls, samples: NDArray[Any], values: FloatArray, clusters: NDArray[Any] | None = None) -> Self:
        """Sum rows, (rows,) each, by sample; each sample is a cluster of its own unless `clusters` are given."""
        names, first, inverse = np.unique(samples, return_index=True, return_inverse=True)
        totals, rows = np.zeros(len(names)), np.zeros(len(names))
        np.add.at(totals, inverse.reshape(-1), values)
        np.add.at(rows, inverse.reshape(-1), 1.0)
        return cls(names, totals, rows, names if clusters is None else clusters[first])

    @property
    def mean(self) -> float:
        """The mean over rows."""
        return float(self.totals.sum() / self.rows.sum())

    def begun(self) -> Accumulated:
        """Return these scores as the first night of a level."""
        return Accumulated.start(self.samples, self.clusters, self.rows, self.totals / self.rows)


Items = Mapping[ScoreKey, ItemScores]

_ACCUMULATED: Final = ("nights_before", "nights_after", "up", "down", "noise")
ITEMS: Final = pa.schema(
    [
        *((name, pa.string()) for name in (*ScoreKey._fields, "sample_id")),
        ("total", pa.float64()),
        ("rows", pa.float64()),  # 0 of a sample that this night lacks
        ("cluster", pa.string()),
        ("weight", pa.float64()),  # null of a sample that the first night of the level lacks, as are the following
        ("before", pa.float64()),
        ("after", pa.float64()),
        *((name, pa.int64() if name.startswith("nights") else pa.float64()) for name in _ACCUMULATED),
    ]
)


def entry_items(out: Store, entry: ManifestEntry) -> dict[ScoreKey, ItemScores]:
    """Return the scores of an entry of an output by sample, in its first set of prompts."""
    rows = ScoreRows.read(out, entry)
    skipped = {*benchmark(entry.benchmark).descriptive_values}
    tasks, settings = rows.texts["task"].astype(str), rows.texts["setting"].astype(str)
    samples, clusters = (rows.texts[name].astype(str) for name in ("sample_id", "cluster"))
    items: dict[ScoreKey, ItemScores] = {}
    for name, values in sorted(rows.values.items()):
        if name in skipped or is_verdict_value(name):
            continue
        for task, setting in _groups(tasks, settings):
            chosen = ~np.isnan(values)
            for part, names in ((task, tasks), (setting, settings)):
                chosen &= names == part if part else True
            if chosen.any():
                key = ScoreKey(entry.model, entry.benchmark, task, setting, name)
                items[key] = ItemScores.of(samples[chosen], values[chosen], clusters[chosen])
    return items


def _groups(tasks: NDArray[np.str_], settings: NDArray[np.str_]) -> list[tuple[str, str]]:
    """Return tasks with their settings; '' stands for all settings of a task, or all tasks, if there are several."""
    groups = sorted({*zip(tasks.tolist(), settings.tolist(), strict=True)})
    counts = Counter(task for task, _ in groups)
    pooled = [(task, "") for task, count in counts.items() if count > 1]
    return [*groups, *pooled, *([("", "")] if len(counts) > 1 else [])]


def items_table(items: Items) -> pa.Table:
    """Return scores by sample as the columns of ITEMS."""
    tables = [_score_table(key, scores) for key, scores in items.items()]
    return pa.concat_tables(tables) if tables else ITEMS.empty_table()


def _score_table(key: ScoreKey, scores: ItemScores) -> pa.Table:
    state = scores.accumulated
    samples = np.union1d(scores.samples, state.samples) if state else scores.samples
    columns = {"total": scores.totals, "rows": scores.rows}
    filled = {name: _at(samples, scores.samples, column, 0.0) for name, column in columns.items()}
    clusters = np.empty(len(samples), dtype=object)
    if state:
        clusters[np.searchsorted(samples, state.samples)] = state.clusters
        columns = {"weight": state.weights, "before": state.before, "after": state.after}
        filled |= {name: _at(samples, state.samples, column, np.nan) for name, column in columns.items()}
    clusters[np.searchsorted(samples, scores.samples)] = scores.clusters
    constant = {**key._asdict(), **{name: getattr(state, name, None) for name in _ACCUMULATED}}
    repeated = np.zeros(len(samples), dtype=np.int64)
    arrays = {
        **{
            name: pa.array([value], ITEMS.field(name).type).take(pa.array(repeated)) for name, value in constant.items()
        },
        "sample_id": pa.array(samples.astype(str).tolist(), pa.string()),
        "cluster": pa.array(clusters.astype(str).tolist(), pa.string()),
        **{name: pa.array(column, from_pandas=True) for name, column in filled.items()},
    }
    return pa.table({name: arrays.get(name, pa.nulls(len(samples), ITEMS.field(name).type)) for name in ITEMS.names})


def _at(samples: NDArray[Any], names: NDArray[Any], values: FloatArray, missing: float) -> FloatArray:
    """Return values of the samples with these names at their places among all samples."""
    column = np.full(len(samples), missing)
    column[np.searchsorted(samples, names)] = values
    return column


def read_items(table: pa.Table) -> dict[ScoreKey, ItemScores]:
    """Read the columns of ITEMS; rows of a score are consecutive."""
    return dict(_read_scores(table))


def _read_scores(table: pa.Table) -> Iterator[tuple[ScoreKey, ItemScores]]:
    keys = list(zip(*(table[name].to_pylist() for name in ScoreKey._fields), strict=True))
    texts = [np.array(table[name].to_pylist(), dtype=str) for name in ("sample_id", "cluster")]
    numbers = {field.name: table[field.name].to_numpy() for field in ITEMS if field.type != pa.string()}
    starts = [row for row, key in enumerate(keys) if row == 0 or key != keys[row - 1]]
    for start, stop in pairwise([*starts, len(keys)]):
        samples, clusters = (column[start:stop] for column in texts)
        columns = {name: column[start:stop] for name, column in numbers.items()}
        has = columns["rows"] > 0
        scores = ItemScores(samples[has], columns["total"][has], columns["rows"][has], clusters[has])
        yield ScoreKey(*keys[start]), replace(scores, accumulated=_accumulated(samples, clusters, columns))


def _accumulated(
    samples: NDArray[Any], clusters: NDArray[Any], columns: Mapping[str, NDArray[Any]]
) -> Accumulated | None:
    has = ~np.isnan(columns["weight"].astype(np.float64))
    if not has.any():
        return None
    weights, before, after = (columns[name][has].astype(np.float64) for name in ("weight", "before", "after"))
    return Accumulated(
        samples=samples[has],
        clusters=clusters[has],
        weights=weights,
        before=before,
        after=after,
        nights_before=int(columns["nights_before"][0]),
        nights_after=int(columns["nights_after"][0]),
        **{name: float(columns[name][0]) for name in ("up", "down", "noise")},
    )

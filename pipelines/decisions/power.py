"""How many rows a difference needs, and what difference the rows of an output can show."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from models.errors import suggest
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import RIGHT, is_person
from pipelines.decisions.evidence import NORMAL, POWER, Z95, Evidence
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.report.compare import Difference, compare
from pipelines.report.measured import Measured
from pipelines.report.metrics_file import load_metrics
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.store import Store

_DETECTED = Z95 + NORMAL.inv_cdf(POWER)
"""Standard errors of a difference that a two-sided test at 5% finds in four of five cases."""
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """One number of a model, and the difference from another model that its rows can show."""

    benchmark: str
    model: str
    other: str = ""  # the model with which the rows were paired; '' for another of the same spread, not paired
    task: str
    setting: str
    metric: str
    value: float
    n: int
    clusters: int
    standard_error: float  # of the difference
    detectable: float  # the smallest difference found in 80% of cases
    rows_needed: int  # for the difference asked for
    clusters_needed: int


def power(out: Store, difference: float, metric: str = "") -> list[PowerRow]:
    """Return what each whole number of an output can show, its headlines without a metric.

    A pair of models of the output is measured as a pair: what answers have in common cancels. A single model is set
    beside one of the same spread whose answers have nothing in common with its own, which is the most that it takes.

    Raises UsageError for a difference that is no share, or a metric that no number of the output has.
    """
    if not 0 < difference <= DIFFERENCE[1]:
        raise UsageError(f"--difference is {difference:g}, expected a fraction such as 0.02")
    numbers = [n for n in load_metrics(out) or () if n.is_whole and n.value is not None and not is_person(n.model)]
    entries = {(entry.benchmark, entry.model): entry for entry in load_existing_run(out).entries}
    chosen = [n for n in numbers if n.metric == (metric or benchmark(n.benchmark).headline)]
    if not chosen:
        hint = suggest(metric, {n.metric for n in numbers}) if metric else "; run `vlmsweep report` first"
        raise UsageError(f"{out.uri} has no value of {metric or 'a headline metric'}{hint}")
    singles = [row for n in chosen for row in _single(n, out, entries.get((n.benchmark, n.model)), difference)]
    return [*singles, *_pairs(out, singles, difference)]


def _single(number: Measured, out: Store, entry: ManifestEntry | None, difference: float) -> Iterator[PowerRow]:
    if number.value is None or number.ci_low is None or number.ci_high is None or entry is None or not number.n:
        return
    error = math.sqrt(2) * Evidence(number.value, number.ci_low, number.ci_high, number.n).standard_error
    texts = ScoreRows.read(out, entry).texts
    tasks = benchmark(number.benchmark).derived_tasks.get(number.task, (number.task,))
    cell = np.isin(texts["task"], tasks) & (texts["setting"] == number.setting)
    rows = cell & (texts["status"] == "ok")
    if number.n > rows.sum():  # a metric that counts failed rows as wrong
        rows = cell & np.isin(texts["status"], ["ok", "error"])
    names: dict[str, Any] = {
        name: getattr(number, name) for name in ("benchmark", "model", "task", "setting", "metric", "value")
    }
    size = (number.n, len({*texts["cluster"][rows]}))
    yield PowerRow(**names, **_needed(size, error, difference))


def _needed(size: tuple[int, int], error: float, difference: float) -> dict[str, Any]:
    """Return what follows from the rows and clusters of a number, and the standard error of its difference."""
    times = (_DETECTED * error / difference) ** 2
    return {
        "n": size[0],
        "clusters": size[1],
        "standard_error": error,
        "detectable": _DETECTED * error,
        "rows_needed": math.ceil(times * size[0]),
        "clusters_needed": math.ceil(times * size[1]),
    }


def _pairs(out: Store, singles: Sequence[PowerRow], difference: float) -> Iterator[PowerRow]:
    """Yield the rows of models in pairs, each with the next of its benchmark, where a score's means are the values."""
    names = {row.benchmark for row in singles}
    models = {name: sorted({row.model for row in singles if row.benchmark == name}) for name in sorted(names)}
    for first, second in dict.fromkeys(pair for of_benchmark in models.values() for pair in pairwise(of_benchmark)):
        others = {(row.benchmark, row.task, row.setting): row for row in singles if row.model == second}
        tested: Sequence[Difference] = ()
        with contextlib.suppress(UsageError):  # they have no row in common
            tested = compare(out, out, (first, second)).differences
        rows = (row for row in singles if row.model == first)
        for row in (row for row in rows if (first, second) in pairwise(models[row.benchmark])):
            other = others.get((row.benchmark, row.task, row.setting))
            pair = next((pair for pair in tested if other and _is_of(row, other, pair)), None)
            if pair is not None and pair.ci_low is not None and pair.ci_high is not None:
                error = (pair.ci_high - pair.ci_low) / 2 / Z95
                yield replace(row, other=second, **_needed((pair.n, pair.clusters), error, difference))


def _is_of(row: PowerRow, other: PowerRow, pair: Difference) -> bool:
    """Return whether a difference is that of two rows: of their metric, or of verdicts whose means are its values."""
    is_cell = (row.benchmark, row.task, row.setting, "", "") == (
        *(pair.benchmark, pair.task, pair.setting, pair.subset, pair.category),
    )
    is_same = max(abs(pair.mean_a - row.value), abs(pair.mean_b - other.value)) < _SAME
    return is_cell and is_same and pair.value in (row.metric, *RIGHT)

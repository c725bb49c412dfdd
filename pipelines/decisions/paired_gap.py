"""The difference of any metric between two models on the rows that both have, with its interval.

The jackknife leaves out groups of clusters at a time (Kott 2001, The delete-a-group jackknife), reducing both models
anew: it needs no formula of the metric, so it holds for metrics of pools and of a corpus alike.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.judges import without_verdicts
from pipelines.benchmarks.metrics_kernel.repeats import first_repeats
from pipelines.benchmarks.records import Sample
from pipelines.decisions.evidence import Evidence
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.metrics.intervals import student_quantile, wilson
from pipelines.metrics.stats import SEED
from pipelines.plan.context import entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry, asked_rows
from pipelines.report.measured import MetricKey
from pipelines.storage.store import Store

GROUPS: Final = 40  # at most; with fewer clusters each is a group
_KEY: Final = ["task", "setting", "sample_id", "variant"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEntry:
    """The scored rows of one model on one benchmark, and its samples."""

    definition: BenchmarkDefinition
    frame: pd.DataFrame
    samples: Mapping[str, Sample]

    @classmethod
    def read(cls, out: Store, entry: ManifestEntry) -> Self:
        """Read an entry of an output."""
        plans = entry_plans(next(iter(entry.by_prompt_set())), out, PlanStore(out), Datasets())
        requests = EntryRequests.read(PlannedEntry(entry, plans))
        frame = without_verdicts(asked_rows(EntryScores.read(out, entry).join(requests.columns)))
        return cls(entry.definition, frame[frame["status"] != "missing"], requests.samples)

    def value(self, key: MetricKey, frame: pd.DataFrame) -> tuple[float | None, int]:
        """Return a number of some of the rows and its count; None where it has none."""
        reduced = self.definition.reduce(frame, self.samples)
        matches = (m for m in reduced if (m.metric, m.task, m.setting, m.subset, m.category) == key[:5])
        return next(((metric.value, metric.n) for metric in matches), (None, 0))


def paired_gap(new: ScoredEntry, old: ScoredEntry, key: MetricKey) -> tuple[Evidence, float]:
    """Return new minus old with its 95% interval, and the old value, on the rows that both have.

    Raises UsageError where there are no such rows, or the number cannot be computed from them.
    """
    tasks = new.definition.derived_tasks.get(key.task, (key.task,))
    frames = [
        side.frame[side.frame["task"].isin(tasks) & (side.frame["setting"] == key.setting)] for side in (new, old)
    ]
    shared = frames[0][_KEY].merge(frames[1][_KEY], on=_KEY)
    frames = [shared.merge(frame, on=_KEY) for frame in frames]
    name = f"{new.definition.name} {key.task} {key.setting} {key.metric}"
    if shared.empty:
        raise UsageError(f"{name}: the two outputs have no rows in common")
    sides = [side.value(key, frame) for side, frame in zip((new, old), frames, strict=True)]
    values, n = [value for value, _ in sides], min(n for _, n in sides)
    if None in values:
        raise UsageError(f"{name}: it has no value on the {len(shared):,} rows that both outputs have")
    whole = float(values[0] or 0.0) - float(values[1] or 0.0)
    left = [_gap(new, old, key, frames, keep) for keep in _without_groups(frames[0])]
    gaps = np.array([gap for gap in left if gap is not None])
    if len(gaps) < 2 or len(gaps) < len(left):
        raise UsageError(f"{name}: too few clips, pictures or scenes for an interval of a difference")
    error = math.sqrt((len(gaps) - 1) / len(gaps) * float(((gaps - gaps.mean()) ** 2).sum()))
    reach = student_quantile(len(gaps) - 1) * error
    if not error:  # no row differs: as many may as Wilson's upper end of none says
        questions = n * len(first_repeats(frames[0])) / len(shared)  # repeats are no further rows
        reach = wilson(0.0, max(1.0, questions), student_quantile(len(gaps) - 1)).high
    return Evidence(whole, whole - reach, whole + reach, n), float(values[1] or 0.0)


def _gap(
    new: ScoredEntry, old: ScoredEntry, key: MetricKey, frames: list[pd.DataFrame], keep: NDArray[Any]
) -> float | None:
    first, second = (side.value(key, frame[keep])[0] for side, frame in zip((new, old), frames, strict=True))
    return None if first is None or second is None else first - second


def _without_groups(frame: pd.DataFrame) -> Iterator[NDArray[Any]]:
    """Yield masks of the rows without each group of clusters; groups are drawn by a fixed seed."""
    clusters = np.where(frame["cluster"].astype(bool), frame["cluster"], frame["sample_id"]).astype(str)
    names, numbers = np.unique(clusters, return_inverse=True)
    count = min(len(names), GROUPS)
    groups = np.random.default_rng([SEED, len(names)]).permutation(len(names)) % max(count, 1)
    for group in range(count):
        yield groups[numbers] != group

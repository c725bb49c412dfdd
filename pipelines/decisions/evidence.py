"""What an interval says about a limit: how far above it the number lies, on the scale on which the interval was made.

A report keeps of a number its value, 95% interval and degrees of freedom. Both ends of Wilson's interval of a share
solve one equation, as those of a logit interval do, and ends of a mean are equally far from it: so the scale is
recognised from the ends.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.judges import without_verdicts
from pipelines.benchmarks.records import Metric, Sample
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.metrics.intervals import SEED, degrees_of_freedom, leave_one_out, student_p, student_quantile, wilson
from pipelines.plan.context import EntryPlan, entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry, asked_rows
from pipelines.report.metrics_file import MetricKey, number_or_none
from pipelines.storage.store import Store

NORMAL: Final = NormalDist()
Z95: Final = NORMAL.inv_cdf(0.975)
POWER: Final = 0.8
_SAME: Final = 1e-6  # relative difference of two numbers that are equal but for rounding


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number with its 95% interval over `n` rows."""

    value: float
    low: float
    high: float
    n: int
    freedom: float = math.inf  # of the t of the interval; infinitely many are normal

    def deviations_above(self, limit: float, *, continuous: bool = True) -> float:
        """Return by how many standard deviations the number lies above a limit; below 0 where it lies below.

        Not continuous: a share lies half an effective row nearer, since it takes steps of a row (Yates 1934).
        """
        if self.value == limit:
            return 0.0
        end = self.low if limit < self.value else self.high
        if width := self._wilson_width:
            spread = limit * (1 - limit)
            step = 0.0 if continuous else 0.5 * width / self._quantile**2
            distance = max(0.0, abs(self.value - limit) - step)
            squared = distance**2 / spread / width if spread > 0 else math.inf
            return math.copysign(self._quantile * math.sqrt(squared), self.value - limit)
        reach = abs(self.value - end)
        if reach == 0:
            return math.copysign(math.inf, self.value - limit)
        return self._quantile * (self.value - limit) / reach

    def chance_below(self, deviations: float) -> float:
        """Return the chance of a number that lies no higher above the limit, if it is the true value."""
        beyond = student_p(deviations, self.freedom) / 2
        return beyond if deviations < 0 else 1 - beyond

    @property
    def standard_error(self) -> float:
        """The standard error of a number whose interval is as wide to both sides."""
        return (self.high - self.low) / 2 / self._quantile

    @property
    def _quantile(self) -> float:
        return Z95 if math.isinf(self.freedom) else student_quantile(self.freedom)

    @property
    def _wilson_width(self) -> float | None:
        """Squared quantile by rows, which both ends of Wilson's interval solve (value - x)^2 / (x (1 - x)) for.

        None of another interval.
        """
        ends = [end for end in (self.low, self.high) if 0 < end < 1 and end != self.value]
        if not 0 <= self.value <= 1 or not ends or not 0 <= self.low <= self.high <= 1:
            return None
        widths = [(self.value - end) ** 2 / (end * (1 - end)) for end in ends]
        is_wilson = self.value in (0.0, 1.0) or (len(ends) == 2 and math.isclose(*widths, rel_tol=_SAME))
        return widths[0] if is_wilson else None


def quantile(alpha: float) -> float:
    """Return the standard deviations within which 1 - alpha of a normal distribution lie."""
    return NORMAL.inv_cdf(1 - alpha / 2)


def rows_for(n: int, deviations: float, needed: float) -> int | None:
    """Return the rows with which the same distance would be `needed` deviations; None at a distance of 0."""
    return None if not deviations else max(n + 1, math.ceil(n * (needed / deviations) ** 2))


GROUPS: Final = 40  # at most; with fewer clusters each is a group
_TINY: Final = 1e-12  # rounding noise of a standard error
KEY: Final = ["task", "setting", "sample_id", "variant"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoredEntry:
    """The scored rows of one model on one benchmark, and its samples."""

    definition: BenchmarkDefinition
    samples: Mapping[str, Sample]
    frame: pd.DataFrame  # a row a request that was answered, failed or was excluded, as it was scored

    @classmethod
    def read(cls, out: Store, entry: ManifestEntry, plans: Sequence[EntryPlan] = ()) -> Self:
        """Read an entry of an output in its first set of prompts, whose plans may be open."""
        plans = plans or entry_plans(next(iter(entry.by_prompt_set())), out, PlanStore(out), Datasets())
        requests = EntryRequests.read(PlannedEntry(entry, plans))
        frame = without_verdicts(asked_rows(EntryScores.read(out, entry).join(requests.columns)))
        frame = frame[frame["status"] != "missing"].reset_index(drop=True)
        return cls(definition=entry.definition, samples=requests.samples, frame=frame)

    def metric_rows(self, key: MetricKey) -> pd.DataFrame:
        """Return the rows that a metric is computed from."""
        tasks, frame = self.definition.derived_tasks.get(key.task, (key.task,)), self.frame
        return frame[frame["task"].isin(tasks) & (frame["setting"] == key.setting)].reset_index(drop=True)

    def metric(self, key: MetricKey, frame: pd.DataFrame, samples: Mapping[str, Sample] | None = None) -> Metric | None:
        """Return a metric of some of the rows; None where it has none."""
        reduced = self.definition.reduce(frame, self.samples if samples is None else samples)
        return next((m for m in reduced if (m.metric, m.task, m.setting, m.subset, m.category) == key[:5]), None)

    def value(self, key: MetricKey, frame: pd.DataFrame, samples: Mapping[str, Sample] | None = None) -> float | None:
        """Return the value of a metric of some of the rows; None where it has none."""
        metric = self.metric(key, frame, samples)
        return None if metric is None else number_or_none(metric.value)


def paired_gap(new: ScoredEntry, old: ScoredEntry, key: MetricKey) -> tuple[Evidence, float]:
    """Return new minus old with its 95% interval, and the old value, on the rows that both have.

    Raises UsageError where there are no such rows, or the number cannot be computed from them.
    """
    frames = [side.metric_rows(key) for side in (new, old)]
    shared = frames[0][KEY].merge(frames[1][KEY], on=KEY)
    frames = [shared.merge(frame, on=KEY) for frame in frames]
    name = f"{new.definition.name} {key.task} {key.setting} {key.metric}"
    if shared.empty:
        raise UsageError(f"{name}: the two outputs have no rows in common")
    metrics = [side.metric(key, frame) for side, frame in zip((new, old), frames, strict=True)]
    numbers = [(metric.value, metric.n) for metric in metrics if metric and metric.value is not None]
    if len(numbers) < 2:
        raise UsageError(f"{name}: it has no value on the {len(shared):,} rows that both outputs have")
    (value, n_new), (before, n_old) = numbers
    whole, n = value - before, min(n_new, n_old)
    masks = [*_without_groups(frames[0])]
    left = [_gap(new, old, key, frames, keep) for keep in masks]
    gaps = np.array([gap for gap in left if gap is not None])
    if len(gaps) < 2 or len(gaps) < len(left):
        raise UsageError(f"{name}: too few clips, pictures or scenes for an interval of a difference")
    leverage = np.array([[1 - keep.mean() for keep in masks]])
    freedom = degrees_of_freedom(np.ones(1), leverage)
    error = math.sqrt(float((leave_one_out(gaps[None], leverage) ** 2).sum()))
    reach = student_quantile(freedom) * error
    if error <= _TINY:  # no row differs: as many clusters may as Wilson's upper end of none says
        reach = wilson(0.0, len(np.unique(_clusters(frames[0]))), student_quantile(freedom)).high
    return Evidence(whole, whole - reach, whole + reach, n, freedom), float(before)


def _gap(
    new: ScoredEntry, old: ScoredEntry, key: MetricKey, frames: list[pd.DataFrame], keep: NDArray[Any]
) -> float | None:
    first, second = (side.value(key, frame[keep]) for side, frame in zip((new, old), frames, strict=True))
    return None if first is None or second is None else first - second


def _clusters(frame: pd.DataFrame) -> NDArray[np.str_]:
    return np.where(frame["cluster"].astype(bool), frame["cluster"], frame["sample_id"]).astype(str)


def _without_groups(frame: pd.DataFrame) -> Iterator[NDArray[Any]]:
    """Yield masks of the rows without each group of clusters; groups are drawn by a fixed seed."""
    names, numbers = np.unique(_clusters(frame), return_inverse=True)
    count = min(len(names), GROUPS)
    groups = np.random.default_rng([SEED, len(names)]).permutation(len(names)) % max(count, 1)
    for group in range(count):
        yield groups[numbers] != group

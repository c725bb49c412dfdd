"""Which scores changed between nights: paired by sample, with a bound on false alarms, each change reported once.

Two nights of an unchanged system differ by the noise of answers alone, so that the scores of a cluster of samples that
share media may be swapped between the nights. Sums of such symmetric differences have a tail of at most 3.18 times the
normal one (Bentkus and Dzindzalieta 2015, Bernoulli 21:2), whatever the scores are. Bonferroni's correction over the
tests of a night bounds the chance of a false alarm in it by `ALPHA`. What is too small for one night is added up over
nights (`jobs/nightly/items.py`).
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jobs.nightly.items import Items, ItemScores, ScoreKey
from pipelines.metrics.intervals import (
    LEAST_CLUSTERS,
    NORMAL,
    FloatArray,
    shift_p,
    student_p,
    student_quantile,
    sums_by,
)
from pipelines.report.metrics_file import Measured

ALPHA: Final = 1 / 365 / 3
"""False alarms a night of each of three kinds of tests, of one night, of nights added up, and of judges: one a year."""
RETURN_LEVELS: Final = (0.001, 0.05)
"""A score has returned if its p-value against the changed level is below the first, and against the one before above
the second."""
UNCONFIRMED_P: Final = 0.05
_FAR: Final = 0.2  # of the range of a score
_TAIL: Final = 3.1787  # of sums of symmetric variables, in units of the normal tail

PairName: TypeAlias = tuple[str, str]
"""Model and benchmark."""
Direction = Literal["fell", "rose", "returned", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What the scores of a model on a benchmark are compared with: the night that measured their present level."""

    model: str
    benchmark: str
    night: str
    basis: str = ""  # hash of the data, the prompts and the selection: samples of another basis are no pairs
    before: str = ""  # while a change is open: the night of the level before it
    latest: str = ""  # the last night that measured the pair, with what nights add up to
    is_new: bool = False  # that night reported the change: chosen for being extreme, the next measurement replaces it

    @property
    def pair(self) -> PairName:
        """Model and benchmark."""
        return self.model, self.benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A score or metric that changed tonight; `returned` is good news and no alarm."""

    key: ScoreKey
    direction: Direction
    before: float  # of a paired test: the mean over the samples of both nights, as is `now`
    now: float | None  # None: there is no such score any more
    n: int  # samples; of a paired test those of both nights
    p: float  # before the correction
    test: Literal["paired", "nights", "intervals"]
    since: str  # the night of the earlier level

    @property
    def is_alarm(self) -> bool:
        """Return whether somebody should look."""
        return self.direction != "returned"


@dataclass(frozen=True, slots=True, eq=False)
class PairedScores:
    """A score on the samples of two nights: means over each sample's rows, and the rows that both have."""

    now: FloatArray  # (samples,)
    before: FloatArray  # (samples,)
    rows: FloatArray  # (samples,)
    clusters: NDArray[Any]  # (samples,)

    @classmethod
    def of(cls, now: ItemScores, before: ItemScores) -> Self:
        """Pair a score of tonight with that of an earlier night."""
        here, there = _common(now, before)
        rows = np.minimum(now.rows[here], before.rows[there])
        return cls(
            now.totals[here] / now.rows[here], before.totals[there] / before.rows[there], rows, now.clusters[here]
        )

    @property
    def differences(self) -> FloatArray:
        """By how much each sample rose, weighted by its rows."""
        return (self.now - self.before) * self.rows

    @property
    def has_collapsed(self) -> bool:
        """Whether each of few clusters moved the same way, and far, which noise that media share does not do."""
        if not 1 < len(np.unique(self.clusters)) < LEAST_CLUSTERS:
            return False
        moves = sums_by(self.clusters, self.differences) / sums_by(self.clusters, self.rows)
        scores = np.concatenate([self.now, self.before])
        far = max(_FAR * float(scores.max() - scores.min()), 1e-12)
        return bool((moves >= far).all() or (moves <= -far).all())

    @property
    def means(self) -> tuple[float, float]:
        """The means before and now, weighted by rows: their difference has the sign of the test's."""
        return float(np.average(self.before, weights=self.rows)), float(np.average(self.now, weights=self.rows))


def change_p(now: ItemScores, before: ItemScores) -> float:
    """Return a bound of the two-sided p-value that a score changed, on the samples of both nights; 1 without any.

    Few clusters cannot show by their signs that every answer is wrong: if all have moved far, samples count.
    """
    paired = PairedScores.of(now, before)
    p = shift_p(paired.differences, paired.clusters, _TAIL)
    return shift_p(paired.differences, np.arange(len(paired.rows)), _TAIL) if paired.has_collapsed else p


def _common(now: ItemScores, before: ItemScores) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the common samples in both."""
    if np.array_equal(now.samples, before.samples):
        every = np.arange(len(now.samples))
        return every, every
    return np.intersect1d(now.samples, before.samples, assume_unique=True, return_indices=True)[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A night compared with earlier ones."""

    items: Items = field(default_factory=dict)  # tonight's scores
    changes: Sequence[Change] = ()
    levels: Sequence[Level] = ()  # what the next night is compared with
    unconfirmed: Sequence[Change] = ()  # without an alarm: of p below `UNCONFIRMED_P`, as one in twenty has by chance

    @property
    def alarms(self) -> list[Change]:
        """Return the changes that somebody should look at."""
        return [change for change in self.changes if change.is_alarm]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPair:
    """A metric over a whole benchmark in an earlier night and tonight, both with intervals."""

    before: Measured
    now: Measured
    since: str


def compare_runs(
    night: str,
    now: Items,
    levels: Sequence[Level],
    items_of: Callable[[str], Items],
    *,
    bases: Mapping[PairName, str],
    metrics: Sequence[MetricPair] = (),
) -> Comparison:
    """Compare tonight's scores with their levels.

    A change is reported once: the new level is then what the next nights are compared with, until values return.

    Args:
        night: Name of tonight.
        now: Scores of the pairs that ran.
        levels: Levels after the last night; those of pairs that did not run stay.
        items_of: Returns the scores of an earlier night.
        bases: Basis of each pair that ran. Where it is another than that of a level, tonight is the new level.
        metrics: Those of the pairs with another basis, which are compared by their intervals.
    """
    pairs = [_PairScores(level, now, items_of) for level in levels if bases.get(level.pair) == level.basis]
    threshold = ALPHA / max(1, sum(len(pair.present) for pair in pairs) + len(metrics))
    changes = [change for pair in metrics if (change := _interval_change(pair, threshold))]
    current = {pair: Level(model=pair[0], benchmark=pair[1], night=night, basis=basis) for pair, basis in bases.items()}
    current |= {level.pair: level for level in levels if level.pair not in bases}
    items = {key: replace(scores, accumulated=scores.begun()) for key, scores in now.items()}
    unconfirmed = list[Change]()
    for pair in pairs:
        pair_changes, level = pair.compare(night, threshold)
        changes += pair_changes
        unconfirmed += pair.unconfirmed({change.key for change in pair_changes})
        current[level.pair] = level
        if level.night == pair.level.night:
            items |= pair.added
    levels = [replace(level, latest=night) if level.pair in bases else level for level in current.values()]
    return Comparison(items=items, changes=changes, levels=levels, unconfirmed=unconfirmed)


def _pair_items(items: Items, level: Level) -> Items:
    return {key: scores for key, scores in items.items() if (key.model, key.benchmark) == level.pair}


class _PairScores:
    """The scores of a pair tonight and at its level, which changes as a whole: no other score repeats a change."""

    def __init__(self, level: Level, now: Items, items_of: Callable[[str], Items]) -> None:
        self.level, self.items_of = level, items_of
        self.now, self.present = _pair_items(now, level), _pair_items(items_of(level.night), level)
        latest = items_of(level.latest)
        self.added: dict[ScoreKey, ItemScores] = {}
        """Tonight's scores with what the nights of the level add up to."""
        for key, scores in self.now.items():
            if old := self.present.get(key):
                earlier = latest.get(key, old).accumulated or old.begun()
                added = earlier.add(scores.samples, scores.totals / scores.rows)
                self.added[key] = replace(scores, accumulated=added)

    def compare(self, night: str, threshold: float) -> tuple[list[Change], Level]:
        """Return what changed, and the level from now on; a threshold is `ALPHA` over the night's tests."""
        level = self.level
        p_values = {key: change_p(self.now[key], self.present[key]) for key in self.added}
        added_up = {change.key: change for change in self._added_up(threshold)}
        if returned := self._returned(p_values, added_up):
            return returned, replace(level, night=level.before, before="", is_new=False)
        changes = [self._change(key, p) for key, p in p_values.items() if p < threshold] or [*added_up.values()]
        changes += [self._gone(key) for key in self.present if key not in self.now]
        if changes:
            return changes, replace(level, night=night, before=level.before or level.night, is_new=True)
        has_new_scores = any(key not in self.present for key in self.now)
        return [], replace(level, night=night, is_new=False) if level.is_new or has_new_scores else level

    def _added_up(self, threshold: float) -> Iterator[Change]:
        """Yield the scores that changed by less than one night shows."""
        for key, scores in self.added.items():
            state = scores.accumulated
            if state and (p := state.p(threshold)) is not None:
                before, now = state.means
                yield Change(
                    key=key,
                    direction="fell" if now < before else "rose",
                    before=before,
                    now=now,
                    n=len(state.samples),
                    p=p,
                    test="nights",
                    since=self.level.night,
                )

    def unconfirmed(self, reported: AbstractSet[ScoreKey]) -> Iterator[Change]:
        """Yield the scores that differ from their level as one in twenty does by chance."""
        for key in sorted(self.added.keys() - reported):
            paired = PairedScores.of(self.now[key], self.present[key])
            if (p := shift_p(paired.differences, paired.clusters)) < UNCONFIRMED_P:
                yield self._change(key, p)

    def _returned(self, p_values: Mapping[ScoreKey, float], added_up: Collection[ScoreKey]) -> list[Change]:
        """Return the scores that left the level of the open change, by one night or several, and are as before it."""
        before = self.items_of(self.level.before) if self.level.before else {}
        return [
            self._change(key, p, "returned")
            for key, p in p_values.items()
            if (p < RETURN_LEVELS[0] or key in added_up) and key in before
            if change_p(self.now[key], before[key]) > RETURN_LEVELS[1]
        ]

    def _change(self, key: ScoreKey, p: float, direction: Direction | None = None) -> Change:
        """Return a change with the values on the samples that the test is about."""
        paired = PairedScores.of(self.now[key], self.present[key])
        before, now = paired.means
        return Change(
            key=key,
            direction=direction or ("fell" if now < before else "rose"),
            before=before,
            now=now,
            n=len(paired.rows),
            p=p,
            test="paired",
            since=self.level.night,
        )

    def _gone(self, key: ScoreKey) -> Change:
        before = self.present[key]
        n, since = len(before.samples), self.level.night
        return Change(key=key, direction="gone", before=before.mean, now=None, n=n, p=0.0, test="paired", since=since)


def _interval_change(pair: MetricPair, threshold: float) -> Change | None:
    """Return the change of a metric whose samples cannot be paired, by Welch's test."""
    before, now = pair.before, pair.now
    if before.value is None or now.value is None:
        return None
    variances = [(_standard_error(row) ** 2, row.ci_df or math.inf) for row in (before, now)]
    total = sum(variance for variance, _ in variances)
    by_freedom = sum(variance**2 / freedom for variance, freedom in variances)
    t = (now.value - before.value) / math.sqrt(total) if total else 0.0
    p = student_p(t, total**2 / by_freedom if by_freedom else math.inf)
    if p >= threshold:
        return None
    return Change(
        key=ScoreKey(now.model, now.benchmark, now.task, now.setting, now.metric),
        direction="fell" if now.value < before.value else "rose",
        before=before.value,
        now=now.value,
        n=now.n,
        p=p,
        test="intervals",
        since=pair.since,
    )


def _standard_error(row: Measured) -> float:
    """Return it with a floor: all right, or all wrong, is no certainty."""
    assert row.ci_high is not None
    assert row.ci_low is not None
    quantile = student_quantile(row.ci_df) if row.ci_df else NORMAL
    error = (row.ci_high - row.ci_low) / (2 * quantile)
    return max(error, 1.0 / max(1, row.n) if row.unit == "fraction" else 0.0)

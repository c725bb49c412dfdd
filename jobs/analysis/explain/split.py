"""Split the difference of a metric between two sides into stages, by substitution over their rows.

The rows of A become those of B in steps: rows that only one side has, the readings of A by today's reader, blocks of
common rows by the first thing in which they differ, the readings of B. The metric is computed anew after each step, so
the shares of any metric, pools and corpus metrics too, add up to the difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from jobs.analysis.explain.requests import JUDGED, Comparer, Key, Side, keys_of, same_weights
from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.report.metrics_file import MetricKey

Stage: TypeAlias = Literal[
    "items", "prompts", "media", "decoding", "errors", "reading", "judge", "answers", "aggregation"
]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
_BLOCKS: Final[tuple[Stage, ...]] = ("items", "prompts", "media", "decoding", "errors", "reading", "judge", "answers")
_ROUNDING: Final = 1e-9  # relative, of a number that is computed again
_Mask: TypeAlias = NDArray[np.bool_]
_A, _A_READ, _A_ON_B, _B_READ, _B = range(5)
"""Versions of a common row: of A as scored, read again, scored against B's sample; of B read again, and as scored."""


@dataclass(frozen=True, slots=True)
class StageShare:
    """The part of a difference that one stage makes, and the rows behind it."""

    stage: Stage
    share: float
    rows: tuple[Key, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The difference of one number, B minus A, and its stages in the order of the contract."""

    benchmark: str
    key: MetricKey
    label_a: str
    label_b: str
    value_a: float
    value_b: float
    n_a: int
    n_b: int
    stages: tuple[StageShare, ...]
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """B minus A."""
        return self.value_b - self.value_a


@dataclass(slots=True)
class _Ledger:
    """Shares and rows by stage; a step whose metric has no value is joined to the next."""

    value: float
    shares: dict[Stage, list[float]] = field(default_factory=dict)
    rows: dict[Stage, dict[Key, None]] = field(default_factory=dict)
    notes: dict[Stage, list[str]] = field(default_factory=dict)
    open_stages: list[Stage] = field(default_factory=list)

    def add(self, stage: Stage, value: float | None, rows: Sequence[Key]) -> None:
        """Add a step to a stage: the metric's value after it, and its rows."""
        self.rows.setdefault(stage, {}).update(dict.fromkeys(rows))
        if value is None:
            self.open_stages.append(stage)
            return
        for other in dict.fromkeys(self.open_stages):
            if other != stage:
                self.note(stage, f"with {other}, after which alone the metric has no value")
        self.open_stages.clear()
        self.shares.setdefault(stage, []).append(value - self.value)
        self.value = value

    def note(self, stage: Stage, text: str) -> None:
        """Add a note to a stage."""
        self.notes.setdefault(stage, []).append(text)

    def stages(self) -> tuple[StageShare, ...]:
        """Return all stages, in the order of the contract."""
        return tuple(
            StageShare(
                stage,
                float(sum(self.shares.get(stage, ()))),
                tuple(self.rows.get(stage, ())),
                tuple(self.notes.get(stage, ())),
            )
            for stage in STAGES
        )


def explain(a: Side, b: Side, key: MetricKey, key_b: MetricKey | None = None) -> Explanation:
    """Split the difference of a metric into stages; with `key_b` B's number is another metric of the same rows.

    Raises UsageError where a side has no value, or they have no rows in common.
    """
    frames = a.metric_rows(key), b.metric_rows(key)
    value_a, value_b = _value(a, key, frames[0]), _value(b, key, frames[1])
    ledger = _Ledger(a.reported.get(key, value_a))
    _aggregate(ledger, a, key, value_a, frames[0])
    value_a = a.reported.get(key, value_a)
    common = _Common.of(a, b, key, frames)
    ledger.add("items", common.value(a), common.only(frames[0]))
    _substitute(ledger, common)
    ledger.add("items", value_b, common.only(frames[1]))
    if key_b is not None and key_b != key:
        value_b = _value(b, key_b, frames[1])
        ledger.add("aggregation", value_b, keys_of(frames[1]))
        ledger.note("aggregation", f"A's number is {key.metric}, B's {key_b.metric}")
    elif key in b.reported:
        _aggregate(ledger, b, key, b.reported[key], frames[1])
        value_b = b.reported[key]
    _add_notes(ledger, common)
    return Explanation(
        benchmark=a.name,
        key=key,
        label_a=a.label,
        label_b=b.label,
        value_a=value_a,
        value_b=value_b,
        n_a=len(frames[0]),
        n_b=len(frames[1]),
        stages=ledger.stages(),
        notes=(*a.notes, *b.notes),
    )


def _aggregate(ledger: _Ledger, side: Side, key: MetricKey, value: float, frame: pd.DataFrame) -> None:
    """Add the step between a number that others computed from a side's rows and ours of the same rows."""
    reported = side.reported.get(key)
    if reported is not None and abs(value - ledger.value) > _ROUNDING:
        ledger.add("aggregation", value, keys_of(frame))
        ledger.note("aggregation", f"{side.label}: {reported:.6g} as reported, not computed anew from its rows")


def _value(side: Side, key: MetricKey, frame: pd.DataFrame) -> float:
    value = side.value(key, frame) if len(frame) else None
    if value is None:
        raise UsageError(f"{side.label}: {side.name} {key.task} {key.setting} {key.metric} has no value")
    return value


@dataclass(slots=True, eq=False)
class _Common:
    """The rows that both sides have, in A's order, in all versions."""

    a: Side
    b: Side
    key: MetricKey
    keys: list[Key]
    versions: list[pd.DataFrame]  # by number
    stacked: pd.DataFrame
    chosen: NDArray[np.intp]  # version of each row
    samples: Mapping[str, Sample]
    labels: NDArray[np.str_]  # the block of each row, '' where both are equal
    changed: set[str]  # ids of samples that are not the same in B
    confounded: dict[str, int] = field(default_factory=dict)  # rows by what else differs in them

    @classmethod
    def of(cls, a: Side, b: Side, key: MetricKey, frames: tuple[pd.DataFrame, pd.DataFrame]) -> Self:
        """Align the rows that both have; of whole samples where the metric needs these."""
        for whole_samples in (False, True):
            keys = _shared(*map(keys_of, frames), whole_samples=whole_samples)
            if not keys:
                break
            first, last = (_aligned(frame, keys) for frame in frames)
            if a.value(key, first) is not None and b.value(key, last) is not None:
                read, changed = a.read_again(first), _changed_samples(a, b, keys)
                versions = [first, read, a.read_on(b.samples, changed, read), b.read_again(last), last]
                stacked = pd.concat(versions, ignore_index=True)
                chosen, labels = np.zeros(len(keys), np.intp), np.full(len(keys), "", dtype="U16")
                common = cls(a, b, key, keys, versions, stacked, chosen, a.samples, labels, changed)
                common.label()
                return common
        where = f"{a.name} {key.task} {key.setting}"
        raise UsageError(f"{where}: {a.label} and {b.label} have no rows in common with a value of {key.metric}")

    def value(self, side: Side) -> float | None:
        """Return the metric of the rows as they are now."""
        rows = self.stacked.take(self.chosen * len(self.keys) + np.arange(len(self.keys))).reset_index(drop=True)
        return side.value(self.key, rows, self.samples)

    def only(self, frame: pd.DataFrame) -> list[Key]:
        """Return the rows of one side that are not common."""
        shared = {*self.keys}
        return [key for key in keys_of(frame) if key not in shared]

    def column(self, version: int, name: str) -> NDArray[np.object_]:
        """Return a column of one version of the rows; NaN where it has none."""
        rows = self.versions[version]
        return rows[name].to_numpy(dtype=object) if name in rows else np.full(len(rows), np.nan, object)

    def differs(self, first: int, second: int, names: Sequence[str] = ()) -> _Mask:
        """Return in which rows two versions differ, in scores and readings or in columns of these names."""
        skipped = {"request_id", "rule", "flags", "finish_reason"}
        columns = names or [str(name) for name in self.stacked if name not in skipped]
        result = np.zeros(len(self.keys), bool)
        for name in columns:
            a, b = self.column(first, name), self.column(second, name)
            result |= (a != b) & ~((a != a) & (b != b)) & ~((a == None) & (b == None))  # noqa: E711, PLR0124
        return result

    def label(self) -> None:
        """Give each row the first stage in which its two sides differ."""
        comparer = Comparer((self.a.prompts, self.b.prompts), (self.a.fingerprint, self.b.fingerprint))
        same_model = same_weights(self.a.fingerprint, self.b.fingerprint) is not False
        is_changed = self.differs(_A_ON_B, _B_READ)  # such as by another scorer model, where the words are the same
        is_judged = self.differs(
            _A_ON_B, _B_READ, [name for name in (*JUDGED, "verdict_state") if name in self.stacked]
        )
        statuses = [self.column(version, "status") for version in (_A_READ, _B_READ)]
        for index, key in enumerate(self.keys):
            first, second = statuses[0][index], statuses[1][index]
            a, b = self.a.rows.get(key), self.b.rows.get(key)
            is_same = a is not None and b is not None and (a.output, a.status) == (b.output, b.status)
            if first != second:
                self.labels[index] = "items" if "excluded" in (first, second) else "errors"
            elif is_same:
                self.labels[index] = "judge" if is_judged[index] else "reading" if is_changed[index] else ""
            else:
                different = comparer.differences(self.a.requests.get(key), self.b.requests.get(key))
                left_to_models = not different or not same_model
                self.labels[index] = "answers" if left_to_models else different[0]
                for name in different if left_to_models else different[1:]:
                    self._count(f"{'' if left_to_models else different[0]}/{name}")
                if left_to_models and is_judged[index] and self.a.judge != self.b.judge:
                    self._count("/judge")

    def _count(self, name: str) -> None:
        self.confounded[name] = self.confounded.get(name, 0) + 1

    def step(self, ledger: _Ledger, stage: Stage, rows: _Mask, version: int) -> None:
        """Choose a version of some rows, and add what it changes to a stage."""
        if rows.any():
            self.chosen[rows] = version
            side = self.b if version >= _B_READ else self.a
            ledger.add(stage, self.value(side), [self.keys[index] for index in np.flatnonzero(rows)])


def _shared(first: Sequence[Key], second: Sequence[Key], *, whole_samples: bool) -> list[Key]:
    """Return the keys of both, in the order of the first; only of samples of which both have the same rows."""
    others = {*second}
    if not whole_samples:
        return [key for key in first if key in others]
    partial = {key[2] for key in {*first} ^ others}
    return [key for key in first if key[2] not in partial]


def _aligned(frame: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    places = {key: index for index, key in enumerate(keys_of(frame))}
    return frame.take([places[key] for key in keys]).reset_index(drop=True)


def _substitute(ledger: _Ledger, common: _Common) -> None:
    """Turn the common rows of A into those of B, step by step."""
    read_a, items_differ = common.differs(_A, _A_READ), common.differs(_A_READ, _A_ON_B)
    failed_a = common.differs(_A, _A_READ, ["status"])
    common.step(ledger, "errors", read_a & failed_a, _A_READ)
    common.step(ledger, "reading", read_a & ~failed_a, _A_READ)
    common.chosen[:] = _A_READ
    common.samples = {**common.a.samples, **common.b.samples}
    items_differ |= np.array(
        [key[2] in common.changed for key in common.keys], bool
    )  # references of a corpus metric too
    common.step(ledger, "items", items_differ, _A_ON_B)
    common.chosen[:] = _A_ON_B
    for stage in _BLOCKS:
        common.step(ledger, stage, common.labels == stage, _B_READ)
    common.chosen[:] = _B_READ
    read_b, failed_b = common.differs(_B_READ, _B), common.differs(_B_READ, _B, ["status"])
    common.step(ledger, "errors", read_b & failed_b, _B)
    common.step(ledger, "reading", read_b & ~failed_b, _B)


def _changed_samples(a: Side, b: Side, keys: Sequence[Key]) -> set[str]:
    """Return the ids of samples that say other things in B, media aside."""
    if a.samples is b.samples:
        return set()
    names = {key[2] for key in keys}
    return {name for name in names if _content(a.samples[name]) != _content(b.samples[name])}


def _content(sample: Sample) -> tuple[object, ...]:
    return dict(sample.data), sample.subset, sample.category, sample.cluster


def _add_notes(ledger: _Ledger, common: _Common) -> None:
    """Say what the rows cannot separate."""
    a, b = common.a, common.b
    for name, count in common.confounded.items():
        stage, _, other = name.partition("/")
        if stage:
            ledger.note(stage, f"{other} differ as well in {count:,} of its rows")  # type: ignore[arg-type]
        elif other == "judge":
            ledger.note("answers", f"{count:,} of its rows have other answers and another judge")
        else:
            ledger.note("answers", f"{other} differ as well in {count:,} of its rows, and the models do, too")
    if a.fingerprint is not None and b.fingerprint is not None:
        for name in ("engine", "dtype"):
            first, second = a.fingerprint.get(name), b.fingerprint.get(name)
            if first != second and ledger.rows.get("answers"):
                ledger.note("answers", f"{name} {first} in A, {second} in B")

"""Measure what each condition of a stress test changes: answers and scores of models, and conclusions about pairs.

A condition's prompts and the plain ones are two answers to one question, so all is paired by row, and tested by
Student's t over clusters. A conclusion flips beyond chance if the change of a pair's gap is significant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import PairedTest
from pipelines.json_records import dump_checked, load_checked
from pipelines.metrics.intervals import FRACTION, FloatArray, Term, interval
from pipelines.metrics.paired import holm
from pipelines.report.stressed_rows import STRESSED_KEY
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

PATH: Final = "report/stress.json"
SIGNIFICANCE: Final = 0.05
_SIDES: Final = ("before", "after")

Outcome: TypeAlias = Literal["kept", "none", "lost", "gained", "reversed"]
"""Of a pair's difference: significant with the same sign in both; in neither; before alone; after alone; in both, with
opposite signs."""
FLIPS: Final[tuple[Outcome, ...]] = ("lost", "gained", "reversed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its 95% interval, and the p-value of 0."""

    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    """By Student's t over clusters; `with_holm` corrects it over all that a report lists; None of one cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """What a condition changes of one model's answers."""

    model: str
    n: int
    before: float  # share of right answers to the plain prompts
    after: float
    change: Estimate
    moved: Estimate | None  # share of answers that choose another option, as a text; None where answers are free
    to_wrong: int
    to_right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairChange:
    """What a condition changes of the difference of two models, B minus A, on the rows of both."""

    model_a: str
    model_b: str
    n: int
    before: Estimate
    after: Estimate
    shift: Estimate  # after minus before

    @property
    def outcome(self) -> Outcome:
        """Which of both differences are significant."""
        was, is_now = (e.p is not None and e.p < SIGNIFICANCE for e in (self.before, self.after))
        if was and is_now:
            return "kept" if self.before.value * self.after.value > 0 else "reversed"
        return "lost" if was else "gained" if is_now else "none"

    @property
    def is_swapped(self) -> bool:
        """Whether the other model is ahead."""
        return self.before.value * self.after.value < 0

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the difference changes by more than chance."""
        return self.shift.p is not None and self.shift.p < SIGNIFICANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class StressResult:
    """One condition in one task and setting of a benchmark."""

    benchmark: str
    task: str
    setting: str
    condition: str
    change: Estimate  # mean over the models of the change of the share of right answers
    moved: Estimate | None  # the same of the share of moved answers
    models: tuple[ModelChange, ...]
    pairs: tuple[PairChange, ...]

    def count(self, outcome: Outcome) -> int:
        """Return the pairs with an outcome."""
        return sum(pair.outcome == outcome for pair in self.pairs)

    @property
    def swapped(self) -> int:
        """Pairs of which the other model is ahead."""
        return sum(pair.is_swapped for pair in self.pairs)

    @property
    def swapped_beyond_chance(self) -> int:
        """Those whose difference changed by more than chance."""
        return sum(pair.is_swapped and pair.is_beyond_chance for pair in self.pairs)

    @property
    def conclusion(self) -> str:
        """What flips, in words."""
        if not self.pairs:
            return "one model: no pair to compare"
        parts = [
            f"{self.swapped} swapped ({self.swapped_beyond_chance} beyond chance)" if self.swapped else "",
            *(f"{count} {name}" for name in FLIPS if (count := self.count(name))),
        ]
        return f"of {len(self.pairs)}: {', '.join(filter(None, parts)) or 'nothing flips'}"


def stress_results(benchmark: str, rows: Mapping[str, pd.DataFrame], baselines: frozenset[str]) -> list[StressResult]:
    """Return what conditions change, by task and setting, from the rows of `stressed_rows` of each model.

    `baselines` are models that guess: their answers are shown, and no pair is made of them.
    """
    results = []
    places: dict[tuple[str, ...], None] = {}
    for frame in rows.values():
        stressed = frame[frame["condition"] != ""]
        places |= dict.fromkeys(stressed[["task", "setting", "condition"]].itertuples(index=False, name=None))
    for task, setting, condition in places:
        both = {
            model: joined
            for model, frame in rows.items()
            if len(
                joined := _before_and_after(frame[(frame["task"] == task) & (frame["setting"] == setting)], condition)
            )
        }
        names = [model for model in both if model not in baselines]
        if not both:
            continue
        stacked = [both[model] for model in names or both]
        moved = [_moved(frame) for frame in stacked]
        ranked = sorted(names, key=lambda model: -float(both[model]["before"].mean()))
        results.append(
            StressResult(
                benchmark=benchmark,
                task=task,
                setting=setting,
                condition=condition,
                change=_mean_change(stacked),
                moved=_share([term for term in moved if term]),
                models=tuple(_model_change(model, frame) for model, frame in both.items()),
                pairs=tuple(_pairs({model: both[model] for model in ranked})),
            )
        )
    return results


def _before_and_after(frame: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Return the rows that have both answers, with the columns `before`, `after`, `chosen_before`, `chosen_after`."""
    columns = [*STRESSED_KEY, "right", "chosen"]
    plain, stressed = (frame[frame["condition"] == name] for name in ("", condition))
    joined = plain[[*columns, "cluster"]].merge(stressed[columns], on=STRESSED_KEY, suffixes=("_before", "_after"))
    return joined.rename(columns={"right_before": "before", "right_after": "after"})


def _model_change(model: str, rows: pd.DataFrame) -> ModelChange:
    before, after = (rows[name].to_numpy(np.float64) for name in _SIDES)
    test = _tested(before, after, rows["cluster"].to_numpy(str))
    moved = _moved(rows)
    return ModelChange(
        model=model,
        n=len(rows),
        before=float(before.mean()),
        after=float(after.mean()),
        change=_estimate(test),
        moved=_share([moved] if moved else []),
        to_wrong=int(((before == 1) & (after == 0)).sum()),
        to_right=int(((before == 0) & (after == 1)).sum()),
    )


def _moved(rows: pd.DataFrame) -> Term | None:
    with_options = rows[rows["chosen_before"].notna()]
    moved = np.asarray(with_options["chosen_before"] != with_options["chosen_after"], np.float64)
    columns = np.stack([moved, np.ones(len(moved))], axis=1)
    return Term(columns, with_options["cluster"].to_numpy(str)) if len(moved) else None


def _share(terms: Sequence[Term]) -> Estimate | None:
    if not terms:
        return None
    term = Term(np.vstack([term.columns for term in terms]), np.concatenate([term.clusters for term in terms]))
    ends = interval([term], FRACTION)
    return Estimate(
        value=float(term.columns[:, 0].mean()), ci_low=ends.low if ends else None, ci_high=ends.high if ends else None
    )


def _mean_change(frames: Sequence[pd.DataFrame]) -> Estimate:
    before, after = (np.concatenate([frame[name].to_numpy(np.float64) for frame in frames]) for name in _SIDES)
    return _estimate(_tested(before, after, np.concatenate([frame["cluster"].to_numpy(str) for frame in frames])))


def _tested(a: FloatArray, b: FloatArray, clusters: NDArray[Any]) -> PairedTest:
    test = PairedMetric.mean(a, b, clusters, task="", setting="", metric="right").test()
    assert test is not None  # a mean of at least one row is defined
    return test


def _estimate(test: PairedTest) -> Estimate:
    return Estimate(value=test.mean_b - test.mean_a, ci_low=test.ci_low, ci_high=test.ci_high, p=test.p)


def _pairs(models: Mapping[str, pd.DataFrame]) -> Iterator[PairChange]:
    """Yield the pairs of models, the better one as B."""
    for (name_b, b), (name_a, a) in combinations(models.items(), 2):
        rows = a[[*STRESSED_KEY, "cluster", "before", "after"]].merge(
            b[[*STRESSED_KEY, "before", "after"]], on=STRESSED_KEY, suffixes=("_a", "_b")
        )
        if rows.empty:
            continue
        clusters = rows["cluster"].to_numpy(str)
        before_a, after_a, before_b, after_b = (
            rows[f"{when}_{side}"].to_numpy(np.float64) for side in "ab" for when in _SIDES
        )
        tests = (
            _tested(before_a, before_b, clusters),
            _tested(after_a, after_b, clusters),
            _tested(after_a - before_a, after_b - before_b, clusters),
        )
        before, after, shift = map(_estimate, tests)
        yield PairChange(model_a=name_a, model_b=name_b, n=len(rows), before=before, after=after, shift=shift)


def with_holm(results: Sequence[StressResult]) -> list[StressResult]:
    """Correct the p-values of all results: those of models, of their means, and each kind of those of pairs."""
    means = _holm([result.change for result in results])
    changes = iter(_holm([row.change for result in results for row in result.models]))
    every = [pair for result in results for pair in result.pairs]
    pair_tests = iter(
        zip(*(_holm([getattr(pair, kind) for pair in every]) for kind in ("before", "after", "shift")), strict=True)
    )
    corrected = []
    for result, mean in zip(results, means, strict=True):
        models = tuple(replace(row, change=next(changes)) for row in result.models)
        pairs = tuple(
            replace(pair, before=before, after=after, shift=shift)
            for pair, (before, after, shift) in zip(result.pairs, islice(pair_tests, len(result.pairs)), strict=True)
        )
        corrected.append(replace(result, change=mean, models=models, pairs=pairs))
    return corrected


def _holm(estimates: Sequence[Estimate]) -> list[Estimate]:
    corrected = holm([estimate.p for estimate in estimates])
    return [replace(estimate, p=p) for estimate, p in zip(estimates, corrected, strict=True)]


def stress_json(results: Sequence[StressResult]) -> bytes:
    """Return the file of `load_stress`."""
    return dump_checked({"cells": [_result_json(result) for result in results]})


def _result_json(result: StressResult) -> dict[str, Any]:
    pairs = [{**asdict(pair), "outcome": pair.outcome} for pair in result.pairs]
    return {**asdict(result), "pairs": pairs, "conclusion": result.conclusion}


def load_stress(out: Store) -> list[dict[str, Any]]:
    """Load the results that the report of an output has, as JSON types; none where it has no stress test."""
    try:
        results: list[dict[str, Any]] = load_checked(out.get(PATH))["cells"]
    except FileNotFoundError:
        return []
    return results

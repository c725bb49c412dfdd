"""Simulate years of nights: how many alarms are false, and after how many nights planted changes are reported.

Scores are drawn; the nightly's own code compares them. `make simulate-nightly` prints the tables of docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jobs.nightly.items import ItemScores, ScoreKey
from jobs.nightly.judge_drift import JudgeEvidence
from jobs.nightly.regressions import Change, Level, compare_runs
from pipelines.metrics.intervals import FloatArray
from tests.bench.results import heads, row

YEAR: Final = 365
PAIRS: Final = 12
SETTINGS: Final = 3
SAMPLES: Final = 720
CLIPS: Final = 20
"""Of the noise that clips share."""
CALM: Final = 30
"""Nights before a planted change."""
AFTER: Final = 60
"""Nights in which it may be reported."""
UPDATE: Final = 14
"""Nights between versions of a library, each of which changes answers for good."""

Items: TypeAlias = dict[ScoreKey, ItemScores]


@dataclass(frozen=True, slots=True)
class Noise:
    """How answers differ from night to night while nothing changes."""

    fresh: float = 0.0  # share of the answers that are drawn anew each night
    fresh_clips: int = 0  # clips whose answers are all drawn anew each night
    clips: int = CLIPS
    shift: float = 0.0  # most by which the share of right answers of such a clip rises or falls
    updated: float = 0.0  # share of the answers that each update draws anew, for good


NOISE: Final = {
    "none": Noise(),
    "0.5% of the answers": Noise(fresh=0.005),
    "5% of the answers": Noise(fresh=0.05),
    "2 of 20 clips": Noise(fresh_clips=2),
    "2 of 5 clips, which rise or fall by up to 20 points": Noise(fresh_clips=2, clips=5, shift=0.2),
    "1% for good, every 14 nights": Noise(updated=0.01),
}


class History:
    """Twelve pairs with three settings and all of them together: 48 numbers a night."""

    def __init__(self, generator: np.random.Generator, noise: Noise) -> None:
        self.generator, self.noise = generator, noise
        self.chances = generator.beta(2.0, 1.0, (PAIRS, SETTINGS, SAMPLES))
        self.base = self._draw()
        self.samples = np.arange(SAMPLES)
        self.clusters = self.samples % noise.clips if noise.fresh_clips else self.samples
        self.names = [f"m{pair}" for pair in range(PAIRS)]
        self.levels: list[Level] = []
        self.stored: dict[str, Mapping[ScoreKey, ItemScores]] = {"": {}}
        self.night = 0

    def _draw(self, shift: FloatArray | float = 0.0) -> FloatArray:
        drawn: FloatArray = (self.generator.random(self.chances.shape) < self.chances + shift).astype(np.float64)
        return drawn

    def compare(self, change: Callable[[FloatArray], FloatArray] = lambda values: values) -> Sequence[Change]:
        """Draw a night, changed by a function of all answers, and return what the nightly reports."""
        shape = self.chances.shape
        if self.noise.updated and self.night % UPDATE == UPDATE - 1:
            self.base = np.where(self.generator.random(shape) < self.noise.updated, self._draw(), self.base)
        fresh = self.generator.random(shape) < self.noise.fresh
        if self.noise.fresh_clips:
            order = self.generator.random((*shape[:2], self.noise.clips)).argsort(axis=2)[..., : self.noise.fresh_clips]
            fresh = (self.clusters == order[..., None]).any(axis=2)
        shift = self.generator.uniform(-1, 1, (*shape[:2], self.noise.clips))[..., self.clusters % self.noise.clips]
        values = change(np.where(fresh, self._draw(self.noise.shift * shift), self.base))
        name = f"{self.night:03}"
        bases = {(model, "b"): "" for model in self.names}
        comparison = compare_runs(name, self._items(values), self.levels, self.stored.__getitem__, bases=bases)
        self.levels = list(comparison.levels)
        self.stored[name] = comparison.items
        used = {"", *(night for level in self.levels for night in (level.night, level.before, level.latest))}
        self.stored = {night: items for night, items in self.stored.items() if night in used}
        self.night += 1
        return comparison.alarms

    def _items(self, values: FloatArray) -> Items:
        items: Items = {}
        single, pooled = np.ones(SAMPLES), np.full(SAMPLES, float(SETTINGS))
        for pair, model in enumerate(self.names):
            for setting in range(SETTINGS):
                key = ScoreKey(model, "b", "task", str(setting), "correct")
                items[key] = ItemScores(self.samples, values[pair, setting], single, self.clusters)
            totals = values[pair].sum(axis=0)
            items[key._replace(setting="")] = ItemScores(self.samples, totals, pooled, self.clusters)
        return items


def false_alarms(seed: Sequence[int], noise: Noise, nights: int = YEAR) -> tuple[int, int]:
    """Return the nights with an alarm, and the alarms of one night's test among them, where nothing is planted."""
    history = History(np.random.default_rng(seed), noise)
    reports = [history.compare() for _ in range(nights)]
    return sum(bool(report) for report in reports), sum(any(c.test == "paired" for c in report) for report in reports)


@dataclass(frozen=True, slots=True)
class Planted:
    """A share of all answers that turn wrong in one setting, or in all."""

    drop: float
    settings: int = 1
    nightly: bool = False  # the drop is that of each night: a drift

    def changed(self, values: FloatArray, order: NDArray[np.intp], nights: int) -> FloatArray:
        """Return a night's answers, so many nights after the change began; right ones turn wrong in this order."""
        lost = round(self.drop * SAMPLES * (nights if self.nightly else 1))
        changed = values.copy()
        for setting in range(self.settings):
            np.put_along_axis(changed[:, setting], order[:, :lost], 0.0, axis=1)
        return changed


PLANTED: Final = {
    "2% in one setting": Planted(0.02),
    "2% in all settings": Planted(0.02, SETTINGS),
    "5% in one setting": Planted(0.05),
    "0.1 points a night in one setting": Planted(0.001, nightly=True),
    "0.1 points a night in all settings": Planted(0.001, SETTINGS, nightly=True),
}


def delays(seed: Sequence[int], noise: Noise, planted: Planted) -> list[int]:
    """Return after how many nights each pair reports the change; `AFTER` + 1 if it does not."""
    history = History(np.random.default_rng(seed), noise)
    right = history.base[:, : planted.settings].min(axis=1)  # those that are right before turn wrong
    order = np.argsort(history.generator.random(right.shape) - right, axis=1)
    for _ in range(CALM):
        history.compare()
    reported: dict[str, int] = {}
    for number in range(1, AFTER + 1):
        for change in history.compare(lambda values, at=number: planted.changed(values, order, at)):  # type: ignore[misc]
            if change.direction == "fell":
                reported.setdefault(change.key.model, number)
    return [reported.get(model, AFTER + 1) for model in history.names]


JUDGED: Final = 0.6  # share accepted
ERRORS: Final = 0.03  # share of the verdicts that are turned at random


def judge_delay(seed: Sequence[int], answers: int, shift: float, nights: int, clips: int = 0) -> int:
    """Return the first night with an alarm of a judge that accepts so many more, or one after the last.

    With `clips` the errors are those of whole clips: the verdicts of a clip are turned together.
    """
    generator, evidence = np.random.default_rng(seed), JudgeEvidence(numbers=1)
    for night in range(1, nights + 1):
        truth = (generator.random(answers) < JUDGED).astype(np.float64)
        clusters = generator.integers(clips, size=answers) if clips else np.arange(answers)
        then, now = (np.where(generator.random(answers)[clusters] < ERRORS, 1 - truth, truth) for _ in range(2))
        now = np.where((truth == 0) & (generator.random(answers) < shift / (1 - JUDGED)), 1.0, now)
        evidence = evidence.add(now - then, clusters)
        if evidence.is_alarm:
            return night
    return nights + 1


def simulate_nightly(repetitions: int, seed: int) -> None:
    """Print the tables; exit with code 1 if a history or a judge has too many false alarms."""
    heads("noise", "histories", "nights with an alarm", "a history and year", "by one night")
    years, worst = max(1, repetitions // 10), 0.0
    for name, noise in NOISE.items():
        counts = [false_alarms([seed, year], noise) for year in range(years)]
        total, by_one_night = (sum(column) for column in zip(*counts, strict=True))
        worst = max(worst, total / years)
        row(name, years, total, f"{total / years:.2f}", by_one_night)

    heads("noise", "change", "reported", "median night", "90% by night")
    for name, (title, planted) in product(("0.5% of the answers", "5% of the answers"), PLANTED.items()):
        nights = [n for each in range(max(1, repetitions // 33)) for n in delays([seed, each], NOISE[name], planted)]
        row(name, title, *_reported(nights))

    heads("judge", "reported", "median night", "90% by night")
    for answers, shift in product((60, 200), (0.02, 0.05, 0.1)):
        nights = [judge_delay([seed, n], answers, shift, AFTER) for n in range(repetitions)]
        row(f"{answers} answers, accepts {shift:.0%} more", *_reported(nights))
    false_reports = 0
    for title, clips in (("single answers", 0), ("whole clips", 10)):
        count = sum(judge_delay([seed, n], 60, 0.0, YEAR, clips) <= YEAR for n in range(repetitions))
        print(f"Judges without a change that are reported within a year, errors of {title}: {count} of {repetitions}.")
        false_reports = max(false_reports, count)
    if worst > 1 or false_reports > repetitions / 3:
        raise SystemExit(1)


def _reported(nights: list[int]) -> tuple[str, str, str]:
    """Return the share reported, the median, and the night by which 90% are reported."""
    ordered = sorted(nights)
    late = ordered[int(0.9 * len(ordered))]
    share = sum(n <= AFTER for n in ordered) / len(ordered)
    return f"{share:.0%}", f"{median(ordered):g}", f"{late if late <= AFTER else '-'}"

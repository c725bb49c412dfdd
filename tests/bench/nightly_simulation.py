"""Simulate thirty nights with planted regressions: how many are reported, how often, and how many alarms are false.

The scores are drawn; what compares them is the nightly's own code (`pipelines.nightly.regressions`). `make
simulate-nightly` prints the tables of docs/operations.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pipelines.metrics.intervals import FloatArray
from pipelines.nightly.items import CellKey, ItemScores
from pipelines.nightly.regressions import Level, compare_nights

NIGHTS: Final = 30
SAMPLES: Final = {"vague": (1677, 3), "vflute": (723, 4), "maia": (2400, 3), "mate": (1000, 4), "unpie": (1000, 4)}
"""Samples and settings of a benchmark."""
NOISE: Final = {"none": 0.0, "numerical": 0.005, "endpoint": 0.05, "sampled": 0.4}
"""Share of the answers that are drawn anew each night: greedy, batches of other sizes, an endpoint, a temperature."""
MODELS: Final = 12
DROPS: Final = (0.02, 0.05, 0.1)
"""Planted regressions, in shares of all answers."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A regression of one model on one benchmark in all settings, from a night on; it may end."""

    model: str
    benchmark: str
    start: int
    stop: int
    drop: float

    def holds(self, key: CellKey, night: int) -> bool:
        """Return whether a score is lower in a night."""
        return (key.model, key.benchmark) == (self.model, self.benchmark) and self.start <= night < self.stop


@dataclass(slots=True)
class Tally:
    """Counts of what the nights reported."""

    planted: Counter[tuple[str, float]] = field(default_factory=Counter)
    reported: Counter[tuple[str, float]] = field(default_factory=Counter)
    first_night: Counter[tuple[str, float]] = field(default_factory=Counter)
    repeated: Counter[tuple[str, float]] = field(default_factory=Counter)
    returned: Counter[tuple[str, float]] = field(default_factory=Counter)
    ended: Counter[tuple[str, float]] = field(default_factory=Counter)
    nights: int = 0
    tests: int = 0
    false_nights: int = 0
    false_alarms: int = 0


@dataclass(slots=True)
class System:
    """Models whose answers to the samples are right or wrong, with noise from night to night."""

    generator: np.random.Generator
    chances: dict[CellKey, FloatArray] = field(default_factory=dict)
    base: dict[CellKey, FloatArray] = field(default_factory=dict)
    names: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for size, _ in SAMPLES.values():
            self.names[size] = np.array([f"{index:05}" for index in range(size)])
        for number in range(MODELS):
            kind = list(NOISE)[number % len(NOISE)]
            for name, (size, settings) in SAMPLES.items():
                ability = self.generator.uniform(1.0, 3.0)
                for setting in range(settings):
                    key = CellKey(f"{kind}-{number}", name, "task", str(setting), "correct")
                    self.chances[key] = self.generator.beta(ability, 1.5, size)
                    self.base[key] = (self.generator.random(size) < self.chances[key]).astype(np.float64)

    def night(self, number: int, planted: list[Planted]) -> dict[CellKey, ItemScores]:
        """Return the scores of one night."""
        scores = {}
        for key, base in self.base.items():
            fresh = self.generator.random(len(base)) < NOISE[kind_of(key.model)]
            values = np.where(fresh, self.generator.random(len(base)) < self.chances[key], base)
            for change in planted:
                if change.holds(key, number):
                    lost = np.random.default_rng([change.start, len(base)]).random(len(base))
                    values = np.where(lost < change.drop / base.mean(), 0.0, values)
            scores[key] = ItemScores(self.names[len(base)], values, np.ones(len(base)))
            whole = key._replace(setting="")
            earlier = scores.get(whole)
            totals, rows = (earlier.totals, earlier.rows) if earlier else (0.0, 0.0)
            scores[whole] = ItemScores(self.names[len(base)], totals + values, rows + np.ones(len(base)))
        return scores


def kind_of(model: str) -> str:
    """Return the kind of a model's noise."""
    return model.partition("-")[0]


def plant(generator: np.random.Generator, models: list[str]) -> list[Planted]:
    """Draw one regression of each size for each kind of noise, on pairs of their own; half of them end."""
    pairs = [(model, name) for model in models for name in SAMPLES]
    generator.shuffle(pairs)
    planted = []
    for kind in NOISE:
        of_kind = [pair for pair in pairs if kind_of(pair[0]) == kind]
        for pair, drop in zip(of_kind, DROPS, strict=False):
            start = int(generator.integers(1, NIGHTS - 8))
            stop = int(generator.integers(start + 3, NIGHTS)) if generator.random() < 0.5 else NIGHTS
            planted.append(Planted(*pair, start, stop, drop))
    return planted


def simulate(seed: int, repetition: int, tally: Tally) -> None:
    """Simulate thirty nights and add what they reported."""
    generator = np.random.default_rng([seed, repetition])
    system = System(generator)
    planted = plant(generator, sorted({key.model for key in system.base}))
    history: dict[str, dict[CellKey, ItemScores]] = {}
    levels: list[Level] = []
    bases = {(key.model, key.benchmark): "" for key in system.base}
    low_nights: dict[Planted, set[int]] = {}
    back: set[Planted] = set()
    for number in range(NIGHTS):
        night = f"{number:02}"
        history[night] = system.night(number, planted)
        comparison = compare_nights(night, history[night], levels, history.__getitem__, bases=bases)
        levels = list(comparison.levels)
        history = {name: items for name, items in history.items() if name in used_nights(levels)}
        false = 0
        for change in comparison.changes:
            cause = next((plan for plan in planted if (plan.model, plan.benchmark) == change.key[:2]), None)
            is_low, was_low = (bool(cause and cause.holds(change.key, at)) for at in (number, int(change.since)))
            if cause is None or is_low == was_low:
                false += 1
            elif is_low:
                low_nights.setdefault(cause, set()).add(number)
            else:  # as a return, or as a rise where the level before it cannot be recognized
                back.add(cause)
        tally.nights += number > 0
        tally.tests += len(comparison.items) if number else 0
        tally.false_nights += false > 0
        tally.false_alarms += false
    for plan in planted:
        key = (kind_of(plan.model), plan.drop)
        tally.planted[key] += 1
        nights = low_nights.get(plan, set())
        tally.reported[key] += bool(nights)
        tally.first_night[key] += plan.start in nights
        tally.repeated[key] += len(nights) > 1
        tally.ended[key] += bool(nights) and plan.stop < NIGHTS
        tally.returned[key] += plan in back


def used_nights(levels: list[Level]) -> set[str]:
    """Return the nights whose scores are compared with."""
    return {night for level in levels for night in (level.night, level.before)}


def table(tally: Tally) -> str:
    """Return the figures as Markdown."""
    heads = ("noise", "drop", "planted", "reported", "in its first night", "reported twice", "return reported")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for key in sorted(tally.planted, key=lambda key: (NOISE[key[0]], key[1])):
        n = tally.planted[key]
        cells = (
            f"{key[0]} ({NOISE[key[0]]:.1%})",
            f"{key[1]:.0%}",
            str(n),
            f"{tally.reported[key] / n:.1%}",
            f"{tally.first_night[key] / n:.1%}",
            str(tally.repeated[key]),
            f"{tally.returned[key]} of {tally.ended[key]}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    rate = tally.false_nights / tally.nights
    lines += ["", f"Nights with a false alarm: {tally.false_nights} of {tally.nights:,} ({rate:.2%});"]
    lines += [f"false alarms: {tally.false_alarms} of {tally.tests:,} comparisons."]
    return "\n".join(lines)


def main() -> None:
    """Run the simulation and print its figures; end with 1 if more than 1% of the nights have a false alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=42)
    flags = parser.parse_args()
    tally = Tally()
    for repetition in range(flags.repetitions):
        simulate(flags.seed, repetition, tally)
    print(table(tally))
    raise SystemExit(tally.false_nights > 0.01 * tally.nights)


if __name__ == "__main__":
    main()

"""Simulate items with flipped labels, and boards of models: the figures are in docs/how-to/gate.md and compare.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.items.false_discovery import LISTED_Q, benjamini_hochberg, reversed_p
from jobs.analysis.items.statistics import rest_shares, suspicions
from jobs.leaderboard.ranks import PairReader, rank_ranges
from jobs.leaderboard.rows import LeaderboardRow
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from tests.support.item_simulation import Simulated, coin_tosses, simulated


def show(name: str, make: Callable[[int], Simulated], seeds: int) -> None:
    """Print how many of the listed items are flipped, and how many of the flipped are listed."""
    listed = hits = flips = false_reversed = 0
    shares = []
    for seed in range(seeds):
        right, answers, is_flipped = make(seed)
        p_values = [None if s is None else s.p for s in suspicions(right, answers)]
        suspect, backward = (
            np.array([q is not None and q < LISTED_Q for q in benjamini_hochberg(p)])
            for p in (p_values, reversed_p(right, rest_shares(right)))
        )
        listed, hits, flips = listed + suspect.sum(), hits + (suspect & is_flipped).sum(), flips + is_flipped.sum()
        shares.append((suspect & ~is_flipped).sum() / max(1, suspect.sum()))
        false_reversed += bool((backward & ~is_flipped).any())
    recall = f"{hits / flips:.0%}" if flips else "-"
    print(
        f"| {name} | {listed / seeds:.1f} | {np.mean(shares):.0%} | {recall} | {false_reversed / seeds:.0%} |",
        flush=True,
    )


class SimulatedPairs(PairReader):
    """Gives the paired rows of simulated models by their names."""

    def __init__(self, right: NDArray[Any]) -> None:
        """Keep (models, rows)."""
        self.right = right.astype(float)

    def metric(self, a: LeaderboardRow, b: LeaderboardRow) -> PairedMetric:
        """Return the mean of the rows of two models."""
        sides = self.right[int(a.model)], self.right[int(b.model)]
        return PairedMetric.mean(*sides, np.arange(self.right.shape[1]), task="", setting="", metric="accuracy")


def ranges(seed: int, shares: NDArray[np.float64], rows: int) -> list[tuple[int, int]]:
    """Return the ranges of models with true shares right, whose answers to a row are correlated."""
    rng = np.random.default_rng(seed)
    common = rng.random(rows) < 0.5
    separate = rng.random((len(shares), rows))
    right = (np.where(common, rng.random(rows), separate) < shares[:, None]).astype(float)
    return simulated_ranges(right)


def simulated_ranges(right: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the ranges of models that are right, (models, rows)."""
    board = ("maia", "accuracy", "t", "s", "")
    names = [
        LeaderboardRow(board=board, model=str(n), value=float(row.mean()), unit="fraction", source="")
        for n, row in enumerate(right)
    ]
    return rank_ranges(names, SimulatedPairs(right))


def show_ranks(name: str, shares: NDArray[np.float64], rows: int, seeds: int) -> None:
    """Print how often all ranges of a board hold the true ranks, and their mean width."""
    held, width = 0, 0.0
    best = [(1 + int((shares > s).sum()), len(shares) - int((shares < s).sum())) for s in shares]
    for seed in range(seeds):
        rank_ends = ranges(seed, shares, rows)
        held += all(low <= first and high >= last for (low, high), (first, last) in zip(rank_ends, best, strict=True))
        width += float(np.mean([high - low for low, high in rank_ends]))
    print(f"| {name} | {rows} | {held / seeds:.1%} | {width / seeds:.1f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    seeds = parser.parse_args().seeds
    print("| data | suspects | false among them | recall | any reversed by chance |\n|---|---:|---:|---:|---:|")
    show("6 models toss coins, 400 items", coin_tosses, seeds)
    for models, flipped in product((5, 8, 12, 30), (0.0, 0.005, 0.02)):
        make = partial(simulated, models=models, flipped=flipped)
        show(f"{models} models, {flipped:.1%} flipped", make, seeds)
    for models in (12, 30):
        show(
            f"{models} models, no guessing, equal slopes, 0.0% flipped",
            partial(simulated, models=models, flipped=0.0, is_rasch=True),
            seeds,
        )
    for models, flipped in product((12, 30), (0.0, 0.02)):
        make = partial(simulated, models=models, flipped=flipped, families=3)
        show(f"{models} models of 3 families, {flipped:.1%} flipped", make, seeds)
    print("\n| board | rows | all true ranks held | mean width |\n|---|---:|---:|---:|")
    for rows in (100, 400):
        show_ranks("6 equal models", np.full(6, 0.5), rows, 10 * seeds)
        show_ranks("6 models, 3 points apart", 0.5 + 0.03 * np.arange(6), rows, 10 * seeds)
        show_ranks("two groups, 20 points apart", np.repeat([0.5, 0.7], 3), rows, 10 * seeds)


if __name__ == "__main__":
    main()

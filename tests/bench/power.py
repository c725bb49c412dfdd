"""Simulate pilots, and the comparisons that they plan: the figures are in docs/how-to/gate.md."""

from __future__ import annotations

import argparse
from typing import Final

from tests.support.paired_simulation import Pair, simulate_power

# Questions that are each a cluster; few and many clips of many questions; repeats, planned with another number.
CASES: Final = (
    (Pair(200, 1, 0.5, 0.6), 1),
    (Pair(100, 1, 0.9, 0.8), 1),
    (Pair(60, 1, 0.5, 0.65), 1),
    (Pair(5, 40, 0.5, 0.6, 0.1), 1),
    (Pair(5, 100, 0.5, 0.6, 0.1), 1),
    (Pair(7, 100, 0.5, 0.6, 0.1), 1),
    (Pair(10, 24, 0.5, 0.65, 0.1), 1),
    (Pair(40, 10, 0.6, 0.68, 0.1), 1),
    (Pair(100, 1, 0.5, 0.6, repeats=4), 4),
    (Pair(100, 1, 0.5, 0.6, repeats=2), 8),
    (Pair(20, 10, 0.5, 0.6, 0.1, repeats=4), 1),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    heads = ("pilot: clusters", "rows of each", "shares right", "correlation", "repeats, planned", "clusters needed")
    print(f"| {' | '.join((*heads, 'range holds', 'power'))} |")
    print("|---:|---:|---|---:|---|---|---:|---:|")
    for pair, repeats in CASES:
        outcome = simulate_power(pair, repetitions=options.repetitions, seed=options.seed, repeats=repeats)
        low, middle, high = outcome.clusters
        bracket = f"{outcome.within_range:.0%}" if repeats == pair.repeats else "-"
        print(
            f"| {pair.clusters} | {pair.questions} | {pair.share_a:g}, {pair.share_b:g} | {pair.correlation:g} "
            f"| {pair.repeats}, {repeats} | {middle} ({low} to {high}) "
            f"| {bracket} | {outcome.power:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Simulate sweeps with `--until`; the figures are in docs/how-to/until.md."""

from __future__ import annotations

import argparse
from itertools import product

from tests.support.sequential_simulation import GAPS, SHAPES, simulate_intervals, simulate_rankings

REACHES = (0.02, 0.05)
RANKED = ("MAIA, 100 clips", "MATE, 5,500 scenes, 15% right")


def main() -> None:
    """Print the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps
    print("| full set | reach | inside at every stop | median saved |\n|---|---:|---:|---:|")
    for name, shape in SHAPES.items():
        for reach in REACHES:
            outcome = simulate_intervals(shape, reach, sweeps, seed=42)
            print(f"| {name} | {reach:g} | {outcome.always_inside:.1%} | {outcome.saved:.0%} |", flush=True)
    print("\n| four models | full set | ranking wrong | median saved |\n|---|---|---:|---:|")
    for gaps, name in product(GAPS, RANKED):
        outcome = simulate_rankings(SHAPES[name], GAPS[gaps], sweeps, seed=42)
        print(f"| {gaps} | {name} | {1 - outcome.always_inside:.1%} | {outcome.saved:.0%} |", flush=True)


if __name__ == "__main__":
    main()

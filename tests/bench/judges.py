"""Simulate judges that err and people who label some rows; the figures are in docs/how-to/judges.md."""

from __future__ import annotations

import argparse
from itertools import product
from statistics import fmean

from tests.support.judge_simulation import JUDGES, LABELS, SETS, Labelling, coverage

CHOSEN = ("at random", "3 to 1 from accepted", "accepted alone", "3 to 1 from the judge's errors")


def main() -> None:
    """Print the tables of the page, each line over the forms of data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    simulations = -(-parser.parse_args().simulations // len(SETS))
    print("| judge | labels | corrected covers | lowest | not corrected | half width |\n|---|---:|---:|---:|---:|---:|")
    for judge, labels in product(JUDGES, LABELS):
        cases = [coverage(judge, clusters, labels, simulations) for clusters in SETS]
        held, naive, reach = (fmean(getattr(case, name) for case in cases) for name in ("corrected", "naive", "reach"))
        lowest = min(case.corrected for case in cases)
        print(f"| {judge} | {labels} | {held:.1%} | {lowest:.1%} | {naive:.1%} | {reach:.3f} |", flush=True)
    print(
        "\n| people err | two people label | labels | covers | lowest | half width |\n|---:|---:|---:|---:|---:|---:|"
    )
    for errors, twice, labels in product((0.05, 0.1), (0.0, 0.3, 1.0), (100, 300)):
        labelling = Labelling(errors=errors, twice=twice)
        cases = [
            coverage(judge, clusters, labels, simulations // 4, labelling=labelling)
            for judge, clusters in product(JUDGES, SETS)
        ]
        held, reach, lowest = (
            fmean(case.corrected for case in cases),
            fmean(case.reach for case in cases),
            min(case.corrected for case in cases),
        )
        print(f"| {errors:.0%} | {twice:.0%} | {labels} | {held:.1%} | {lowest:.1%} | {reach:.3f} |", flush=True)
    print("\n| labelled answers | labels | warned | covers |\n|---|---:|---:|---:|")
    for chosen, labels in product(CHOSEN, (30, 100, 300)):
        cases = [
            coverage("lenient", clusters, labels, simulations, labelling=Labelling(chosen=chosen)) for clusters in SETS
        ]
        warned, held = (fmean(getattr(case, name) for case in cases) for name in ("warned", "corrected"))
        print(f"| {chosen} | {labels} | {warned:.1%} | {held:.1%} |", flush=True)


if __name__ == "__main__":
    main()

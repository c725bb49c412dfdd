"""Simulate judges that err and people who label some rows; the figures are in docs/how-to/judges.md."""

from __future__ import annotations

import argparse
from itertools import product
from statistics import fmean

from tests.support.judge_simulation import JUDGES, LABELS, SETS, coverage


def main() -> None:
    """Print the table of the page: 2,000 simulations of each judge and number of labels over the forms of data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    simulations = -(-parser.parse_args().simulations // len(SETS))
    print("| judge | labels | corrected covers | lowest | not corrected | half width |\n|---|---:|---:|---:|---:|---:|")
    for judge, labels in product(JUDGES, LABELS):
        cases = [coverage(judge, clusters, labels, simulations) for clusters in SETS]
        held, naive, reach = (fmean(getattr(case, name) for case in cases) for name in ("corrected", "naive", "reach"))
        lowest = min(case.corrected for case in cases)
        print(f"| {judge} | {labels} | {held:.1%} | {lowest:.1%} | {naive:.1%} | {reach:.3f} |", flush=True)


if __name__ == "__main__":
    main()

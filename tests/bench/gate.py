"""Simulate releases whose true share is exactly a limit: the figures are in docs/how-to/gate.md."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from typing import Final

from pipelines.decisions.evidence import Evidence
from pipelines.decisions.gate import Claim, Decision, LineResult, decide
from tests.support.interval_simulation import Case, intervals

LINE: Final = LineResult(
    benchmark="", model="", task="", setting="", subset="", category="", metric="", rule="", value=None
)
# Rows that are each a cluster; clips of 24 questions that pass or fail as a whole, or in part; unequal clips.
CASES: Final = tuple(
    Case("share", *shape)
    for shape in (
        *((clusters, "1", share, 0.0) for clusters, share in ((30, 0.97), (100, 0.9), (400, 0.7))),
        *((clusters, "24", share, 1.0) for clusters, share in ((10, 0.9), (30, 0.97), (20, 0.5))),
        *((clusters, "24", share, 0.2) for clusters, share in ((5, 0.7), (10, 0.7), (50, 0.9))),
        *((clusters, "24", 0.95, 0.6) for clusters in (20, 100)),
        *((clusters, "lognormal", 0.8, icc) for clusters in (20, 60) for icc in (0.2, 1.0)),
        *((clusters, "lognormal", 0.9, 0.6) for clusters in (20, 60, 100)),
        *((clusters, "one half", 0.7, 0.2) for clusters in (10, 40)),
    )
)


def decisions(case: Case, sign: int, repetitions: int, seed: int) -> Counter[Decision]:
    """Count the decisions about one line, at least (1) or at most (-1) the true share."""
    counts: Counter[Decision] = Counter()
    for ends, _, (term,) in intervals(case, repetitions, seed):
        right, rows = term.columns.sum(axis=0)
        evidence = Evidence(right / rows, ends.low, ends.high, int(rows), ends.freedom or math.inf)
        counts[decide([Claim(LINE, evidence, case.value, sign)], 0.05).decision] += 1
    return counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    print("| clusters | rows of each | share | correlation | at least: GO, NO-GO | at most: GO, NO-GO |")
    print("|---:|---|---:|---:|---|---|")
    for case in CASES:
        rates = []
        for sign in (1, -1):
            counts = decisions(case, sign, options.repetitions, options.seed)
            rates.append(", ".join(f"{counts[name] / options.repetitions:.1%}" for name in ("GO", "NO-GO")))
        print(
            f"| {case.clusters} | {case.size} | {case.value:g} | {case.correlation:g} | {' | '.join(rates)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

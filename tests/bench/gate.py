"""Simulate releases that are exactly at the limit of a policy; the figures are in docs/how-to/gate.md."""

from __future__ import annotations

import argparse
import math
from typing import Final

from pipelines.decisions.evidence import Evidence
from pipelines.decisions.gate import Claim, LineResult, decide
from tests.support.interval_simulation import Case, intervals

CASES: Final = (
    *(Case("share", n, "1", value, 0.0) for n, value in ((100, 0.9), (400, 0.5), (400, 0.05), (50, 0.02))),
    *(Case("share", 10, "24", value, 0.1) for value in (0.5, 0.9)),
    *(Case("share", k, "24", 0.9, correlation) for k, correlation in ((5, 0.1), (20, 0.3), (100, 0.1))),
    *(Case("share", k, "24", value, 1.0) for k, value in ((10, 0.9), (30, 0.97))),
    *(Case("share", k, "lognormal", value, 0.1) for k, value in ((20, 0.7), (50, 0.9))),
    *(Case("share", k, "one half", value, 0.1) for k, value in ((10, 0.9), (40, 0.7))),
)
_LINE: Final = LineResult(
    benchmark="b", model="m", task="t", setting="s", subset="", category="", metric="accuracy", rule="", value=None
)


def decisions(case: Case, repetitions: int, seed: int) -> dict[tuple[str, str], float]:
    """Return how often each decision is made at the exact limit, by rule."""
    counts = {(rule, name): 0 for rule in ("at least", "at most") for name in ("GO", "NO-GO", "INCONCLUSIVE")}
    for ends, truth, (term,) in intervals(case, repetitions, seed):
        right, n = term.columns.sum(axis=0).tolist()
        evidence = Evidence(right / n, ends.low, ends.high, int(n), ends.freedom or math.inf)
        for rule, sign in (("at least", 1), ("at most", -1)):
            counts[rule, decide([Claim(_LINE, evidence, truth, sign)], 0.05).decision] += 1
    return {key: count / repetitions for key, count in counts.items()}


def main() -> None:
    """Print the table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    repetitions = parser.parse_args().repetitions
    print("| clusters | rows | share | correlation | at least: GO | NO-GO | at most: GO | NO-GO |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        rates = decisions(case, repetitions, seed=42)
        cells = [f"{rates[rule, name]:.1%}" for rule in ("at least", "at most") for name in ("GO", "NO-GO")]
        names = [f"{case.clusters}", case.size, f"{case.value:g}", f"{case.correlation:g}"]
        print(f"| {' | '.join([*names, *cells])} |", flush=True)


if __name__ == "__main__":
    main()

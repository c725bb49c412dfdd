"""Simulate numbers of reports whose true values are known: how often their intervals hold them.

`make simulate-intervals` writes docs/intervals.json and prints the table of docs/intervals.md.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.interval_simulation import Case, cases, coverage

CLUSTERS: Final = (3, 6, 10, 20, 50, 400)
_DOCS: Final = Path(__file__).parents[2] / "docs"


def measured(case: Case, repetitions: int, seed: int) -> float:
    """Return the coverage of a case."""
    return coverage(case, repetitions, seed)


def summary(rows: dict[Case, float]) -> list[dict[str, Any]]:
    """Return average and lowest coverage by kind of number and number of clusters, and of each kind."""
    groups: dict[tuple[str, str], dict[Case, float]] = defaultdict(dict)
    for kind in dict.fromkeys(case.kind for case in rows):
        of_kind = {case: held for case, held in rows.items() if case.kind == kind}
        for case, held in of_kind.items():
            groups[kind, str(case.clusters)][case] = held
        groups[kind, "all"] = of_kind
    return [
        {
            "number": kind,
            "clusters": clusters,
            "cases": len(group),
            "average": round(sum(group.values()) / len(group), 4),
            "lowest": round(min(group.values()), 4),
            "lowest case": _text(min(group, key=lambda case: group[case])),
        }
        for (kind, clusters), group in groups.items()
    ]


def _text(case: Case) -> str:
    return f"{case.size} rows, {case.value:g}, correlation {case.correlation:g}"


def main() -> None:
    """Run the simulation and record its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=_DOCS / "intervals.json")
    options = parser.parse_args()
    grid = list(cases(CLUSTERS))
    with ProcessPoolExecutor(options.processes) as pool:
        held = pool.map(partial(measured, repetitions=options.repetitions, seed=options.seed), grid, chunksize=8)
        rows = dict(zip(grid, held, strict=True))
    table = summary(rows)
    options.out.write_text(
        json.dumps({"repetitions": options.repetitions, "seed": options.seed, "rows": table}, indent=1)
    )
    print(f"| {' | '.join(table[0])} |\n|{'---|' * len(table[0])}")
    for row in table:
        print(f"| {' | '.join(map(str, row.values()))} |")


if __name__ == "__main__":
    main()

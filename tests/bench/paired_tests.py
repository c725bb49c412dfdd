"""Simulate comparisons of two models whose true difference is known: coverage, false alarms, power.

`make simulate` writes docs/paired-tests.json and prints the table of docs/paired-tests.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.paired_simulation import simulate

CLUSTERS: Final = (3, 6, 10, 100)
GAIN: Final = 0.3  # of B's latent score
_DOCS: Final = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of rows that are simulated."""

    name: str
    binary: bool
    sized: bool


KINDS: Final = (
    Kind("right or wrong", binary=True, sized=False),
    Kind("right or wrong, 12 to 36 rows", binary=True, sized=True),
    Kind("score", binary=False, sized=False),
)


def figures(kind: Kind, clusters: int, repetitions: int, seed: int) -> dict[str, Any]:
    """Return the figures of one kind of rows and number of clusters."""
    how = {"binary": kind.binary, "sized": kind.sized}
    null = simulate(clusters, gain=0.0, repetitions=repetitions, seed=seed, **how)
    real = simulate(clusters, gain=GAIN, repetitions=repetitions, seed=seed + 1, **how)
    return {
        "rows": kind.name,
        "clusters": clusters,
        "repetitions": repetitions,
        "true difference": real.true_difference,
        "covered without a difference": null.covered,
        "covered": real.covered,
        "p < 0.05 without a difference": null.rejected,
        "p < 0.05": real.rejected,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    lines += [f"| {' | '.join(_text(value) for value in row.values())} |" for row in rows]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return "-" if value is None else str(value)


def main() -> None:
    """Run the simulation and record its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", type=Path, default=_DOCS / "paired-tests.json")
    flags = parser.parse_args()
    rows = [figures(kind, clusters, flags.repetitions, flags.seed) for kind in KINDS for clusters in CLUSTERS]
    flags.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()

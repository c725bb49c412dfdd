"""One replica against two with an engine that sleeps, and 1 to 64 replicas by simulation with the real planner.

python -m tests.bench.scaling --runs 5
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench.jobs import run_units
from tests.bench.many import write_many
from tests.bench.results import record, show, spread
from tests.bench.simulation import Costs, planned_units, simulate
from tests.support.scripted_engine import scripted

REPLICAS = (1, 2, 4, 8, 16, 32, 64)
GROUPS = 10_000


def shapes() -> dict[str, list[int]]:
    """Return questions by group: equal groups; a few large ones; a single one; a large one beside many."""
    return {
        "even": [216] * GROUPS,
        "skewed": [max(1, round(40_000 / (1 + rank) ** 0.8)) for rank in range(GROUPS)],
        "one clip, 10,000 questions": [10_000],
        "black clip and 100 clips": [21_600] + [216] * 200,
    }


def simulated() -> list[dict[str, object]]:
    """Simulate every shape on every number of replicas."""
    rows: list[dict[str, object]] = []
    for name, groups in shapes().items():
        for replicas in REPLICAS:
            outcome = simulate(planned_units(groups, replicas), replicas, Costs())
            rows.append(
                {
                    "shape": name, "replicas": replicas, "efficiency": outcome.efficiency, "busy": outcome.busy,
                    "prefills": outcome.prefills, "least_prefills": outcome.least_prefills, "batches": outcome.batches,
                }
            )  # fmt: skip
    return rows


def sleeping(folder: Path, replicas: int, stall_s: float) -> float:
    """Return the seconds from first to last unit with an engine that sleeps so long on every unit."""
    with tempfile.TemporaryDirectory() as out:
        model = scripted(replicas=replicas, stall_s=stall_s)
        receipts = run_units(folder, Path(out), model, ("1-frame",), cpus=8)
    return max(receipt.ended for receipt in receipts) - min(receipt.began for receipt in receipts)


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="0: only the simulation")
    parser.add_argument("--stall-s", type=float, default=1.0)
    args = parser.parse_args()
    rows = simulated()
    show("simulated", list(rows[0]), [list(row.values()) for row in rows])
    result: dict[str, object] = {"simulated": rows}
    times: dict[int, list[float]] = {1: [], 2: []}
    if args.runs:
        with tempfile.TemporaryDirectory() as folder:
            write_many(Path(folder), 40, 40 * 64)
            for turn in range(args.runs):
                for replicas, seconds_of_runs in times.items():
                    seconds_of_runs.append(sleeping(Path(folder), replicas, args.stall_s))
                print(f"run {turn + 1}: {times[1][-1]:.1f} s on one, {times[2][-1]:.1f} s on two", flush=True)
        gain = spread([item / two / 2 for item, two in zip(times[1], times[2], strict=True)])
        result |= {"one_s": spread(times[1]), "two_s": spread(times[2]), "share_of_ideal": gain}
        show("sleeping engine, two replicas against one", ["share of ideal", "spread"], [
            [gain["median"], f"{gain['low']:.3f}-{gain['high']:.3f}"],
        ])  # fmt: skip
    record("scaling", result)


if __name__ == "__main__":
    main()

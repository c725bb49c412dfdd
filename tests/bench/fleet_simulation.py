"""`python -m tests.bench.fleet_simulation WORKLOAD.json`: a sweep on 8 to 1,024 GPUs, without one.

The workload is a list of `{name, gpus, load_s, units: [seconds, ...]}`, as `python -m tests.bench.fleet_simulation_command` makes it from
the planner's own units. For each size of the fleet, as a run does it: makespan, GPU time used of that paid, price,
weights loaded, and how far the schedule is from a bound that no schedule can beat; beside it the same with spot
machines that are taken back, and with models in turn where a run would let them share.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cluster.scheduling.gpu_scheduler import GpuScheduler, run_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload, SimulationResult, lower_bound

__all__ = ["SIZES", "Row", "read_workload", "rows", "shown", "workload_json"]

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
SPOT_PRICE = 0.4
"""Of the price on demand; spot prices move, this is a middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size of the fleet under one way of running."""

    gpus: int
    way: str
    hours: float
    over_bound: float
    """Makespan over the lower bound."""
    utilisation: float
    price_usd: float
    loads: int
    lost_nodes: int


def rows(
    works: Sequence[ModelWorkload], base: Fleet, sizes: Iterable[int] = SIZES, spot_loss: float = 0.05
) -> list[Row]:
    """Play every size three ways: as a run does it, the same on spot, and with models in turn.

    Args:
        works: what each model has to do.
        base: price, start time, seed; its number of GPUs is replaced.
        sizes: numbers of GPUs.
        spot_loss: losses a node-hour on spot.
    """
    made = []
    for gpus in sizes:
        fleet = replace(base, gpus=gpus)
        spot = replace(fleet, lost_an_hour=spot_loss, gpu_hour_usd=base.gpu_hour_usd * SPOT_PRICE)
        bound, book = lower_bound(works, fleet), run_schedule(works, fleet.nodes)
        made += [
            _row("as a run does it", gpus, simulate(book, fleet), bound),
            _row("so, on spot", gpus, simulate(book, spot), bound),
            _row("in turn", gpus, simulate(GpuScheduler(works, fleet.nodes, together=False), fleet), bound),
        ]
    return made


def _row(way: str, gpus: int, played: SimulationResult, bound: float) -> Row:
    return Row(
        gpus=gpus,
        way=way,
        hours=played.makespan_s / 3600,
        over_bound=played.makespan_s / bound,
        utilisation=played.utilisation(),
        price_usd=played.price_usd,
        loads=sum(played.loads.values()),
        lost_nodes=played.lost_nodes,
    )


def shown(found: Sequence[Row]) -> str:
    """The rows as a plain table."""
    head = f"{'GPUs':>5}  {'models':<18}{'hours':>8}{'x bound':>9}{'used':>7}{'price':>11}{'loads':>7}{'lost':>6}"
    lines = [
        f"{r.gpus:>5}  {r.way:<18}{r.hours:>8.2f}{r.over_bound:>9.2f}{r.utilisation:>7.0%}"
        f"{'$' + format(r.price_usd, ',.0f'):>11}{r.loads:>7}{r.lost_nodes:>6}"
        for r in found
    ]
    return "\n".join([head, *lines])


def read_workload(text: str) -> list[ModelWorkload]:
    """Read a workload.

    Raises:
        ValueError: it is none.
    """
    try:
        raw: list[dict[str, Any]] = json.loads(text)
        return [ModelWorkload(**{**entry, "units": tuple(float(s) for s in entry["units"])}) for entry in raw]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a workload ({error}); expected [{{name, gpus, load_s, units}}, ...]") from error


def workload_json(works: Iterable[ModelWorkload]) -> str:
    """The inverse of `read_workload`."""
    return json.dumps(
        [{"name": w.name, "gpus": w.gpus, "load_s": w.load_s, "units": [round(s, 3) for s in w.units]} for w in works]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a workload."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.fleet_simulation", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("workload", type=Path)
    parser.add_argument("--gpus", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--gpus-a-node", type=int, default=8)
    parser.add_argument("--gpu-hour-usd", type=float, default=2.5)
    parser.add_argument("--spot-loss", type=float, default=0.05, help="losses a node-hour")
    parser.add_argument("--seed", type=int, default=42)
    given = parser.parse_args(arguments)
    fleet = Fleet(gpus=8, gpus_a_node=given.gpus_a_node, gpu_hour_usd=given.gpu_hour_usd, seed=given.seed)
    try:
        works = read_workload(given.workload.read_text(encoding="utf-8"))
        table = shown(rows(works, fleet, given.gpus, given.spot_loss))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{given.workload}: {error}\n")
        return 2
    sys.stdout.write(table + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

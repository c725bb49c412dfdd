"""`make chaos`: disturb sweeps many times and record the outcomes.

Results go to a JSON file, from which the guarantee table of README.md is written (`python -m tests.chaos.table`). An
interrupted run resumes: disturbances in the file are not repeated.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.chaos.hosts import disturb_hosts
from tests.chaos.kills import KINDS, kill_driver, kill_worker
from tests.chaos.nodes import Nodes
from tests.chaos.ranks import kill_rank
from tests.chaos.results import RESULTS, read_results, write_results
from tests.chaos.sweeps import Damage, Scene, make_scene
from tests.support.hosts import unavailable_reason

HOSTS = "one host, after another's network"
MOST_HOSTS = 3
"""Seeds of the disturbances that take minutes each."""

Disturbance = Callable[[Scene, Path, int], Damage]


def disturbances(nodes: Nodes) -> dict[str, Disturbance]:
    """Return the disturbances of a sweep, by name."""

    def worker(kind: str) -> Disturbance:
        return lambda scene, out, seed: kill_worker(scene, out, seed, kind)

    return {
        "driver": kill_driver,
        **{kind: worker(kind) for kind in KINDS},
        "rank of a tensor-parallel group": kill_rank,
        "node": nodes.kill,
        HOSTS: disturb_hosts,
    }


def main() -> int:
    """Disturb sweeps as the flags say; return 0 when no sweep lost, repeated or changed a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="disturbances, separated by semicolons")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = read_results(options.results)
    kills = results["kills"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="vlmsweep-chaos-") as folder, Nodes() as nodes:
        scene = make_scene(Path(folder))
        for name, disturb in disturbances(nodes).items():
            if options.only and name not in options.only.split(";"):
                continue
            if name == HOSTS and (reason := unavailable_reason()):
                sys.stdout.write(f"skipped: {HOSTS}: {reason}\n")
                continue
            for seed in range(min(options.seeds, MOST_HOSTS) if name == HOSTS else options.seeds):
                if str(seed) in kills.get(name, {}):
                    continue
                _disturb_sweep(scene, name, disturb, seed, kills)
                write_results(results, options.results)
    bad = [f"{name}/{seed}" for name, runs in kills.items() for seed, item in runs.items() if not item["harmless"]]
    sys.stdout.write(f"{len(bad)} sweeps were harmed: {', '.join(bad)}\n" if bad else "no sweep was harmed\n")
    return 1 if bad else 0


def _disturb_sweep(
    scene: Scene, name: str, disturb: Disturbance, seed: int, kills: dict[str, dict[str, object]]
) -> None:
    started = time.monotonic()
    damage = disturb(scene, scene.folder / f"{re.sub('[^a-z]+', '-', name)}-{seed}", seed)
    kills.setdefault(name, {})[str(seed)] = {**asdict(damage), "harmless": damage.harmless}
    seconds = time.monotonic() - started
    sys.stdout.write(f"{name}, seed {seed}: {damage} in {seconds:.0f} s\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

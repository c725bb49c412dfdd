"""`make chaos`: disturb sweeps many times and record the outcomes.

Results go to a JSON file, from which `python -m tests.chaos.table` writes the table of docs/operations.md.
An interrupted run resumes: disturbances in the file are not repeated.
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

from tests.chaos.endpoints import disturb_endpoint
from tests.chaos.hosts import disturb_hosts
from tests.chaos.judges import kill_while_judged
from tests.chaos.kills import KINDS, kill_driver, kill_store, kill_worker
from tests.chaos.nodes import Nodes
from tests.chaos.ranks import kill_rank
from tests.chaos.sweeps import Damage, Scene, make_scene
from tests.chaos.table import RESULTS, read_results, write_results
from tests.support.hosts import unavailable_reason as hosts_missing
from tests.support.seaweed import Seaweed, seaweed
from tests.support.seaweed import unavailable_reason as seaweed_missing

HOSTS = "one host, after another's network"
MAX_HOSTS = 5
"""Seeds of the disturbances that take minutes each."""
ENDPOINT = "endpoint that fails, and driver"
JUDGED = "driver, while a judge is asked beside models"
ON_S3 = " (output and data in SeaweedFS)"

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
        ENDPOINT: disturb_endpoint,
        JUDGED: kill_while_judged,
        HOSTS: disturb_hosts,
    }


def disturbances_on_s3(nodes: Nodes) -> dict[str, Disturbance]:
    """Return the disturbances of a sweep whose files are in an object store, by name."""
    kinds = {"driver": kill_driver, "node": nodes.kill, "server of the object store, three times": kill_store}
    return {f"{name}{ON_S3}": disturb for name, disturb in kinds.items()}


def main() -> int:
    """Disturb sweeps as the flags say; return 0 when no sweep lost, repeated or changed a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="disturbances, separated by semicolons")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = read_results(options.results)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    kills = results["kills"]

    def disturb_all(kinds: dict[str, Disturbance], folder: Path, server: Seaweed | None) -> None:
        names = [name for name in kinds if not options.only or name in options.only.split(";")]
        seeds = {name: range(min(options.seeds, MAX_HOSTS) if name == HOSTS else options.seeds) for name in names}
        missing = [(name, seed) for name in names for seed in seeds[name] if str(seed) not in kills.get(name, {})]
        if (reason := hosts_missing()) and HOSTS in names:
            sys.stdout.write(f"skipped: {HOSTS}: {reason}\n")
            missing = [(name, seed) for name, seed in missing if name != HOSTS]
        scene = make_scene(folder, server=server) if missing else None
        for name, seed in missing:
            _disturb_sweep(scene, name, kinds[name], seed, kills)
            write_results(results, options.results)

    with tempfile.TemporaryDirectory(prefix="vlmsweep-chaos-") as folder, Nodes() as nodes:
        disturb_all(disturbances(nodes), Path(folder), None)
    if reason := seaweed_missing():
        sys.stdout.write(f"skipped: all{ON_S3}: {reason}\n")
    else:
        with (
            tempfile.TemporaryDirectory(prefix="vlmsweep-chaos-") as folder,
            seaweed(Path(folder, "store")) as server,
            Nodes(server.env) as nodes,
        ):
            disturb_all(disturbances_on_s3(nodes), Path(folder), server)
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

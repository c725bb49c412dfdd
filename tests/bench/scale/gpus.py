"""Many models that sleep on GPUs that are not there: a real Ray with nodes of several sizes on this machine.

    python -m tests.bench.scale.gpus --nodes 8,4,1,1 --models 20

Every node is a raylet that counts GPUs, every replica a process of some 200 MB that Ray gives one of them. All
benchmarks with a few samples of each. Prints how long replicas held GPUs, how many started, and the driver's threads
and memory. Wall times are those of one machine that plays all nodes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from pipelines.benchmarks import code_benchmarks
from tests.bench.scale.nodes import SETTINGS, join_nodes, run_sweep
from tests.chaos.processes import REPLICA, command_of
from tests.support.ray_head import ray_head
from tests.support.small_data import ingest_all


class Replicas:
    """What replicas and the driver use, by looks at their processes."""

    def __init__(self, folder: Path) -> None:
        self._mark, self._last = f"{folder}/".encode(), time.monotonic()
        self.pids: set[int] = set()
        self.most = self.threads = 0
        self.gpu_s = 0.0

    def look(self, driver: psutil.Process) -> None:
        """Count the replicas of one cluster, which is known by its folder in their environment."""
        pids = {pid for pid in psutil.pids() if REPLICA in command_of(pid) and self._is_here(pid)}
        now = time.monotonic()
        self.gpu_s += len(pids) * (now - self._last)
        self._last = now
        self.pids |= pids
        self.most, self.threads = max(self.most, len(pids)), max(self.threads, driver.num_threads())

    def _is_here(self, pid: int) -> bool:
        try:
            return self._mark in Path("/proc", str(pid), "environ").read_bytes()
        except OSError:
            return False


def main() -> None:
    """Start the nodes, run the sweep, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="8,4,1,1", help="GPUs of each node, comma-separated")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=4, help="at most, of each model")
    parser.add_argument("--call-ms", type=float, default=50.0)
    args = parser.parse_args()
    faults = {"on_gpu": True, "call_s": args.call_ms / 1000}
    spec: dict[str, Any] = {"engine": "scripted", "replicas": {"max": args.replicas}, "fault_injection": faults}
    models = {f"model{number}": {**spec, "seed": number} for number in range(args.models)}
    gpus = [int(count) for count in args.nodes.split(",")]
    with TemporaryDirectory() as folder:
        data, out = ingest_all(Path(folder)), Path(folder, "out")
        with ray_head("--num-cpus=1", "--num-gpus=0", env=SETTINGS) as head:
            for count in gpus:
                if not join_nodes(head, 1, f"--num-gpus={count}"):
                    raise MemoryError(f"no room for a node of {count} GPUs")
            replicas = Replicas(head.folder)
            result = run_sweep(head, data, out, models, "--benchmarks", ",".join(code_benchmarks()), look=replicas.look)
        requests = sum(cell["requests"] for cell in json.loads((out / "status.json").read_bytes())["cells"])
    figures = {
        "gpus": sum(gpus),
        "requests": requests,
        "replica_starts": len(replicas.pids),
        "most_replicas": replicas.most,
        "gpu_time_held": replicas.gpu_s / sum(gpus) / (result["seconds"] - result["planned_s"]),
        "computing_of_held": requests * args.call_ms / 1000 / max(replicas.gpu_s, 1e-9),
        "driver_threads": replicas.threads,
        "load": psutil.getloadavg()[0],
        **result,
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

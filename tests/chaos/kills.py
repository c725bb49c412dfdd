"""SIGKILL at a random moment to one process of a running sweep, of each kind that a sweep has."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.chaos.processes import named
from tests.chaos.sweeps import Damage, Scene, parts

__all__ = ["KINDS", "kill_driver", "kill_node", "kill_worker"]

KINDS = {
    "engine replica": "MapBatches(Replica)",
    "decode worker": "pipelines.media.decode_child",
    "loading worker": "ray::",
}
"""Text in the command line of each kind of worker."""


def kill_driver(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill the run itself, at once run it again, until it is let finish; up to three kills."""
    draw = Random(seed)
    kills = 0
    for _ in range(1 + draw.randrange(3)):
        process = scene.start(out)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.1, 1.0) * scene.seconds)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
    scene.finish(out)
    return scene.damage(out, kills)


def kill_worker(scene: Scene, out: Path, seed: int, kind: str) -> Damage:
    """Kill a worker of a kind, once or twice, from the first commit on; the run goes on by itself."""
    draw = Random(seed)
    process = scene.start(out)
    kills = 0
    try:
        _first_worker(process, kind)
        for _ in range(1 + draw.randrange(2)):
            time.sleep(draw.uniform(0.0, 0.3) * scene.seconds)
            for pid in draw.sample(found := named(process.pid, KINDS[kind]), k=min(1, len(found))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        code = process.wait(240)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert code == 0, out.with_suffix(".log").read_text()[-3000:]
    return scene.damage(out, kills)


def _first_worker(process: subprocess.Popen[bytes], kind: str) -> None:
    deadline = time.monotonic() + 120
    while not named(process.pid, KINDS[kind]):
        assert process.poll() is None, "the run ended before there was anything to kill"
        assert time.monotonic() < deadline, f"no {kind} within two minutes"
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Nodes:
    """A cluster of several nodes on this machine."""

    address: str
    raylets: list[int]
    """Of the nodes that may die: not the head's."""


@contextlib.contextmanager
def cluster(workers: int = 2) -> Iterator[Nodes]:
    """A head without CPUs and nodes with two each, open to this machine only for as long as the block lasts."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False},
    )
    try:
        for _ in range(workers):
            nodes.add_node(num_cpus=2, object_store_memory=100 << 20)
        raylets = [process.process.pid for node in nodes.worker_nodes for process in node.all_processes["raylet"]]
        yield Nodes(nodes.address, raylets)
    finally:
        nodes.shutdown()


def kill_node(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill one node of three while the sweep runs there."""
    draw = Random(seed)
    with cluster() as nodes:
        process = scene.start(out, "--address", nodes.address)
        deadline = time.monotonic() + 120
        while not parts(out):
            assert process.poll() is None, out.with_suffix(".log").read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(draw.uniform(0.0, 0.5) * scene.seconds)
        os.kill(draw.choice(nodes.raylets), signal.SIGKILL)
        code = process.wait(400)
        assert code == 0, out.with_suffix(".log").read_text()[-3000:]
    return scene.damage(out, 1)

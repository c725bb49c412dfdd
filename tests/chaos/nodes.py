"""SIGKILL to a node of a running sweep: one raylet of a head without CPUs and two nodes, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.chaos.processes import REPLICA, ending, named, wait_until_gone
from tests.chaos.sweeps import Damage, Scene, in_hand
from tests.support.ray_head import RayHead, ray_head

__all__ = ["Nodes"]

NODES = 2
START_S = 120
DIE_S = 30
RAYLET = "raylet/raylet"


class Nodes(contextlib.AbstractContextManager["Nodes"]):
    """A cluster that is started on first use and serves all seeds; dead nodes are replaced."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = env or {}
        self._stack = contextlib.ExitStack()
        self._head: RayHead | None = None
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._node_count = 0

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill(self, scene: Scene, out: Path, seed: int) -> Damage:
        """Kill one of two nodes at a random moment after the first calls, the one with a replica if only one has."""
        draw = Random(seed)
        head = self._whole()
        names = {name: head.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")}
        process = scene.start(out, "--address", f"127.0.0.1:{head.gcs}", env=names)
        with ending(process):
            deadline = time.monotonic() + 120
            while not out.with_suffix(".journal").exists():
                assert process.poll() is None, scene.log_tail(out)
                assert time.monotonic() < deadline, scene.log_tail(out)
                time.sleep(0.05)
            time.sleep(draw.uniform(0.0, 0.5) * scene.calls_s)
            busy = [node for node in self._nodes if named(node.pid, REPLICA)]
            node = draw.choice(busy or self._nodes)
            (raylet,), below, committed = named(node.pid, RAYLET), named(node.pid, REPLICA), scene.read_answers(out)
            os.kill(raylet, signal.SIGKILL)
            wait_until_gone(below, DIE_S)
            in_flight = in_hand(out, committed)
            scene.ended(process, out)
        return scene.damage(out, 1, in_flight=in_flight)

    def _whole(self) -> RayHead:
        """Return the cluster after all its nodes have joined."""
        if self._head is None:
            # Half a minute to start and a quarter of one to be found dead, where Ray is not configured otherwise.
            env = {"RAY_raylet_start_wait_time_s": str(START_S), "RAY_health_check_period_ms": "1000", **self._env}
            self._head = self._stack.enter_context(ray_head("--num-cpus=0", env=env))
        self._nodes = [node for node in self._nodes if node.poll() is None and named(node.pid, RAYLET)]
        while len(self._nodes) < NODES:
            self._nodes.append(self._joined(self._head))
        return self._head

    def _joined(self, head: RayHead) -> subprocess.Popen[bytes]:
        """Start one more node."""
        self._node_count += 1
        log = head.folder / f"node-{self._node_count}.log"
        join = (f"--address=127.0.0.1:{head.gcs}", "--num-cpus=2", "--object-store-memory=100000000")
        node = head.start(*join, log=log.name)
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text():
            assert node.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return node

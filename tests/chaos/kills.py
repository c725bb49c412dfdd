"""SIGKILL at a random moment to one process of a running sweep, of each kind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

from tests.chaos.processes import REPLICA, command_of, ending, named, wait_until_gone
from tests.chaos.sweeps import Damage, Scene, in_hand

__all__ = ["KINDS", "kill_driver", "kill_store", "kill_worker"]

KINDS = {
    "engine replica": REPLICA,
    "decode worker": "pipelines.media.decode_worker",
    "any worker of Ray": "ray::",
}
"""Text in the command line of each kind of worker."""
STORE_KILLS = 3
START_S = 240.0
"""Within which a run has its first worker; a quiet machine needs ten."""
DIE_S = 30.0
"""Within which the engines of a killed run end by themselves; agents of Ray may take a minute, but call nothing."""


def kill_driver(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill the run itself, run it again, until it is let finish; up to three kills."""
    draw = Random(seed)
    kills = in_flight = 0
    for _ in range(1 + draw.randrange(3)):
        process = scene.start(out)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.1, 0.85) * scene.seconds)
        if process.poll() is None:
            below, committed = named(process.pid, REPLICA), scene.read_answers(out)
            process.kill()
            kills += 1
            process.wait()
            wait_until_gone(below, DIE_S)
            in_flight += in_hand(out, committed)
    scene.finish(out)
    return scene.damage(out, kills, in_flight=in_flight)


def kill_store(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill the store's server and start it again, three times while the sweep runs; the sweep goes on by itself."""
    assert scene.server is not None
    draw = Random(seed)
    process = scene.start(out)
    kills = 0
    with ending(process):
        _first_worker(scene, process, out, "engine replica")
        while kills < STORE_KILLS and process.poll() is None:
            time.sleep(draw.uniform(0.0, 0.15) * scene.seconds)
            scene.server.kill()
            time.sleep(draw.uniform(0.0, 5.0))
            scene.server.start()
            kills += 1
        scene.ended(process, out)
    return scene.damage(out, kills, in_flight=0)


def kill_worker(scene: Scene, out: Path, seed: int, kind: str) -> Damage:
    """Kill a worker of a kind, once or twice, from its start on; the run goes on by itself."""
    draw = Random(seed)
    process = scene.start(out)
    kills = in_flight = 0
    with ending(process):
        _first_worker(scene, process, out, kind)
        for _ in range(1 + draw.randrange(2)):
            time.sleep(draw.uniform(0.0, 0.3) * scene.seconds)
            committed = scene.read_answers(out)
            for pid in draw.sample(results := _worker_pids(process, kind), k=min(1, len(results))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
                    in_flight += in_hand(out, committed)
        scene.ended(process, out)
    return scene.damage(out, kills, in_flight=in_flight)


def _worker_pids(process: subprocess.Popen[bytes], kind: str) -> list[int]:
    """Return the processes of a kind, Ray's agents excepted: a node ends with them."""
    return [pid for pid in named(process.pid, KINDS[kind]) if not command_of(pid).strip().endswith("Agent")]


def _first_worker(scene: Scene, process: subprocess.Popen[bytes], out: Path, kind: str) -> None:
    deadline = time.monotonic() + START_S
    while not _worker_pids(process, kind):
        assert process.poll() is None, f"the run ended before there was anything to kill\n{scene.log_tail(out)}"
        assert time.monotonic() < deadline, f"no {kind} within {START_S:.0f} s\n{scene.log_tail(out)}"
        time.sleep(0.05)

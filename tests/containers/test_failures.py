"""Containers that are killed or restarted in the middle of a sweep: no request is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.containers.services import Services, wait_until
from tests.containers.sweeps import Sweep

pytestmark = pytest.mark.containers

CALL_S = 0.2
"""With two replicas, two minutes of calls."""
BEFORE = 3
"""Parts that are committed before the disturbance."""


@pytest.fixture(scope="module", autouse=True)
def data(services: Services) -> None:
    """Ingest the sample data, by the demo, unless a test did it before."""
    if not services.containers("demo"):
        assert services.run_demo().inspect()["State"]["ExitCode"] == 0


@contextmanager
def in_the_middle(sweep: Sweep, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the follower of a sweep of which some parts are committed."""
    process = sweep.start(env, log)
    try:
        wait_until(
            lambda: len(sweep.parts()) >= BEFORE or process.poll() is not None, "parts are committed", seconds=600
        )
        assert process.poll() is None, log.read_text()[-4000:]
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def share_committed(sweep: Sweep, parts: list[str]) -> str:
    """Return how much of an ended sweep these parts are; AssertionError if they are all."""
    assert set(parts) < set(sweep.parts())
    return f"with {len(parts)} of {len(sweep.parts())} parts committed"


def end_of(process: subprocess.Popen[bytes], log: Path, *, seconds: float = 900) -> tuple[int, str]:
    """Return exit code and output of a follower."""
    return process.wait(seconds), log.read_text()


def test_killed_worker_comes_back_and_nothing_is_lost(
    services: Services, outside: dict[str, str], tmp_path: Path, figures: list[str]
) -> None:
    sweep, log = Sweep(services, "worker-killed", CALL_S), tmp_path / "log"
    with in_the_middle(sweep, outside, log) as process:
        worker = services.containers("worker")[0]
        before = worker.pid
        os.kill(before, signal.SIGKILL)
        begun, parts = time.monotonic(), sweep.parts()
        wait_until(lambda: worker.pid not in (0, before), "the worker runs again")
        back_s = time.monotonic() - begun
        code, text = end_of(process, log)
    assert code == 0, text[-4000:]
    assert sweep.lost_or_doubled() == []
    services.wait_until_healthy(worker)
    when = share_committed(sweep, parts)
    figures.append(
        f"worker killed {when}: it ran again after {back_s:.0f} s; the sweep ended with 0, 0 lost, 0 doubled"
    )


def test_restarted_store_delays_the_sweep_and_nothing_is_lost(
    services: Services, outside: dict[str, str], tmp_path: Path, figures: list[str]
) -> None:
    sweep, log = Sweep(services, "store-restarted", CALL_S), tmp_path / "log"
    with in_the_middle(sweep, outside, log) as process:
        (store,) = services.containers("store")
        parts = sweep.parts()
        services.podman("restart", "--time", "0", store.name)
        services.wait_until_healthy(store)
        code, text = end_of(process, log)
    if code == 3:
        assert "run the same command again to resume" in text
        assert "Traceback" not in text
        assert sweep.submit(outside).returncode == 0
    else:
        assert code == 0, text[-4000:]
    assert sweep.lost_or_doubled() == []
    when = share_committed(sweep, parts)
    figures.append(f"store restarted {when}: the sweep ended with {code}, in the end 0 lost, 0 doubled")


def test_restarted_head_ends_the_sweep_with_3_and_the_same_command_resumes_it(
    services: Services, outside: dict[str, str], tmp_path: Path, figures: list[str]
) -> None:
    sweep, log = Sweep(services, "head-restarted", CALL_S), tmp_path / "log"
    with in_the_middle(sweep, outside, log) as process:
        (head,) = services.containers("head")
        begun = time.monotonic()
        services.podman("restart", "--time", "0", head.name)
        code, text = end_of(process, log)
        reported_s = time.monotonic() - begun
    committed = sweep.parts()
    assert code == 3, text[-4000:]
    assert "run the same command again" in text.lower()
    assert "Traceback" not in text
    for container in (head, *services.containers("worker")):
        services.wait_until_healthy(container)
    result = sweep.submit(outside)
    assert result.returncode == 0, result.stderr[-4000:]
    assert sweep.lost_or_doubled() == []
    when = share_committed(sweep, committed)
    figures.append(
        f"head restarted {when}: 3 after {reported_s:.0f} s; the same command ended with 0, 0 lost, 0 doubled"
    )

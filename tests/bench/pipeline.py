"""The whole pipeline with the random baseline: requests a second from shards to metrics, and the driver's memory.

    python -m tests.bench.pipeline --requests 10000,100000 --runs 5

Each run is a process of its own, so that memory is that of one sweep; sizes take turns. Twenty questions a clip. Wall
time hangs on what else the machine does; the processor time of all processes of the sweep does so far less, and is
written beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from models.spec import ModelSpec, Replicas
from pipelines.plan.run_spec import RunSpec
from pipelines.progress import NullProgress
from pipelines.sweep.run import run_sweep
from tests.bench.many import write_many
from tests.bench.results import record, show, spread

PER_GROUP = 20
EVERY_S = 0.5


class Phases(NullProgress):
    """Records when each phase began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []

    def phase(self, title: str, total: int) -> None:
        """Begin a phase."""
        del total
        self.began.append((title, time.perf_counter()))

    def seconds(self, end: float) -> dict[str, float]:
        """Return the seconds of each phase."""
        ends = [start for _, start in self.began[1:]] + [end]
        return {title: round(stop - start, 3) for (title, start), stop in zip(self.began, ends, strict=True)}


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Yield the driver's peak resident size, and the processor seconds of it and all processes below it."""
    driver = psutil.Process()
    observed: dict[str, float] = {"driver_mb": 0.0, "cpu_s": 0.0}
    cpu: dict[int, float] = {}
    done = threading.Event()

    def look() -> None:
        observed["driver_mb"] = max(observed["driver_mb"], driver.memory_info().rss / 2**20)
        for process in (driver, *driver.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            cpu[process.pid] = times.user + times.system

    def loop() -> None:
        while not done.wait(EVERY_S):
            look()

    thread = threading.Thread(target=loop, daemon=True)
    look()
    before = sum(cpu.values())
    thread.start()
    yield observed
    look()
    done.set()
    thread.join()
    observed["cpu_s"] = sum(cpu.values()) - before


def measure_process(data: Path, replicas: int) -> dict[str, Any]:
    """Run one sweep in this process and measure it."""
    phases = Phases()
    with tempfile.TemporaryDirectory() as out:
        spec = RunSpec(
            data=str(data),
            out=out,
            models={"chance": ModelSpec(engine="random", replicas=Replicas(max=replicas))},
            benchmarks=("maia",),
            settings=("1-frame",),
        )
        start = time.perf_counter()
        with watched() as observed:
            outcome = run_sweep(spec, progress=phases)
        end = time.perf_counter()
    if outcome.failed or not outcome.metrics:
        raise RuntimeError(f"{outcome.failed} requests failed, {len(outcome.metrics)} metrics were made")
    return {
        "requests": outcome.requests,
        "seconds": end - start,
        "per_second": outcome.requests / (end - start),
        "cpu_ms_per_request": 1000 * observed["cpu_s"] / outcome.requests,
        "driver_mb": observed["driver_mb"],
        "driver_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "planning_s": phases.began[0][1] - start,
        "phases_s": phases.seconds(end),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", default="10000,100000", help="sizes, comma-separated; 1000000 takes long")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_process(args.measure, args.replicas)))
        return
    sizes = [int(size) for size in args.requests.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            write_many(Path(folder, str(size)), max(1, size // PER_GROUP), size)
        runs: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
        for turn in range(args.runs):
            for size in sizes:
                command = [sys.executable, "-m", "tests.bench.pipeline", "--measure", f"{folder}/{size}"]
                process = subprocess.run(
                    [*command, "--replicas", str(args.replicas)], stdout=subprocess.PIPE, check=True, text=True
                )
                runs[size].append(json.loads(process.stdout.splitlines()[-1]))
                print(f"run {turn + 1}, {size}: {runs[size][-1]}", flush=True)
    names = ("per_second", "cpu_ms_per_request", "driver_mb", "planning_s")
    sums = {size: {name: spread([run[name] for run in subset]) for name in names} for size, subset in runs.items()}
    record("pipeline", {"sizes": {str(size): {**sums[size], "runs": runs[size]} for size in sizes}})
    show(
        "whole pipeline, guessing model",
        ["requests", "requests/s", "spread", "CPU ms a request", "driver MB", "planning s"],
        [
            [
                size, subset["per_second"]["median"],
                f"{subset['per_second']['low']:.4g}-{subset['per_second']['high']:.4g}",
                *(subset[name]["median"] for name in names[1:]),
            ]
            for size, subset in sums.items()
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()

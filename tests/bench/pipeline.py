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
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from models.entry_fields import Replicas
from models.spec import ModelSpec
from pipelines.benchmarks.figures import Bars, Series
from pipelines.plan.run_spec import RunSpec
from pipelines.progress import NullProgress
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.sweep.run import run_sweep
from tests.bench.many import write_many
from tests.bench.results import record, show, spread
from tests.support.scripted_engine import ScriptedEntry

PER_GROUP = 20
STAGES = ("plan", "predict", "score", "report")
GROUPS = {
    "tasks": ("MapBatches", "_call"),
    "decoders": ("decoder",),
    "driver": ("driver",),
    "workers as they start and wait": ("IDLE", "default_worker"),
    "Ray's services": (),
}
"""Groups of processes, and what the name of one of them holds."""


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


def measure_process(data: Path, replicas: int, *, all_stages: bool = False) -> dict[str, Any]:
    """Run one sweep in this process and measure it.

    With `all_stages` an engine that may die answers: it gets replicas.
    """
    most = Replicas(max=replicas)
    entry = ScriptedEntry(replicas=most) if all_stages else ModelSpec(engine="random", replicas=most)
    phases = Phases()
    with tempfile.TemporaryDirectory() as out:
        spec = RunSpec(
            data=str(data),
            out=out,
            models={"chance": entry},
            benchmarks=("maia",),
            settings=("1-frame",),
        )
        start = time.perf_counter()
        with used(lambda: phases.began[-1][0].partition(" ")[0] if phases.began else "plan") as usage:
            outcome = run_sweep(spec, progress=phases)
        end = time.perf_counter()
    if outcome.failed or not outcome.metrics:
        raise RuntimeError(f"{outcome.failed} requests failed, {len(outcome.metrics)} metrics were made")
    return {
        "requests": outcome.requests,
        "seconds": end - start,
        "per_second": outcome.requests / (end - start),
        "cpu_ms_per_request": 1000 * usage.total_s / outcome.requests,
        "processes": usage.by_phase(),
        "driver_mb": max(usage.driver_mb),
        "driver_mb_by_tenth": usage.driver_mb[:: max(1, len(usage.driver_mb) // 10)],
        "driver_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "planning_s": phases.began[0][1] - start,
        "phases_s": phases.seconds(end),
        "load": os.getloadavg()[0],
    }


def draw(run: Mapping[str, Any], path: Path) -> None:
    """Draw the processor time of a run by stage and kind of process."""
    stages = {stage: sums_by_group(kinds) for stage, kinds in run["processes"].items()}
    figure = Bars(
        id="profile",
        title=f"Processor time of {run['requests']:,} requests of the guessing model, Ray counted",
        categories=tuple(stage for stage in STAGES if stage in stages),
        series=tuple(
            Series(
                label=group,
                values=tuple(1000 * stages[stage][group] / run["requests"] for stage in STAGES if stage in stages),
            )
            for group in GROUPS
        ),
        y_label="ms a request",
        stacked=True,
        percent=False,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_svg_bytes(figure))


def sums_by_group(kinds: Mapping[str, float]) -> Counter[str]:
    """Return seconds by group of processes."""
    sums: Counter[str] = Counter()
    for kind, seconds in kinds.items():
        group = next(
            (group for group, patterns in GROUPS.items() if any(word in kind for word in patterns)), "Ray's services"
        )
        sums[group] += seconds
    return sums


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", default="10000,100000", help="sizes, comma-separated; 1000000 takes long")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--draw", type=Path, help="draw the last run into this SVG file")
    parser.add_argument("--all-stages", action="store_true", help="send all through replicas, as for other models")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_process(args.measure, args.replicas, all_stages=args.all_stages)))
        return
    sizes = [int(size) for size in args.requests.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            write_many(Path(folder, str(size)), max(1, size // PER_GROUP), size)
        runs: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
        for turn in range(args.runs):
            for size in sizes:
                command = [sys.executable, "-m", "tests.bench.pipeline", "--measure", f"{folder}/{size}"]
                command += ["--replicas", str(args.replicas), *["--all-stages"] * args.all_stages]
                process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
                runs[size].append(json.loads(process.stdout.splitlines()[-1]))
                print(f"run {turn + 1}, {size}: {runs[size][-1]}", flush=True)
    if args.draw:
        draw(runs[sizes[-1]][-1], args.draw)
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


EVERY_S = 0.25


@dataclass(slots=True)
class Usage:
    """What was used."""

    cpu_s: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Seconds by phase and kind of process."""
    driver_mb: list[float] = field(default_factory=list)
    """Resident size of this process at each look."""

    @property
    def total_s(self) -> float:
        """All seconds."""
        return sum(self.cpu_s.values())

    def by_phase(self) -> dict[str, dict[str, float]]:
        """Return the seconds of each kind of process in each phase, the largest first."""
        table: dict[str, dict[str, float]] = {}
        for (phase, kind), seconds in self.cpu_s.most_common():
            if seconds >= 0.05:
                table.setdefault(phase, {})[kind] = round(seconds, 2)
        return table


def kind_of(process: psutil.Process) -> str:
    """Return what a process is for: the driver, a task or part of Ray, a decoder."""
    if process.pid == os.getpid():
        return "driver"
    command = process.cmdline()
    if not command:
        return "ended"
    if command[0].startswith("ray::"):
        return re.sub(r"\(MapWorker\(", "(", command[0].partition(" ")[0].removeprefix("ray::"))
    command_line = " ".join(command)
    if "decode_worker" in command_line:
        return "decoder"
    return next(
        (name for name in ("gcs_server", "raylet", "log_monitor", "runtime_env", "dashboard", "default_worker")
         if name in command_line.partition(" --")[0]),
        "other",
    )  # fmt: skip


@contextmanager
def used(phase: Callable[[], str] = lambda: "") -> Iterator[Usage]:
    """Yield what is used within the block; `phase` names what runs at the moment.

    A process that begins and ends between two looks is missed, and the last quarter of a second of any other.
    """
    driver, usage, seen = psutil.Process(), Usage(), dict[tuple[int, float], float]()
    done = threading.Event()

    def look(*, first: bool = False) -> None:
        usage.driver_mb.append(driver.memory_info().rss / 2**20)
        for process in (driver, *driver.children(recursive=True)):
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
                kind = kind_of(process)
            except psutil.NoSuchProcess:
                continue
            seconds = times.user + times.system
            if not first:
                usage.cpu_s[phase(), kind] += seconds - seen.get(key, 0.0)
            seen[key] = seconds

    def loop() -> None:
        while not done.wait(EVERY_S):
            look()

    look(first=True)
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        done.set()
        thread.join()
        look()

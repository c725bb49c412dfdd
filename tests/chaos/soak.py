"""A long sweep with repeated kills: `python -m tests.chaos.soak --requests 1000000 --kill-every 60`.

The `random` engine answers; each `kill-every` seconds of answering, in turn, a task that answers is killed (the run
goes on) or the run itself (the same command is given again). At the end every request of the plan must be there once.
What the driver holds in memory and what lies in the object store is looked at all the while; both should stay flat.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow.parquet as pq

from tests.bench.many import write_many
from tests.chaos.processes import REPLICA, ending, named, wait_until_gone
from tests.chaos.sweeps import environment, parts
from tests.chaos.table import RESULTS, read_results, write_results

PER_GROUP = 180
LOOK_S = 1.0
DIE_S = 60
KEPT_SAMPLES = 60


@dataclass(slots=True)
class Soak:
    """A running soak."""

    folder: Path
    short: Path
    """Temporary files of the runs; a short name."""
    kill_every: float
    replicas: int
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    samples: list[tuple[float, float, float, int]] = field(default_factory=list)
    """Seconds since the beginning; MB of the driver; MB and number of objects in the object store."""
    began: float = field(default_factory=time.monotonic)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def start(self) -> subprocess.Popen[bytes]:
        """Give the command."""
        self.starts += 1
        models = self.folder / "models.yaml"
        models.write_text(f"chance: {{engine: scripted, replicas: {{max: {self.replicas}}}}}\n")
        command = [
            *(sys.executable, "-m", "jobs.cli", "predict", "--models", "chance", "--models-file", str(models)),
            *("--benchmarks", "maia", "--settings", "1-frame"),
            *("--data", str(self.folder / "data"), "--out", str(self.out)),
        ]
        with (self.folder / "log").open("ab") as log:
            env = {**environment(self.folder), "TMPDIR": str(self.short)}
            return subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def until_done(self) -> None:
        """Run, kill, run again, to the end."""
        while (code := self._once()) is None:
            pass
        assert code == 0, (self.folder / "log").read_text()[-3000:]

    def _once(self) -> int | None:
        """Run the sweep once; return its exit code, or None if it was killed."""
        process = self.start()
        before, answering = self._written(), 0.0
        with ending(process):
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(LOOK_S)
                if not answering:
                    answering = time.monotonic() if self._written() > before else 0.0
                    continue
                self._look(process.pid)
                if time.monotonic() - answering >= self.kill_every:
                    answering = time.monotonic()
                    if self._kill(process):
                        return None

    def _kill(self, process: subprocess.Popen[bytes]) -> bool:
        """Kill a replica or the run, in turn; return whether it was the run."""
        replicas = named(process.pid, REPLICA)
        if self.kills.total() % 2 == 0 and replicas:
            self.kills["replica"] += 1
            os.kill(replicas[self.kills.total() % len(replicas)], signal.SIGKILL)
            return False
        self.kills["driver"] += 1
        process.kill()
        process.wait()
        wait_until_gone(replicas, DIE_S)
        return True

    def _written(self) -> int:
        folder = self.out / "predictions"
        return sum(1 for _ in folder.rglob("*.parquet")) if folder.exists() else 0

    def _look(self, pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            driver = psutil.Process(pid).memory_info().rss / 2**20
            size, count = self._store()
            self.samples.append((round(time.monotonic() - self.began, 1), round(driver, 1), round(size, 3), count))

    def _store(self) -> tuple[float, int]:
        """Return MB and number of objects in the object store, from the dump that Ray writes every ten seconds."""
        dumps = sorted(self.short.glob("vlmsweep-*/*/session_2*/logs/debug_state.txt"), key=lambda p: p.stat().st_mtime)
        text = dumps[-1].read_text() if dumps else ""
        size = re.search(r"pinned objects size: (\d+)", text)
        count = re.search(r"num local plasma objects: (\d+)", text)
        return int(size[1]) / 2**20 if size else 0.0, int(count[1]) if count else 0


def summary(soak: Soak, planned: int) -> dict[str, Any]:
    """Summarize rows by id, and memory over time."""
    counts: Counter[str] = Counter()
    bad = 0
    for part in parts(soak.out):
        table = pq.ParquetFile(part).read(["request_id", "status"])
        counts.update(table["request_id"].to_pylist())
        bad += sum(status != "ok" for status in table["status"].to_pylist())
    step = max(1, len(soak.samples) // KEPT_SAMPLES)
    return {
        "requests": planned,
        "seconds": round(time.monotonic() - soak.began),
        "kill_every_s": soak.kill_every,
        "kills": soak.kills.total(),
        "killed": dict(soak.kills),
        "runs": soak.starts,
        "lost": planned - len(counts),
        "doubled": counts.total() - len(counts),
        "not_ok": bad,
        "driver_mb": over_time([driver for _, driver, _, _ in soak.samples]),
        "store_mb": over_time([size for _, _, size, _ in soak.samples]),
        "store_objects": over_time([count for _, _, _, count in soak.samples]),
        "samples": soak.samples[::step],
    }


def over_time(values: list[float] | list[int]) -> dict[str, float]:
    """Return first, median, last and largest value; first and last are medians of a tenth of the values."""
    tenth = max(1, len(values) // 10)
    return {
        "first": median(values[:tenth]),
        "median": median(values),
        "last": median(values[-tenth:]),
        "most": max(values),
    }


def main() -> int:
    """Soak; return 0 when nothing was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds of answering")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    short = Path(tempfile.mkdtemp(prefix="vsk-", dir="/tmp"))  # Ray's sockets want short names
    try:
        with tempfile.TemporaryDirectory(prefix="vlmsweep-soak-") as folder:
            planned = write_many(Path(folder, "data"), max(1, options.requests // PER_GROUP), options.requests)
            soak = Soak(Path(folder), short, options.kill_every, options.replicas)
            soak.until_done()
            outcome = summary(soak, planned)
    finally:
        shutil.rmtree(short, ignore_errors=True)
    results = read_results(options.results)
    results["soak"] = outcome
    write_results(results, options.results)
    for name in ("requests", "seconds", "killed", "runs", "lost", "doubled", "not_ok"):
        sys.stdout.write(f"{name}: {outcome[name]}\n")
    for name in ("driver_mb", "store_mb", "store_objects"):
        values = ", ".join(f"{when} {value:g}" for when, value in outcome[name].items())
        sys.stdout.write(f"{name}: {values}\n")
    return 1 if outcome["lost"] or outcome["doubled"] or outcome["not_ok"] else 0


if __name__ == "__main__":
    sys.exit(main())

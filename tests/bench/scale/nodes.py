"""A sweep of the guessing model on a real Ray with many small nodes on this machine: planning and draining.

    python -m tests.bench.scale.nodes --nodes 64 --requests 1000000

Every node is a raylet with its agents, about 130 MB, and one CPU by Ray's count; nodes join while 5 GB stay free.
Wall times are those of one machine that plays all nodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.bench.many import PER_SAMPLE, write_many
from tests.support.paths import ROOT
from tests.support.ray_head import RayHead, ray_head

PER_GROUP = 216
RESERVE_MB = 5000
START_S = 300
SETTINGS = {
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_health_check_period_ms": "20000",
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_metrics_report_interval_ms": "60000",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",
}
"""A busy machine starts slowly, and its nodes report late. They share its memory, which each of them would watch four
times a second, and its cores, of which workers would get less than the nodes themselves."""


def join_nodes(head: RayHead, count: int, *resources: str) -> int:
    """Start nodes of one CPU one after another; return how many joined before memory became scarce."""
    for number in range(count):
        if psutil.virtual_memory().available / 2**20 < RESERVE_MB:
            return number
        # One log monitor, the head's, is enough for a machine; a command that waits for its node to end costs 120 MB.
        flags = ("--num-cpus=1", "--object-store-memory=80000000", "--include-log-monitor=false", *resources)
        log = f"node-{len(head.processes)}.log"
        node = head.start(f"--address=127.0.0.1:{head.gcs}", *flags, log=log, block=False)
        if node.wait(START_S):
            raise RuntimeError((head.folder / log).read_text())
        print(f"  {number + 1} nodes, {psutil.virtual_memory().available / 2**20:.0f} MB free", flush=True)
    return count


def run_sweep(
    head: RayHead,
    data: Path,
    out: Path,
    models: Mapping[str, Any],
    *flags: str,
    look: Callable[[psutil.Process], None] = lambda _driver: None,
) -> dict[str, float]:
    """Predict with all models and call `look` twice a second; return seconds and the driver's largest resident size."""
    file = out.parent / "models.yaml"
    file.write_text(json.dumps(models))
    command = [
        *(sys.executable, "-m", "jobs.cli", "predict", "--models-file", str(file), "--models", ",".join(models)),
        *(*flags, "--data", str(data), "--out", str(out), "--address", f"127.0.0.1:{head.gcs}"),
    ]
    start, peak, planned = time.monotonic(), 0.0, 0.0
    process = subprocess.Popen(command, env={**head.env, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    while process.poll() is None:
        try:
            driver = psutil.Process(process.pid)
            peak = max(peak, driver.memory_info().rss / 2**20)
            look(driver)
        except psutil.NoSuchProcess:
            break
        if not planned and pending(out) is not None:
            planned = time.monotonic() - start
        time.sleep(0.5)
    if process.wait():
        raise RuntimeError(f"the sweep ended with {process.returncode}")
    return {"planned_s": planned, "seconds": time.monotonic() - start, "driver_mb": peak}


def pending(out: Path) -> int | None:
    """Return the requests that have no answer yet; None before the run counts them."""
    try:
        cells = json.loads((out / "status.json").read_bytes())["cells"]
    except (FileNotFoundError, ValueError):
        return None
    return sum(cell["pending"] + cell["running"] for cell in cells)


def main() -> None:
    """Start the nodes, run the sweep, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--replicas", type=int, default=1, help="24 concurrent tasks each")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        data = Path(folder, "data")
        requests = write_many(data, max(1, args.requests // PER_GROUP), args.requests)
        print(f"{requests} requests, {requests // PER_SAMPLE} questions", flush=True)
        with ray_head("--num-cpus=1", env=SETTINGS) as head:
            joined = join_nodes(head, args.nodes)
            models = {"chance": {"engine": "random", "replicas": {"max": args.replicas}}}
            flags = ("--benchmarks", "maia", "--settings", "1-frame")
            result = run_sweep(head, data, Path(folder, "out"), models, *flags)
    print(json.dumps({"nodes": joined, "requests": requests, "load": psutil.getloadavg()[0], **result}, indent=1))


if __name__ == "__main__":
    main()

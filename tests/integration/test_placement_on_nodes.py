"""Replicas on nodes of different sizes: small ones leave large nodes to the models that need them."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.connection import connect, temporary_environment
from pipelines.predict.executor import run_units
from pipelines.predict.records import Receipt
from tests.integration.test_replica_faults import job_of
from tests.support.paths import ROOT
from tests.support.ray_head import RayHead, ray_head
from tests.support.scripted_engine import FaultInjection


def join(head: RayHead, gpus: int, *more: str) -> None:
    """Start a node that counts GPUs which are not there."""
    flags = ("--num-cpus=1", f"--num-gpus={gpus}", "--object-store-memory=80000000", "--include-log-monitor=false")
    log = f"node-{time.monotonic_ns()}.log"
    node = head.start(f"--address=127.0.0.1:{head.gcs}", *flags, *more, log=log, block=False)
    assert node.wait(240) == 0, (head.folder / log).read_text()


def used_gpus() -> dict[int, float]:
    """Return the GPUs in use, some of them in part, on the node of eight, and on all nodes of one together."""
    import ray
    from ray._private.state import available_resources_per_node

    free, used = available_resources_per_node(), {8: 0.0, 1: 0.0}
    for node in ray.nodes():
        if gpus := int(node["Resources"].get("GPU", 0)):
            used[gpus] += math.ceil(gpus - free.get(node["NodeID"], {}).get("GPU", 0.0))
    return used


@contextmanager
def watched() -> Iterator[dict[int, float]]:
    """Yield the most GPUs that were in use at once on nodes of each size, within a block."""
    peak, stop = {8: 0.0, 1: 0.0}, threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            for size, used in used_gpus().items():
                peak[size] = max(peak[size], used)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_replicas_start_on_the_nodes_that_they_are_planned_on(maia_data: str, tmp_path: Path) -> None:
    """Selected by their label where all have it, else by their ids; Ray alone spreads them over all nodes.

    Four that share a GPU take one, and leave the other whole.
    """
    with ray_head("--num-cpus=2", "--num-gpus=0") as head:
        join(head, 8, "--labels=pool=gpu8")
        join(head, 1, "--labels=pool=gpu1")
        with temporary_environment(head.env), connect(f"127.0.0.1:{head.gcs}") as cluster:
            planned = replace(cluster, is_shared=True, gpus=2.0, node_sizes=(1,))
            for name, replicas, per_gpu in (("label", 1, 1), ("ids", 2, 1), ("shares", 4, 4)):
                if name == "ids":
                    join(head, 1)
                job = job_of(maia_data, tmp_path / name, replicas=replicas, call_s=0.01, units=2 * replicas)
                faults = FaultInjection(on_gpu=True, call_s=0.01)
                receipts: list[Receipt] = []
                while any(used_gpus().values()):  # Ray frees GPUs a moment after the replicas of the last job ended
                    time.sleep(0.1)
                with watched() as peak:
                    changes = {"fault_injection": faults, "replicas_per_gpu": per_gpu}
                    job = replace(job, spec=job.spec.model_copy(update=changes))
                    run_units(job, replace(planned, gpus=replicas / per_gpu), receipts.append)
                assert len({receipt.part for receipt in receipts}) == 2 * replicas
                assert peak == {8: 0.0, 1: replicas / per_gpu}


CLUSTER = """
import sys
from pathlib import Path
from tests.support import fake_autoscaler as bench
import os
folder = Path(sys.argv[1])
with bench.cluster_from_zero(folder, 0.1) as head:
    os.environ.update({name: head.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME")})
    samples = bench.watched(head, folder, videos=6)
first, last = samples[0], samples[-1]
assert not first.nodes and not last.nodes, (first, last)
most = {kind: max(sample.nodes[kind] for sample in samples) for kind in bench.KINDS}
assert 1 <= most["gpu1"] <= bench.MOST["gpu1"] and most["gpu4"] == 1, most
assert most["cpu"] <= bench.MOST["cpu"], most
both = [sample for sample in samples if len(sample.running_models) == 2]
assert any(sample.nodes["gpu1"] and sample.nodes["gpu4"] for sample in both), "no nodes for both at once"
"""


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_autoscaler_adds_nodes_for_two_models_and_removes_them(tmp_path: Path) -> None:
    """In a process of its own: Ray joins one cluster a process, and its token is read once."""
    root = ROOT
    run = subprocess.run([sys.executable, "-c", CLUSTER, str(tmp_path)], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    parts = (tmp_path / "out").glob("predictions/*/*/*.parquet")
    rows = [row for part in parts for row in pq.ParquetFile(part).read(["request_id", "model", "status"]).to_pylist()]
    assert Counter((row["model"], row["status"]) for row in rows) == {("small", "ok"): 384, ("large", "ok"): 384}
    assert len({row["request_id"] for row in rows}) == len(rows)

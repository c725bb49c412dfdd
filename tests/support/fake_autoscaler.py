"""A sweep over two models scales fake nodes up from zero and down to zero again.

Ray's own autoscaler over its fake node provider: real raylets on this machine that claim GPUs which are not there. The
sweep is `vlmsweep run` on two models whose replicas need one GPU and four.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.connection import MAX_NODES_LABEL
from pipelines.predict.status import read_status
from pipelines.storage.store import Store
from tests.chaos.processes import ending
from tests.support.maia_source import write_source
from tests.support.ray_head import RayHead, free_ports, ray_head

KINDS = {"cpu": 0, "gpu1": 1, "gpu4": 4}
"""Fake node types by their GPUs."""
MOST = {"cpu": 2, "gpu1": 2, "gpu4": 1}
MODELS = {"small": "gpu1", "large": "gpu4"}
"""Models by the kind of node that one replica fills."""
PATIENCE_S = 1000
LISTS = (
    *("rsync_exclude", "rsync_filter", "cluster_synced_files", "initialization_commands", "setup_commands"),
    *("head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"),
)


def config(idle_minutes: float, gcs: int) -> dict[str, Any]:
    """Return an autoscaler configuration: a head without work, workers from zero."""
    workers = {
        kind: {
            "resources": {"CPU": 4 if gpus else 8, "GPU": gpus, kind: 1, "object_store_memory": 100 << 20},
            "node_config": {},
            "min_workers": 0,
            "max_workers": MOST[kind],
        }
        for kind, gpus in KINDS.items()
    }
    head = {"resources": {"CPU": 0, "object_store_memory": 150 << 20}, "node_config": {}, "max_workers": 0}
    return {
        "cluster_name": "fake",
        "max_workers": sum(MOST.values()),
        "provider": {
            "type": "fake_multinode",
            "gcs_address": f"127.0.0.1:{gcs}",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {**workers, "ray.head.default": head},
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": idle_minutes,
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in LISTS},
    }


@dataclass(frozen=True)
class Sample:
    """The cluster at one moment."""

    nodes: Counter[str]
    """By kind."""
    running_models: frozenset[str]
    """Models with requests in flight."""


def look(out: Path) -> Sample:
    """Sample nodes and running models."""
    import ray

    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    kinds = (next((kind for kind in KINDS if kind in has), "") for has in alive)
    cells = read_status(Store(str(out))).get("cells", [])
    return Sample(
        nodes=Counter(kind for kind in kinds if kind),
        running_models=frozenset(cell["model"] for cell in cells if cell["running"]),
    )


def begin(head: RayHead, folder: Path, out: Path, videos: int) -> subprocess.Popen[bytes]:
    """Start the sweep on a cluster that has no GPU node yet."""
    data, source = folder / "data", write_source(folder / "source", videos=videos, categories=4)
    # Ray only counts these GPUs, and a model that computes would be refused on them: the models guess.
    common = "engine: scripted, parameters_b: 1, fault_injection: {on_gpu: true, call_s: 0.1}"
    models = folder / "models.yaml"
    models.write_text(
        "".join(
            f"{name}: {{{common}, tensor_parallel: {KINDS[kind]}, replicas: {{max: {MOST[kind]}}}}}\n"
            for name, kind in MODELS.items()
        )
    )
    cli = (sys.executable, "-m", "jobs.cli")
    subprocess.run([*cli, "ingest", "maia", str(source), "--data", str(data)], check=True, capture_output=True)
    flags = ("--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame", "--address", f"127.0.0.1:{head.gcs}")
    command = [*cli, "run", "--models", ",".join(MODELS), "--models-file", str(models), *flags]
    with (folder / "sweep.log").open("wb") as log:
        where = ["--data", str(data), "--out", str(out)]
        return subprocess.Popen([*command, *where], env=head.env, stdout=log, stderr=log)


def watched(head: RayHead, folder: Path, videos: int) -> list[Sample]:
    """Run the sweep on a cluster from zero; sample it until its last node is removed."""
    import ray

    out, samples = folder / "out", list[Sample]()
    ray.init(address=f"127.0.0.1:{head.gcs}", logging_level="error", log_to_driver=False)
    try:
        process = begin(head, folder, out, videos)
        started = time.monotonic()
        with ending(process):
            while process.poll() is None or samples[-1].nodes:
                samples.append(look(out))
                assert time.monotonic() - started < PATIENCE_S, (folder / "sweep.log").read_text()
                time.sleep(0.5)
        assert process.returncode == 0, (folder / "sweep.log").read_text()
        samples.append(look(out))
    finally:
        ray.shutdown()
    return samples


@contextmanager
def cluster_from_zero(folder: Path, idle_minutes: float) -> Iterator[RayHead]:
    """Yield a head without work, whose autoscaler starts the other nodes."""
    max_gpu_nodes = "_".join(f"{MOST[kind]}x{gpus}" for kind, gpus in KINDS.items() if gpus)
    env = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "0"}
    (gcs,) = free_ports(1)
    (folder / "autoscaler.json").write_text(json.dumps(config(idle_minutes, gcs)))
    flags = (
        "--num-cpus=0",
        f"--labels={MAX_NODES_LABEL}={max_gpu_nodes}",
        f"--autoscaling-config={folder}/autoscaler.json",
    )
    with ray_head(*flags, env=env, gcs=gcs) as head:
        yield head

"""`python -m tests.bench.autoscaling`: a sweep over two models scales fake nodes up from zero and down to zero again.

Ray's own autoscaler over its fake node provider: real raylets on this machine that claim GPUs which are not there. Two
models whose replicas need one GPU and four; the engine is the random one, slowed down, so that only the scaling is
looked at. Prints when nodes came and went, node-seconds against the ideal, and draws the trace.
Not part of `make test`: it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.jobs import JobApi, JobOrder
from tests.support.ray_head import free_ports, ray_head

KINDS = {"gpu1": 1, "gpu4": 4}
"""Fake node types by their GPUs."""
LISTS = (
    *("rsync_exclude", "rsync_filter", "cluster_synced_files", "initialization_commands", "setup_commands"),
    *("head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"),
)


def config(idle_minutes: float, gcs: int) -> dict[str, Any]:
    """The autoscaler's configuration: a head without GPUs, workers from zero."""
    workers = {
        kind: {
            "resources": {"CPU": 1, "GPU": gpus, kind: 1, "object_store_memory": 100 << 20},
            "node_config": {},
            "min_workers": 0,
            "max_workers": 2 if gpus == 1 else 1,
        }
        for kind, gpus in KINDS.items()
    }
    head = {"resources": {"CPU": 2, "object_store_memory": 150 << 20}, "node_config": {}, "max_workers": 0}
    return {
        "cluster_name": "fake",
        "max_workers": 3,
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


@dataclass
class Trace:
    """Nodes by kind over time, seconds from the start of the sweep."""

    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)

    def node_seconds(self, kind: str) -> float:
        """Seconds that nodes of a kind were there."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(before[1].get(kind, 0) * (after[0] - before[0]) for before, after in pairs)


def watch(trace: Trace, start: float, stop: threading.Event) -> None:
    """Sample the nodes that are alive, four times a second."""
    import ray

    while not stop.is_set():
        alive = [node for node in ray.nodes() if node["Alive"]]
        kinds = Counter(kind for node in alive for kind in KINDS if kind in node["Resources"])
        trace.samples.append((time.monotonic() - start, dict(kinds)))
        stop.wait(0.25)


def pool(gpus: int, units: int, seconds: float, replicas: int) -> int:
    """What a sweep does for one model: units through a pool of replicas that reserve GPUs."""
    import ray.data as rd

    from pipelines.execute import quiet_ray_data

    class Replica:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            time.sleep(seconds)
            return batch

    quiet_ray_data()
    data = rd.from_items([{"unit": i} for i in range(units)], override_num_blocks=units)
    strategy = rd.ActorPoolStrategy(min_size=1, max_size=replicas, initial_size=replicas)
    done = data.map_batches(Replica, batch_size=1, num_gpus=gpus, compute=strategy)
    return sum(1 for _ in done.iter_rows())


def sweep(trace: Trace, address: str) -> None:
    """One model after the other, as a sweep takes them, watched until the last node is gone."""
    import ray

    ray.init(address=address, logging_level="error", log_to_driver=False)
    start, stop = time.monotonic(), threading.Event()
    watcher = threading.Thread(target=watch, args=(trace, start, stop))
    watcher.start()
    try:
        for name, gpus, units, seconds, replicas in MODELS:
            trace.marks.append((time.monotonic() - start, f"{name} begins"))
            assert pool(gpus, units, seconds, replicas) == units
            trace.marks.append((time.monotonic() - start, f"{name} ends"))
        deadline = time.monotonic() + 180
        while any(trace.samples[-1][1].values()):
            assert time.monotonic() < deadline, "nodes stay"
            time.sleep(0.5)
        trace.marks.append((time.monotonic() - start, "all nodes gone"))
        time.sleep(1)
    finally:
        stop.set()
        watcher.join()
        ray.shutdown()


MODELS = (("small (1 GPU)", 1, 12, 2.0, 2), ("large (4 GPUs)", 4, 6, 2.0, 1))
"""name, GPUs a replica, units, seconds a unit, replicas."""


def told(trace: Trace) -> str:
    """What came and went, and the node-seconds."""
    lines = [f"{when:7.1f} s  {what}" for when, what in trace.marks]
    for (name, gpus, units, seconds, _), kind in zip(MODELS, KINDS, strict=True):
        ideal, paid = units * seconds, trace.node_seconds(kind)
        most = max(sample[1].get(kind, 0) for sample in trace.samples)
        lines.append(
            f"{kind}: {most} nodes at most, {paid:.0f} node-seconds for {ideal:.0f} of work on {name} ({gpus} GPUs): "
            f"{paid / ideal:.1f} x the ideal"
        )
    return "\n".join(lines)


def draw(trace: Trace, path: Path) -> None:
    """The trace as a figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
    for kind, gpus in KINDS.items():
        times = [when for when, _ in trace.samples]
        axes.step(times, [counts.get(kind, 0) for _, counts in trace.samples], where="post", label=f"{gpus} GPU nodes")
    for when, what in trace.marks:
        axes.axvline(when, color="0.7", linewidth=0.8)
        axes.text(when, axes.get_ylim()[1], what, rotation=90, va="top", ha="right", fontsize=7, color="0.4")
    axes.set(xlabel="seconds", ylabel="nodes", title="Nodes of a sweep over two models, from zero to zero")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="center right", frameon=False)
    figure.savefig(path)
    plt.close(figure)


def inside(figure: Path) -> None:
    """The driver: runs as a job of the cluster, as a sweep does."""
    trace = Trace()
    sweep(trace, os.environ["RAY_ADDRESS"])
    draw(trace, figure)
    figure.with_suffix(".txt").write_text(told(trace) + "\n")


def main() -> int:
    """Start the cluster, run the driver in it, show what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("bench-results/autoscaling.svg"))
    parser.add_argument("--idle-minutes", type=float, default=0.25)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.figure)
        return 0
    figure = given.figure.resolve()
    figure.parent.mkdir(parents=True, exist_ok=True)
    env = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "0"}
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "autoscaler.json")
        (gcs,) = free_ports(1)
        settings.write_text(json.dumps(config(given.idle_minutes, gcs)))
        with ray_head("--num-cpus=2", f"--autoscaling-config={settings}", env=env, gcs=gcs) as head:
            os.environ.update({name: head.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME")})
            api = JobApi(head.url)
            (Path(folder) / "empty").mkdir()
            order = JobOrder(
                entrypoint=f"{sys.executable} -m tests.bench.autoscaling --inside --figure {figure}",
                folder=Path(folder) / "empty",
                env={"PYTHONPATH": str(Path(__file__).parents[2])},
                submission_id="autoscaling",
                once=True,
            )
            job, _ = api.submit(order)
            # The log tells of every fake node that goes as of a crash; it is kept, and shown when something is wrong.
            said: list[str] = []
            end = api.follow(job, pending_s=300, write=said.append)
    if end.status != "SUCCEEDED":
        sys.stdout.write("".join(said) + end.message + "\n")
        return 1
    sys.stdout.write(figure.with_suffix(".txt").read_text() + f"figure: {figure}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

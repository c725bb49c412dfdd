"""`python -m tests.bench.autoscaling`: a sweep over two models scales fake nodes up from zero and down to zero again.

Ray's own autoscaler over its fake node provider: real raylets on this machine that claim GPUs which are not there. The
sweep is `vlmsweep run` on two models whose replicas need one GPU and four, small random weights that compute on the
processor. Prints when nodes and models came and went, node-seconds against those in which a loaded replica was there,
and draws nodes and queue over time. `make test-slow` does it with fewer clips.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.autoscaling import MAX_NODES_LABEL
from pipelines.predict.status import read_status
from pipelines.storage.store import Store
from tests.support.maia_source import write_source
from tests.support.ray_head import RayHead, free_ports, ray_head

KINDS = {"cpu": 0, "gpu1": 1, "gpu4": 4}
"""Fake node types by their GPUs."""
MOST = {"cpu": 2, "gpu1": 2, "gpu4": 1}
MODELS = {"small": "gpu1", "large": "gpu4"}
"""Models by the kind of node that one replica fills."""
VIDEOS = 12
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

    second: float
    nodes: Counter[str]
    """By kind."""
    replicas: Counter[str]
    """Loaded replicas, by kind of their node."""
    parts: Counter[str]
    """Committed, by model."""
    running_models: frozenset[str]
    """Models with requests in flight."""


@dataclass
class Trace:
    """Samples, seconds from the start of the sweep."""

    samples: list[Sample] = field(default_factory=list)

    def seconds(self, of: Callable[[Sample], int]) -> float:
        """Integrate a count over time."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(of(before) * (after.second - before.second) for before, after in pairs)

    def marks(self) -> list[tuple[float, str]]:
        """Return when each model began and ended."""
        results = []
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            results += [
                (after.second, f"{name} begins") for name in sorted(after.running_models - before.running_models)
            ]
            results += [(after.second, f"{name} ends") for name in sorted(before.running_models - after.running_models)]
        return results

    def queue(self, model: str) -> list[int]:
        """Return a model's uncommitted units at each sample; the total is known at the end."""
        return [self.samples[-1].parts[model] - sample.parts[model] for sample in self.samples]


def look(url: str, out: Path, started: float) -> Sample:
    """Sample nodes, loaded replicas, committed parts and running models."""
    import ray
    from ray.util.state import list_actors

    alive = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
    kinds = {name: next((kind for kind in KINDS if kind in has), "") for name, has in alive.items()}
    actors = list_actors(address=url, limit=1000, filters=[("class_name", "=", "MapWorker(MapBatches(EngineActor))")])
    parts = Counter(part.parent.name.removeprefix("model=") for part in out.glob("predictions/*/*/*.parquet"))
    cells = read_status(Store(str(out))).get("cells", [])
    return Sample(
        second=time.monotonic() - started,
        nodes=Counter(kind for kind in kinds.values() if kind),
        replicas=Counter(kinds.get(actor.node_id or "", "") for actor in actors if actor.state == "ALIVE"),
        parts=parts,
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


def watched(head: RayHead, folder: Path, videos: int = VIDEOS) -> Trace:
    """Run the sweep on a cluster from zero; sample it until its last node is removed."""
    import ray

    out, trace = folder / "out", Trace()
    ray.init(address=f"127.0.0.1:{head.gcs}", logging_level="error", log_to_driver=False)
    try:
        process = begin(head, folder, out, videos)
        started = time.monotonic()
        try:
            while process.poll() is None or trace.samples[-1].nodes:
                trace.samples.append(look(head.url, out, started))
                assert time.monotonic() - started < PATIENCE_S, (folder / "sweep.log").read_text()
                time.sleep(0.5)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, (folder / "sweep.log").read_text()
        trace.samples.append(look(head.url, out, started))
    finally:
        ray.shutdown()
    return trace


def summarize(trace: Trace) -> str:
    """Describe when models ran, and the node-seconds of each kind of node."""
    last = trace.samples[-1].second
    lines = [f"{when:7.1f} s  {what}" for when, what in (*trace.marks(), (last, "all nodes removed"))]
    for model, kind in MODELS.items():
        loaded_s, node_s = trace.seconds(lambda s, k=kind: s.replicas[k]), trace.seconds(lambda s, k=kind: s.nodes[k])
        most = max(sample.nodes[kind] for sample in trace.samples)
        lines.append(
            f"{kind}: {most} nodes at most, {node_s:.0f} node-seconds, {loaded_s:.0f} of them with {model!r} loaded "
            f"({KINDS[kind]} GPUs): {node_s / loaded_s:.2f} x the ideal"
        )
    return "\n".join(lines)


def draw(trace: Trace, path: Path) -> None:
    """Draw the trace: nodes above, pending units below."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (nodes, queue) = plt.subplots(2, figsize=(9, 5), sharex=True, constrained_layout=True)
    times = [sample.second for sample in trace.samples]
    for number, (kind, gpus) in enumerate(KINDS.items()):
        counts = [sample.nodes[kind] + 0.03 * (number - 1) for sample in trace.samples]  # so that no line hides another
        nodes.step(times, counts, f"C{number}", where="post", label=f"of {gpus} GPU{'s' * (gpus != 1)}")
    for model, kind in MODELS.items():
        colour = f"C{list(KINDS).index(kind)}"
        queue.step(times, trace.queue(model), colour, where="post", label=f"{model!r}, {KINDS[kind]} a replica")
    for when in {round(when, 1) for when, _ in trace.marks()}:
        what = " and ".join(mark for other, mark in trace.marks() if round(other, 1) == when)
        for axes in (nodes, queue):
            axes.axvline(when, color="0.8", linewidth=0.8)
        queue.text(when, queue.get_ylim()[1], f" {what} ", rotation=90, va="top", ha="right", fontsize=7, color="0.4")
    nodes.set(ylabel="nodes", title="A sweep over two models on a cluster that starts with no GPU")
    queue.set(xlabel="seconds since the sweep was begun", ylabel="units that wait")
    for axes in (nodes, queue):
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path)
    plt.close(figure)


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


def main() -> int:
    """Start the cluster, run the sweep on it, show what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("bench-results/autoscaling.svg"))
    parser.add_argument("--idle-minutes", type=float, default=0.25)
    options = parser.parse_args()
    figure = options.figure.resolve()
    figure.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, cluster_from_zero(Path(name), options.idle_minutes) as head:
        os.environ.update({name: head.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME")})
        trace = watched(head, Path(name))
    draw(trace, figure)
    sys.stdout.write(f"{summarize(trace)}\nfigure: {figure}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

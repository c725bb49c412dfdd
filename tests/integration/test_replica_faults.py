"""A fault of one replica, its load or its device costs neither the other replicas nor a row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cluster.connection import ClusterInfo, connect, temporary_environment
from pipelines.media.recent_frames import FrameSource
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.units import WorkUnit
from pipelines.predict import executor
from pipelines.predict.executor import run_units
from pipelines.predict.loader import UNGUARDED, Loaded, Loader, MediaGuard, UnitLoaderSpec
from pipelines.predict.records import Job, Receipt
from pipelines.predict.stage import model_job
from tests.bench.many import write_many
from tests.chaos.processes import ending, named
from tests.chaos.sweeps import in_hand, parts, read_answers, read_rows
from tests.integration.conftest import Cli
from tests.integration.test_poisoned_requests import predictions
from tests.support.checkpoints import build_tiny
from tests.support.ray_head import RayHead, ray_head
from tests.support.scripted_engine import FaultInjection, scripted


@dataclass(frozen=True, kw_only=True)
class PausingLoaderSpec(UnitLoaderSpec):
    """Loaders that write when they begin and end, and pause at units after the first few."""

    journal: str = ""
    pause_s: float = 0.0
    load_s: float = 0.0
    meet_s: float = 0.0
    """So long the first load waits for another: loaders start at times of their own."""

    def build(self, frames: FrameSource | None = None) -> Loader:
        return PausingLoader(self, frames)


class PausingLoader(Loader):
    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Loaded:
        spec: PausingLoaderSpec = self._spec  # type: ignore[assignment]
        lines = _begun(spec.journal)
        _write(spec.journal, "begin")
        deadline = time.monotonic() + spec.meet_s
        while _begun(spec.journal) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(spec.load_s + (spec.pause_s if 4 <= lines < 6 else 0.0))
        loaded = super().load(unit, exclusive_groups, guard=guard)
        _write(spec.journal, "end")
        return loaded


def _begun(journal: str) -> int:
    return Path(journal).read_text().count("begin") if Path(journal).exists() else 0


def _write(journal: str, event: str) -> None:
    with Path(journal).open("a") as file:
        file.write(f"{event}\n")


def job_of(data: str, out: Path, *, replicas: int, call_s: float, units: int, **pauses: float) -> Job:
    model = scripted(replicas=replicas, call_s=call_s)
    spec = RunSpec(data=data, out=str(out), models={"m": model}, benchmarks=("maia",))
    context = SweepContext.open(spec)
    job = model_job(context, "m", model, plan_sweep(context)["m"])
    loader = job.loader
    assert isinstance(loader, UnitLoaderSpec)
    pausing = PausingLoaderSpec(
        context=loader.context, targets=loader.targets, journal=str(out.with_suffix(".journal")), **pauses
    )
    parts = [replace(unit, part=f"{unit.part}-{number}") for number in range(units) for unit in job.units[:1]]
    return replace(job, loader=pausing, units=parts)


@pytest.fixture(scope="module")
def gpu_head() -> Iterator[RayHead]:
    """Ray counts two GPUs here, which this machine lacks."""
    with ray_head("--num-cpus=4", "--num-gpus=2") as head:
        yield head


@pytest.mark.slow
def test_gpu_that_fails_twice_is_avoided(gpu_head: RayHead, maia_data: str, tmp_path: Path) -> None:
    """Ray would give the first of two GPUs to each replica that starts alone."""
    job = job_of(maia_data, tmp_path / "out", replicas=1, call_s=0.0, units=3)
    faults = FaultInjection(on_gpu=True, cuda_error_at="0")
    job = replace(job, spec=job.spec.model_copy(update={"fault_injection": faults}))
    receipts: list[Receipt] = []
    with temporary_environment(gpu_head.env), connect(f"127.0.0.1:{gpu_head.gcs}") as cluster:
        run_units(job, replace(cluster, is_shared=True), receipts.append)
    assert len({receipt.part for receipt in receipts}) == 3
    assert {status for receipt in receipts for _, _, status in receipt.counts} == {"ok"}
    assert "data-usage-metrics-poller" not in {thread.name for thread in threading.enumerate()}, "a thread of Ray Data"


@pytest.mark.slow
def test_gpu_that_torch_cannot_use_is_an_error(gpu_head: RayHead, cli: Cli, maia_data: str, tmp_path: Path) -> None:
    """Ray counts a GPU that torch does not see, as where the driver is too old."""
    models = tmp_path / "models.json"
    entry = {"engine": "transformers", "model": str(build_tiny(tmp_path / "checkpoint")), "dtype": "float32"}
    models.write_text(json.dumps({"m": entry}))
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv", "--limit", "1")
    place = ("--data", maia_data, "--out", str(tmp_path / "out"), "--address", f"127.0.0.1:{gpu_head.gcs}")
    result = cli("predict", *flags, "--settings", "1-frame", *place, env=gpu_head.env, code=3)
    assert "it was given 1 GPUs (0) and torch" in result.stderr
    assert not [*(tmp_path / "out").glob("predictions/*/*/*.parquet")]


@pytest.fixture(scope="module")
def local_ray() -> Iterator[ClusterInfo]:
    """The local Ray of the tests below; those above join clusters of their own before it starts."""
    with connect(None) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        ({"cuda_error_once": "FILE"}, 0),
        pytest.param({"fail_load_once": "FILE"}, 0, marks=pytest.mark.full),
        pytest.param({"cuda_error_on": "cosa 3 per Sentiment_A"}, 2, marks=pytest.mark.full),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_fault_costs_no_row_but_those_that_cause_it(
    local_ray: ClusterInfo, inline_cli: Cli, maia_data: str, tmp_path: Path, fault: dict[str, str], failed: int
) -> None:
    del local_ray
    faults = {name: text.replace("FILE", str(tmp_path / "first")) for name, text in fault.items()}
    models, out = tmp_path / "models.json", tmp_path / "out"
    models.write_text(json.dumps({"pair": {"engine": "scripted", "replicas": {"max": 2}, "fault_injection": faults}}))
    flags = ("--models", "pair", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    inline_cli(
        "predict", *flags, "--settings", "1-frame", "--data", maia_data, "--out", str(out), code=1 if failed else 0
    )
    table = predictions(out, "pair")
    assert Counter(table["status"].to_pylist()) == {"ok": 384 - failed} | ({"error": failed} if failed else {})
    assert {*table["error_type"].to_pylist()} - {""} == ({"engine_died"} if failed else set())


@pytest.mark.full
def test_pause_of_the_loaders_ends_no_replica(local_ray: ClusterInfo, maia_data: str, tmp_path: Path) -> None:
    job = job_of(maia_data, tmp_path / "out", replicas=3, call_s=0.01, units=24, pause_s=8.0)
    receipts: list[Receipt] = []
    run_units(job, replace(local_ray, cpus=4.0), receipts.append)
    assert len({receipt.part for receipt in receipts}) == 24
    assert len({receipt.replica for receipt in receipts}) <= 3, "a replica that ended was loaded again"


@pytest.mark.full
def test_more_models_than_cpus_have_several_loaders_each(
    local_ray: ClusterInfo, maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_engine_resources", lambda *_: {"num_cpus": 0})  # as on GPUs, which Ray has none of
    jobs = [
        job_of(maia_data, tmp_path / name, replicas=1, call_s=0.0, units=8, load_s=1.0, meet_s=120.0) for name in "abc"
    ]
    with ThreadPoolExecutor(3) as threads:
        share = replace(local_ray, cpus=2.0, is_shared=True)
        for future in [threads.submit(run_units, job, share, lambda _: None) for job in jobs]:
            future.result()
    for name in "abc":
        running = most = 0
        for line in (tmp_path / f"{name}.journal").read_text().splitlines():
            running += 1 if line == "begin" else -1
            most = max(most, running)
        assert most == 2, f"{name} had {most} loaders at a time"


REQUESTS = 3072
"""About one clip: twelve units in four batches of three."""


@pytest.mark.slow
def test_replica_death_repeats_only_open_units_of_its_batch(
    cli: Cli, command_env: dict[str, str], tmp_path: Path
) -> None:
    planned = write_many(tmp_path / "data", 1, REQUESTS)
    calm, out = tmp_path / "calm", tmp_path / "out"
    models = tmp_path / "models.yaml"
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--settings", "1-frame")
    flags = (*flags, "--data", str(tmp_path / "data"))
    models.write_text("m: {engine: scripted}\n")
    cli("predict", *flags, "--out", str(calm))
    faults = {"call_s": 0.002, "journal": str(out.with_suffix(".journal"))}
    models.write_text(json.dumps({"m": {"engine": "scripted", "fault_injection": faults}}))
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, "--out", str(out)]
    process = subprocess.Popen(command, env=command_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ending(process):
        deadline = time.monotonic() + 400
        # One replica answers one batch after the other: with one or two parts of three committed, it is in the middle.
        while len(parts(out)) % 3 == 0 or in_hand(out, read_answers(out)) < 20:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        modified = {part: part.stat().st_mtime_ns for part in parts(out)}
        done = read_answers(out)
        (replica,) = named(process.pid, "MapBatches(EngineActor)")
        os.kill(replica, signal.SIGKILL)
        in_flight = in_hand(out, done)
        _, output = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert read_answers(out) == read_answers(calm)
    assert len(read_rows(out)) == len(read_answers(out)) == planned
    assert {status for status, _ in read_answers(out).values()} == {"ok"}
    calls = Counter(out.with_suffix(".journal").read_text().split())
    assert set(calls.values()) == {1, 2}, "what was in hand was asked again, and nothing twice"
    assert all(part.stat().st_mtime_ns == written for part, written in modified.items())
    assert not {call for call, n in calls.items() if n > 1 and call.rpartition("/")[0] in done}
    assert sum(calls.values()) - planned <= in_flight

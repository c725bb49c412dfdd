"""Models of one sweep: an unavailable one stops no other, sequentially and concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic
from unittest.mock import Mock, call

import pytest

import pipelines.predict.stage as page
from cluster.connection import ClusterInfo
from cluster.lazy import LazyCluster
from cluster.scheduling.gpu_scheduler import Fleet
from jobs.dry_run.plan_table import schedule
from models.entry_fields import Replicas
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError, StoreError
from pipelines.plan.context import SweepContext
from pipelines.plan.cost_model import model_workload
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.executor import _replicas
from pipelines.predict.records import Job, Receipt
from pipelines.predict.stage import SharedProgress
from pipelines.predict.status import StatusWriter, read_status
from pipelines.storage.store import Store

Execute = Callable[[Job, ClusterInfo, Callable[[Receipt], None]], None]


class ConnectedCluster(LazyCluster):
    def __init__(self, info: ClusterInfo) -> None:
        super().__init__("", ExitStack())
        self._capacity = info

    def connect(self) -> ClusterInfo:
        return self._capacity


class Sweep:
    """Predicts with a scripted `run_units`."""

    def __init__(self, data: str, out: Path, monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
        model_spec = ModelSpec(engine="transformers", model="o/m", revision="1", parameters_b=7, replicas={"max": 1})
        self.spec = RunSpec(data=data, out=str(out), models=dict.fromkeys("abc", model_spec), benchmarks=("maia",))
        self.out, self._patch, self._gpus = Store(str(out)), monkeypatch, gpus
        self.shares: dict[str, float] = {}
        monkeypatch.setattr(page, "gpus_of_nodes", lambda: [gpus])

    def script(self, execute: Execute) -> None:
        """Let a function run each job's units."""

        def noted(
            job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None], _note: Callable[[str], None]
        ) -> None:
            self.shares[job.model] = cluster.gpus
            execute(job, cluster, on_receipt)

        self._patch.setattr(page, "run_units", noted)

    def caption(self, execute: Execute) -> None:
        self.script(execute)
        cluster = ConnectedCluster(ClusterInfo("", 8.0, float(self._gpus)))
        page.caption(SweepContext.open(self.spec), cluster, CostTracker(None))

    def predict(self, execute: Execute, limit: float | None = None, max_gpu_nodes: tuple[int, ...] = ()) -> list[str]:
        self.script(execute)
        context = SweepContext.open(self.spec)
        plans = plan_sweep(context)
        board = StatusWriter(self.out, plans)
        cluster = ConnectedCluster(ClusterInfo("", 8.0, float(self._gpus), max_gpu_nodes=max_gpu_nodes))
        return page.predict(context, cluster, plans, board, CostTracker(limit))


def answer(job: Job, on_receipt: Callable[[Receipt], None]) -> None:
    for unit in job.units:
        for media_slice in unit.slices:
            counts = {("vsv", "1-frame", "ok"): 0}
            on_receipt(Receipt(part=f"predictions/benchmark=maia/model={job.model}/{media_slice.group}", counts=counts))


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_lost_model_stops_no_other(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    sweep, ended = Sweep(maia_data, tmp_path, monkeypatch, gpus), []

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        if job.model == "a":
            raise ModelUnavailableError("model 'a': no weights")
        answer(job, on_receipt)
        ended.append(job.model)

    assert sweep.predict(execute) == {"a": "model 'a': no weights"}
    assert sorted(ended) == ["b", "c"]
    assert all(group["running"] == 0 for group in read_status(sweep.out)["cells"])


@pytest.mark.parametrize(("gpus", "max_gpu_nodes"), [(2, ()), (0, (1, 1))], ids=["there", "still to come"])
def test_models_run_concurrently_on_gpus_of_their_own(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, max_gpu_nodes: tuple[int, ...]
) -> None:
    sweep, both, begun = Sweep(maia_data, tmp_path, monkeypatch, gpus), threading.Barrier(2, timeout=120), []

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        begun.append(job.model)
        if len(begun) < 3:
            both.wait()
        answer(job, on_receipt)

    assert sweep.predict(execute, max_gpu_nodes=max_gpu_nodes) == {}
    assert sweep.shares == {"a": 1.0, "b": 1.0, "c": 1.0}


def captioned(sweep: Sweep, data: str, *, own_captions: bool) -> RunSpec:
    """Return a sweep of prompts with captions of three other models, or of its own three."""
    captioners = () if own_captions else tuple(sweep.spec.models.items())
    spec = replace(sweep.spec, data=data, benchmarks=("vague",), tasks=("mcq",), settings=("sm-other",))
    return replace(spec, own_captions=own_captions, captioners=captioners)


@pytest.mark.parametrize("own_captions", [False, True])
def test_captioners_run_concurrently_on_gpus_of_their_own(
    vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_captions: bool
) -> None:
    sweep, both, begun = Sweep(vague_data, tmp_path, monkeypatch, 2), threading.Barrier(2, timeout=120), []
    sweep.spec = captioned(sweep, vague_data, own_captions=own_captions)

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        begun.append(job.model)
        if len(begun) < 3:
            both.wait()
        for unit in job.units:
            on_receipt(Receipt(part=unit.part, counts={("caption", "", "ok"): unit.requests}))

    sweep.caption(execute)
    assert sweep.shares == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert read_status(sweep.out) == {}


@pytest.mark.parametrize("gpus", [0, 2])
def test_unavailable_captioner_of_a_flag_ends_the_run_and_a_models_own_does_not(
    vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, gpus: int
) -> None:
    sweep, ended = Sweep(vague_data, tmp_path, monkeypatch, gpus), []

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        if job.model == "a":
            raise ModelUnavailableError("model 'a': no weights")
        ended.append(job.model)

    sweep.spec = captioned(sweep, vague_data, own_captions=True)
    sweep.caption(execute)
    assert sorted(ended) == ["b", "c"]
    assert "no weights" not in caplog.text  # it is reported once, when the model is to predict
    sweep.spec = captioned(sweep, vague_data, own_captions=False)
    with pytest.raises(ModelUnavailableError, match="no weights"):
        sweep.caption(execute)


@pytest.mark.parametrize("gpus", [0, 2])
def test_captioners_stop_at_their_next_commit_where_one_in_batches_fails(
    vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    sweep, has_begun, overran = Sweep(vague_data, tmp_path, monkeypatch, gpus), threading.Event(), []
    sweep.spec = captioned(sweep, vague_data, own_captions=False)
    batch = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1", batch=True)
    sweep.spec = replace(sweep.spec, captioners=(("a", batch), *sweep.spec.captioners[1:]))

    def refuse(job: Job, *_: object) -> None:
        assert has_begun.wait(60)
        raise ModelUnavailableError("model 'a': refused")

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        has_begun.set()
        end = monotonic() + 60
        while monotonic() < end:
            on_receipt(Receipt(part=job.units[0].part, counts={}))
        overran.append(job.model)

    monkeypatch.setattr(page, "run_in_batches", refuse)
    with pytest.raises(ModelUnavailableError, match="refused"):
        sweep.caption(execute)
    assert not overran


@pytest.mark.parametrize("gpus", [2, 8])
@pytest.mark.parametrize("names", ["a", "ab"])
def test_dry_run_schedules_the_replicas_of_the_run(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, names: str
) -> None:
    sweep = Sweep(maia_data, tmp_path, monkeypatch, gpus)
    many = sweep.spec.models["a"].model_copy(update={"replicas": Replicas(max=5)})
    sweep.spec = replace(sweep.spec, models=dict.fromkeys(names, many))
    replicas: dict[str, int] = {}

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        replicas[job.model] = _replicas(job, cluster)
        answer(job, on_receipt)

    assert sweep.predict(execute) == {}
    plans = plan_sweep(SweepContext.open(sweep.spec))
    works = [model_workload(name, plan, sweep.spec.models[name]) for name, plan in plans.items()]
    planned_schedule = schedule(works, Fleet(gpus=gpus))
    assert {row["model"]: row["loads"] for row in planned_schedule["models"]} == replicas
    assert set(replicas) == set(names)


@pytest.mark.parametrize(("gpus", "limit"), [(0, None), (2, 5.0)])
def test_models_follow_one_another_without_gpus_or_with_a_cost_limit(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, limit: float | None
) -> None:
    sweep, order = Sweep(maia_data, tmp_path, monkeypatch, gpus), []

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        order.append(f"{job.model} begins")
        answer(job, on_receipt)
        order.append(f"{job.model} ends")

    assert sweep.predict(execute, limit) == {}
    assert order == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]
    assert sweep.shares == dict.fromkeys("abc", float(gpus))


def test_store_error_ends_all_models(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, models = Sweep(maia_data, tmp_path, monkeypatch, 2), []
    both, lost_store = threading.Barrier(2, timeout=120), threading.Event()

    def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
        models.append(job.model)
        both.wait()
        if job.model == "a":
            lost_store.set()
            raise StoreError("the store is away")
        assert lost_store.wait(120)
        for _ in range(2000):
            answer(job, on_receipt)

    with pytest.raises(StoreError, match="store is away"):
        sweep.predict(execute)
    assert sorted(models) == ["a", "b"]


def test_concurrent_models_have_a_line_each_until_they_are_done() -> None:
    shown = Mock()
    shared = SharedProgress(shown)
    a, b = shared.model("a"), shared.model("b")
    a.phase("predict a", 4)
    b.phase("predict b", 2)
    b.note("loading weights, 1.00 of 4.00 GB")
    assert shown.note.call_args == call("a: 0/4, 0s\nb: 0/2, 0s; loading weights, 1.00 of 4.00 GB")
    a.advance(4, 1)
    assert shown.advance.call_args == call(4, 1)
    assert shown.note.call_args == call("b: 0/2, 0s; loading weights, 1.00 of 4.00 GB")


def test_judge_beside_models_has_a_line_whose_rows_are_not_of_the_phase() -> None:
    shown = Mock()
    shared = SharedProgress(shown)
    shared.model("a").phase("predict a", 4)
    with shared.judges() as listener:
        for done in ("0/2", "2/4"):
            listener("judge j").phase("judge j", 2)
            assert shown.note.call_args.args[0].startswith(f"a: 0/4, 0s\njudge j: {done}, ")
            listener("judge j").advance(2, 0)
            assert shown.note.call_args == call("a: 0/4, 0s")
        listener("judge j").phase("judge j", 2)
    assert shown.note.call_args == call("a: 0/4, 0s")
    assert not shown.advance.called

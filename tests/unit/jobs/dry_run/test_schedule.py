"""The schedule of a dry run equals the run's, on the nodes that it would have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import jobs.dry_run.schedule as page
from cluster.connection import ClusterInfo
from cluster.scheduling.workload import Fleet
from jobs.dry_run.plan_table import show_plan
from jobs.dry_run.schedule import schedule, schedule_summary
from models.entry_fields import Replicas
from models.spec import ModelSpec
from pipelines.plan.context import SweepContext
from pipelines.plan.cost_model import model_workload
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec

LOCAL = ModelSpec(engine="transformers", model="o/m", revision="1", parameters_b=7, replicas={"max": 3})
BIG = ModelSpec(engine="transformers", model="o/b", revision="1", parameters_b=70, tensor_parallel=4)


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    models = {"a": LOCAL, "b": LOCAL, "big": BIG}
    return RunSpec(data=maia_data, out=str(tmp_path), models=models, benchmarks=("maia",))


def on(
    monkeypatch: pytest.MonkeyPatch, nodes: Sequence[int] = (), max_gpu_nodes: tuple[int, ...] = (), cards: int = 0
) -> None:
    @contextlib.contextmanager
    def joined(address: str) -> Iterator[ClusterInfo]:
        yield ClusterInfo(address, 8.0, float(sum(nodes)), max_gpu_nodes)

    monkeypatch.setattr(page, "connect", joined)
    monkeypatch.setattr(page, "gpus_of_nodes", lambda: list(nodes))
    monkeypatch.setattr(page, "local_gpus", lambda: [1] * cards)


def test_schedule_says_when_each_model_runs(spec: RunSpec) -> None:
    works = [
        model_workload(name, plans, spec.models[name]) for name, plans in plan_sweep(SweepContext.open(spec)).items()
    ]
    planned_schedule = schedule(works, Fleet(gpus=16))
    rows = planned_schedule["models"]
    assert {row["model"] for row in rows} == {"a", "b", "big"}
    last = max(row["ends_s"] for row in rows)
    assert last / 3600 == pytest.approx(planned_schedule["hours"], abs=1e-3)
    assert planned_schedule["hours"] >= planned_schedule["bound_hours"] > 0
    assert planned_schedule["gpu_hours"] >= sum(row["gpu_hours"] for row in rows) - 0.02
    assert planned_schedule["price_usd"] == pytest.approx(planned_schedule["gpu_hours"] * 2.5, abs=0.02)


def test_schedule_uses_the_nodes_of_the_cluster(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plan_sweep(SweepContext.open(spec))
    here = replace(spec, address="head:6379")
    on(monkeypatch, nodes=[2, 2])
    summary = schedule_summary(here, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"], summary["unplaced"]) == (4, "the cluster at head:6379 as it is", ["big"])
    on(monkeypatch, nodes=[2], max_gpu_nodes=(8, 1, 1))
    summary = schedule_summary(here, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"]) == (10, "the cluster at head:6379 at full scale")
    assert {model["model"] for model in summary["models"]} == {"a", "b", "big"}
    on(monkeypatch)
    assert schedule_summary(here, plans) == {"gpus": 0, "on": "the cluster at head:6379 as it is", "models": []}


def test_schedule_without_a_cluster_uses_this_machine_or_assumed_nodes(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = plan_sweep(SweepContext.open(spec))
    on(monkeypatch, cards=4)
    summary = schedule_summary(spec, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"], summary["unplaced"]) == (4, "this machine", [])
    on(monkeypatch)
    show_plan(spec, plans, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    here = "Here: no GPU. Models that fit run on the CPU, in an unknown time. Estimate for 8 GPUs (assumed H100):"
    assumed = next(line for line in lines if line.startswith("On 8 GPUs (assumed: no --address is given and no GPU"))
    assert lines.index(here) < lines.index(assumed)
    alone = replace(spec, models={"a": spec.models["a"].model_copy(update={"replicas": Replicas(max=1)})})
    show_plan(alone, {"a": plans["a"]}, as_json=False)
    assert "\nOn one GPU (assumed: no --address is given" in capsys.readouterr().out
    assert (
        schedule_summary(replace(spec, models={"random": ModelSpec(engine="random")}), {"random": plans["a"]}) is None
    )


def test_schedule_with_a_cost_limit_runs_models_one_after_another(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, cards=8)
    summary = schedule_summary(replace(spec, cost_limit=5.0), plan_sweep(SweepContext.open(spec)))
    assert summary is not None
    first, second, third = summary["models"]
    assert (first["begins_s"], second["begins_s"], third["begins_s"]) == (0, first["ends_s"], second["ends_s"])
    assert [model["model"] for model in summary["models"]] == ["a", "b", "big"]


def test_schedule_counts_a_gpu_that_replicas_share_once(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, cards=2)
    shared = ModelSpec.model_validate({**LOCAL.model_dump(), "replicas_per_gpu": 2, "replicas": {"max": 2}})
    spec = replace(spec, models={"a": shared, "b": shared})
    summary = schedule_summary(spec, plan_sweep(SweepContext.open(spec)))
    assert summary is not None
    rows = summary["models"]
    assert isinstance(rows, list)
    assert [(row["begins_s"], row["gpus_a_replica"], row["loads"]) for row in rows] == [(0.0, 0.5, 2)] * 2

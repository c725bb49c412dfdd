"""The published sweep, by the planner's own units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.scheduling.gpu_scheduler import choose_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload
from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.plan.cost_model import GpuProfile, model_workloads, unit_seconds
from pipelines.plan.units import MAX_LIGHT_UNIT_REQUESTS
from tests.bench.fleet_simulation import (
    PUBLISHED_SAMPLES,
    SEQUENTIAL,
    SPOT,
    SWEEP,
    main,
    parse_workloads,
    plan_published_sweep,
    published_workloads,
    simulate_sizes,
    workloads_to_json,
)

pytestmark = pytest.mark.full

_MANY = 1_000_000
WORKLOADS = [
    ModelWorkload(name="a", gpus=1, load_s=10.0, units=(30.0,) * 50, max_replicas=_MANY),
    ModelWorkload(name="b", gpus=4, load_s=10.0, units=(60.0,) * 20, max_replicas=_MANY),
]


@pytest.fixture(scope="module")
def plans(maia_data: str) -> list:
    return plan_published_sweep(maia_data)


def test_benchmark_is_lengthened_to_its_published_size(plans: list) -> None:
    (plan,) = plans
    # 100 clips of 24 questions: 216 requests a clip, in three settings; a group a clip and frame count, one of black.
    assert plan.total == 100 * 216 * 3
    assert plan.groups == 100 + 100 + 1
    assert sum(unit.requests for unit in plan.units) == plan.total
    assert max(unit.requests for unit in plan.units) <= MAX_LIGHT_UNIT_REQUESTS
    ids = [unit.part for unit in plan.units]
    assert len(set(ids)) == len(ids)


def test_unit_seconds_grow_with_the_model_and_fall_with_ranks(plans: list) -> None:
    (plan,) = plans
    largest = max(plan.units, key=lambda unit: unit.requests)

    def seconds(**more: object) -> float:
        return unit_seconds(plan, largest, ModelSpec(engine="transformers", model="x", **more), GpuProfile())

    assert seconds(parameters_b=70.0) == pytest.approx(10 * seconds(parameters_b=7.0))
    assert seconds(parameters_b=70.0, tensor_parallel=4) == pytest.approx(seconds(parameters_b=70.0) / 4 / 0.85)


def test_models_without_gpus_have_no_workload(plans: list) -> None:
    specs = load_models()
    names = {workload.name for workload in published_workloads(plans, specs)}
    assert names == {name for name, spec in specs.items() if spec.replica_gpus}
    assert "gpt-4o" not in names
    assert model_workloads({"random": plans}, specs) == []


def test_saved_workload_gives_the_same_table(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLISHED_SAMPLES, "maia", 72)
    saved = str(tmp_path / "w.json")
    assert main(["--data", maia_data, "--gpus", "8", "64", "--save", saved]) == 0
    planned = capsys.readouterr().out
    assert "1,944 requests" in planned
    assert main(["--workload", saved, "--gpus", "8", "64"]) == 0
    assert capsys.readouterr().out.splitlines()[2][:12] in planned
    assert main(["--data", str(tmp_path)]) == 2


def test_table_has_three_rows_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.json"
    path.write_text(workloads_to_json(WORKLOADS))
    assert parse_workloads(path.read_text()) == WORKLOADS
    assert main(["--workload", str(path), "--gpus", "8", "32", "--spot-loss", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("    8  ", "   32  ")) for line in lines) == 2 * 3
    path.write_text(json.dumps([{"name": "a"}]))
    assert main(["--workload", str(path)]) == 2


@pytest.mark.parametrize("gpus", [8, 32])
def test_simulated_sweep_equals_the_scheduler_of_a_run(gpus: int) -> None:
    fleet = Fleet(gpus=gpus)
    rows = {row.way: row for row in simulate_sizes(WORKLOADS, fleet, [gpus], 20.0)}
    assert all(row.over_bound >= 1 for row in rows.values())
    assert rows[SWEEP].hours == simulate(choose_schedule(WORKLOADS, fleet.nodes), fleet).makespan_s / 3600
    assert rows[SPOT].lost_nodes > 0 == rows[SWEEP].lost_nodes
    assert rows[SWEEP].hours <= rows[SEQUENTIAL].hours * 1.001

"""The papers' sweep by the planner's own units."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.plan.cost_model import GpuProfile, model_workloads, replica_gpus, unit_seconds
from tests.bench.fleet_simulation_command import PUBLISHED, main, papers_plans, papers_works


@pytest.fixture(scope="module")
def plans(maia_data: str) -> list:
    return papers_plans(maia_data)


def test_a_benchmark_is_as_long_as_published(plans: list) -> None:
    (plan,) = plans
    # 100 clips of 24 questions: 216 requests a clip, in three settings; a group a clip and frame count, one of black.
    assert plan.total == 100 * 216 * 3
    assert len(plan.groups) == 100 + 100 + 1
    assert sum(unit.requests for unit in plan.units) == plan.total
    assert max(unit.requests for unit in plan.units) <= 256
    ids = [unit.part for unit in plan.units]
    assert len(set(ids)) == len(ids)


def test_a_unit_s_time_grows_with_the_model_and_falls_with_ranks(plans: list) -> None:
    (plan,) = plans
    unit = max(plan.units, key=lambda one: one.requests)

    def seconds(**more: object) -> float:
        return unit_seconds(plan, unit, ModelSpec(engine="transformers", model="x", **more), GpuProfile())

    assert seconds(parameters_b=70.0) == pytest.approx(10 * seconds(parameters_b=7.0))
    assert seconds(parameters_b=70.0, tensor_parallel=4) == pytest.approx(seconds(parameters_b=70.0) / 4 / 0.85)


def test_models_that_run_elsewhere_take_no_gpu(plans: list) -> None:
    specs = load_models()
    works = papers_works(plans, specs)
    assert {work.name for work in works} == {name for name, spec in specs.items() if replica_gpus(spec)}
    assert "gpt-4o" not in {work.name for work in works}
    assert model_workloads({"random": plans}, specs) == []


def test_the_table(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLISHED, "maia", 72)
    assert main(["--data", maia_data, "--gpus", "8", "64", "--save", str(tmp_path / "w.json")]) == 0
    out = capsys.readouterr().out
    assert "1,944 requests" in out
    from tests.bench.fleet_simulation import main as simulate

    assert simulate([str(tmp_path / "w.json"), "--gpus", "8", "64"]) == 0
    assert capsys.readouterr().out.splitlines()[1][:12] in out
    assert main(["--data", str(tmp_path)]) == 2

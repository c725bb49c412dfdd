from __future__ import annotations

import pytest

from jobs.dry_run import helper_models
from models.engines.offload import offload_rows
from models.gpu_memory import BatchShape, MemoryNeed
from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan
from tests.unit.jobs.dry_run.test_plan_table import TARGET

GB = 10**9
PLAN = ModelPlan(target=TARGET, calls=1000, prompt_tokens=600_000, output_tokens=200_000)


def entry(**settings: object) -> ModelSpec:
    return ModelSpec.model_validate(
        {"engine": "transformers", "model": "org/big", "parameters_b": 73.4, "batch_size": 8, **settings}
    )


def test_dry_run_says_how_slow_offload_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_models, "local_memory", lambda: (200 * GB, 200 * GB))
    summary = helper_models.placement_summary(entry(offload=True), PLAN, [80 * GB])
    assert summary is not None
    assert not summary["fits"]
    # 146.8 GB of weights: 56 GB on the GPU, the rest in memory, at 10 GB/s
    hours = (1000 + 200_000) / 8 * 9.08 / 3600
    assert summary["offload"] == {
        "host": pytest.approx(90.8e9),
        "disk": 0,
        "seconds_per_pass": pytest.approx(9.08),
        "hours": pytest.approx(hours),
    }
    assert f"which takes 9.08 s at 10 GB/s from memory and 1.5 GB/s from disk; {hours:.2g} h" in summary["words"]


def test_dry_run_of_a_model_without_offload_or_that_fits_speaks_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_models, "local_memory", lambda: (200 * GB, 200 * GB))
    for spec in (entry(), entry(offload=True, parameters_b=7.0)):
        summary = helper_models.placement_summary(spec, PLAN, [80 * GB])
        assert summary is not None
        assert summary["offload"] is None
        assert "offload" not in summary["words"]


def test_rows_of_an_offloaded_model_fit_beside_its_weights() -> None:
    need = MemoryNeed(weights=150 * GB, activations=2 * GB, fixed=1 * GB, cache_per_token=100_000)
    # 24 GB less 3 GB, half of it for a batch; a row holds prefix and text twice
    batch = BatchShape(prefix_tokens=4000, own_tokens=1000)
    assert offload_rows(need, batch, 80 * GB) == 10_500_000_000 // (2 * 5000 * 100_000)
    assert offload_rows(need, batch, 8 * GB) == 1


def test_an_entry_on_cpus_needs_no_gpu() -> None:
    summary = helper_models.placement_summary(entry(device="cpu", parameters_b=0.1), PLAN, [80 * GB])
    assert summary is not None
    assert summary["words"].startswith("on the CPU (device: cpu): 200 MB of weights against ")
    assert (summary["fits"], summary["stated"], summary["proposed"]) == (True, None, None)
    huge = helper_models.placement_summary(entry(device="cpu", parameters_b=9e5), PLAN, [80 * GB])
    assert huge is not None
    assert (huge["fits"], huge["words"].endswith("; does not fit")) == (False, True)


def test_dry_run_shows_replicas_that_share_a_gpu() -> None:
    summary = helper_models.placement_summary(entry(parameters_b=2.0, replicas_per_gpu=4), PLAN, [80 * GB])
    assert summary is not None
    assert summary["words"].startswith("4 replicas a GPU, ")
    assert "of 20 GB (detected)" in summary["words"]

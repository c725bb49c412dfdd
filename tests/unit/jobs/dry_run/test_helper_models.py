"""Captioners and the judge in a dry run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.dry_run import helper_models
from jobs.dry_run.helper_models import captioners, judges
from models.catalog_loader import load_models
from models.engines.offload import offload_rows
from models.gpu_memory import BatchShape, MemoryNeed
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import placeholder_captions, plan_sweep
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.record import sweep_entries
from tests.support import unpie_source
from tests.unit.jobs.dry_run.test_plan_table import TARGET

QUESTIONS, ROUNDS = 48, 3


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    catalog = load_models()
    return RunSpec(
        data=maia_data,
        out=str(tmp_path / "out"),
        models={"random": catalog["random"]},
        benchmarks=("maia",),
        settings=("1-frame",),
        judges=(("gpt-4o", catalog["gpt-4o"]),),
    )


def test_judge_gets_a_question_for_every_open_answer(spec: RunSpec) -> None:
    context = SweepContext.open(spec)
    entries = sweep_entries(spec, [target for target, _ in context.model_targets("random")])
    (judge,) = judges(context, entries, pending=entries)
    assert judge.plan.total == judge.plan.to_do == QUESTIONS
    assert judge.plan.calls == QUESTIONS * ROUNDS
    assert judge.plan.output_tokens == judge.plan.calls * (judge.spec.generation.max_new_tokens or 64)
    assert judge.plan.prompt_tokens > 100 * QUESTIONS * ROUNDS
    assert f"at most {ROUNDS} rounds" in judge.description
    assert judges(context, entries)[0].plan.calls == 0
    assert judges(SweepContext.open(replace(spec, judges=())), entries, pending=entries) == []


def test_equal_answers_share_a_verdict(spec: RunSpec) -> None:
    row = {"task": "oevqa", "setting": "1-frame", "variant": ""}
    answers = [("video1/Sentiment_A", "un cane"), ("video1/Sentiment_B", "un cane"), ("video2/Sentiment_A", "")]
    context = SweepContext.open(spec)
    with AnswerSpool.temporary() as spool:
        for model in ("a", "b"):
            for line, (name, text) in enumerate(answers):
                spool.add(line, {**row, "benchmark": "maia", "model": model, "sample_id": name, "output": text})
        imported = [import_rows(context, "maia", model, spool) for model in ("a", "b")]
    (judge,) = judges(context, [entry for entry in imported if entry])
    assert judge.plan.to_do == 2  # an empty answer needs no judge, and both models said the same


def test_captions_count_once_a_picture_and_fill_prompts(spec: RunSpec, tmp_path: Path) -> None:
    source = unpie_source.write_source(tmp_path / "unpie")
    ingest_benchmark(benchmark("unpie"), Folder(str(source)), Store(str(tmp_path / "data")))
    captioned = replace(
        spec,
        data=str(tmp_path / "data"),
        benchmarks=("unpie",),
        settings=("sm",),
        captioners=(("gpt-4o", load_models()["gpt-4o"]),),
    )
    context = SweepContext.open(captioned)
    (captioner,) = captioners(context)
    assert captioner.plan.to_do == captioner.plan.calls == captioner.plan.groups > 0
    (without,), (estimated,) = plan_sweep(context)["random"], plan_sweep(context, placeholder_captions)["random"]
    assert without.calls == 0
    assert estimated.calls == estimated.to_do == without.to_do > 0
    assert captioners(SweepContext.open(spec)) == []


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

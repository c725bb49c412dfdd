"""Captioners and the judge in a dry run."""

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.dry_run.helper_models import captioners, judges
from models.catalog_loader import load_models
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import placeholder_captions, plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.record import sweep_entries
from tests.support import unpie_source

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

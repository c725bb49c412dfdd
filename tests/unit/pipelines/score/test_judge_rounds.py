"""The rounds of a judge over several benchmarks."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.engines import build_engine
from models.engines.base import Engine
from models.messages import Answer, Failure, Reply
from models.spec import ModelSpec
from pipelines.benchmarks.records import Row
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.records import Job
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.rows import ScoringContext
from pipelines.score.stage import judge_rounds, planned_rows
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep

NAMES = ("first", "second")


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """Two benchmarks with the same open questions, which a guessing model answers and a guessing judge judges."""
    with (tmp_path / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer"))
        rows.writerows((f"q{number}", f"What is {number}?", f"word {number}") for number in range(20))
    data = str(tmp_path / "data")
    for name in NAMES:
        ingest_table(str(tmp_path / "questions.csv"), Store(data), name=name, kind="open")
    load_tables(data, NAMES)
    return RunSpec(
        data=data,
        out=str(tmp_path / "out"),
        models={"m": ModelSpec(engine="random")},
        benchmarks=NAMES,
        judges=(("judge", ModelSpec(engine="random", seed=1)),),
    )


def test_a_judge_is_loaded_once_for_all_benchmarks(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = Counter[str]()

    def build(name: str, model: ModelSpec, **options: Any) -> Engine:
        loads[name] += 1
        return build_engine(name, model, **options)

    monkeypatch.setattr("pipelines.predict.unit_pipeline.build_engine", build)
    run_sweep(spec)
    assert loads == {"m": 1, "judge": 1}
    numbers = json.loads((Path(spec.out) / "report" / "metrics.json").read_text())
    judged = [row for row in numbers if row["metric"] == "judged_accuracy" and not row["category"]]
    assert {(row["benchmark"], row["n"], row["n_failed"]) for row in judged} == {(name, 20, 0) for name in NAMES}
    assert not list(Path(spec.out).glob("plan/*/judge-*"))


def asked_about(spec: RunSpec, reply: Reply | None) -> list[tuple[str, dict[str, list[str]]]]:
    """Run the rounds of a judge that gives one reply; return each job's title and question ids by benchmark."""
    run_sweep(spec, stages=[Stage.PREDICT])
    other = replace(spec, models={"n": ModelSpec(engine="random", seed=5)}, seed=7)
    run_sweep(other, stages=[Stage.PREDICT])
    context, jobs = SweepContext.open(spec), []
    entries = load_run(context.out).entries

    def rows(_: SweepContext, entry: ManifestEntry, scoring: ScoringContext) -> Iterator[Row]:
        of_m = next(each for each in entries if (each.benchmark, each.model) == (entry.benchmark, "m"))
        return planned_rows(context, of_m, scoring)

    def run_job(title: str, job: Job) -> None:
        loader, ids = job.loader.build(), dict[str, list[str]]()
        for unit in job.units:
            loaded = loader.load(unit)
            ids.setdefault(unit.benchmark, []).extend(loaded.columns)
            if reply:
                table = [prediction_row(columns, reply) for columns in loaded.columns.values()]
                context.out.put(unit.part, to_parquet(table, PREDICTIONS))
        jobs.append((title, ids))

    assert len({entry.prompts.seed for entry in entries}) == 2
    replies = judge_rounds(context, spec.judges[0], entries, run_job, rows)
    assert [*replies] == [*NAMES]
    return jobs


def test_each_round_is_one_job_that_asks_equal_questions_once_a_benchmark(spec: RunSpec) -> None:
    jobs = asked_about(spec, Reply(request_id="", outcome=Answer(text="hard to say")))
    assert [title for title, _ in jobs] == ["judge judge", "judge judge, round 2", "judge judge, round 3"]
    for _, ids in jobs:
        assert {name: len(ids[name]) for name in ids} == dict.fromkeys(NAMES, 20)
        assert set(ids["first"]) == set(ids["second"])
    assert len({name for _, ids in jobs for name in ids["first"]}) == 60


@pytest.mark.parametrize("reply", [None, Reply(request_id="", outcome=Failure(type="x", message="y"))])
def test_questions_that_failed_are_not_asked_again_in_the_run(spec: RunSpec, reply: Reply | None) -> None:
    ((_, ids),) = asked_about(spec, reply)
    assert {name: len(set(ids[name])) for name in ids} == dict.fromkeys(NAMES, 20)

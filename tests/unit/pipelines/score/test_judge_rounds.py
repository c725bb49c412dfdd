from __future__ import annotations

import csv
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cluster.connection import ClusterInfo
from models.engines import build_engine
from models.engines.base import Engine
from models.messages import Answer, Failure, Reply
from models.spec import ModelSpec
from pipelines.benchmarks.records import Row
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.context import SweepContext
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict import stage
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.records import Job, Receipt, TokenCounts
from pipelines.predict.stage import ModelRuns
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.stage import judge_rounds, planned_rows
from pipelines.score.text_scorers import ScoringContext
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
        data=data, out=str(tmp_path / "out"), models={"m": ModelSpec(engine="random")}, benchmarks=NAMES,
        judges=(("judge", ModelSpec(engine="random", seed=1)),),
    )  # fmt: skip


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
        entry_m = next(each for each in entries if (each.benchmark, each.model) == (entry.benchmark, "m"))
        return planned_rows(context, entry_m, scoring)

    def run_jobs(title: str, round_jobs: Mapping[str, Job], plans: Mapping[str, Sequence[ModelPlan]]) -> dict[str, str]:
        ((name, job),) = round_jobs.items()
        (plan,) = plans[name]
        assert plan.to_do == sum(unit.requests for unit in job.units)
        loader, ids = job.loader.build(), dict[str, list[str]]()
        for unit in job.units:
            loaded = loader.load(unit)
            ids.setdefault(unit.benchmark, []).extend(loaded.columns)
            if reply:
                table = [prediction_row(columns, reply) for columns in loaded.columns.values()]
                context.out.put(unit.part, to_parquet(table, PREDICTIONS))
        jobs.append((title.format(name), ids))
        return {}

    assert len({entry.prompts.seed for entry in entries}) == 2
    replies, gone = judge_rounds(context, dict(spec.judges), entries, run_jobs, rows)
    assert gone == []
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


GONE = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1", retries=0)


def judged(out: str) -> set[tuple[str, bool, int]]:
    numbers = json.loads(Path(out, "report", "metrics.json").read_text())
    shown = (row for row in numbers if row["metric"] == "judged_accuracy" and not row["category"])
    return {(row["benchmark"], row["value"] is None, row["n"]) for row in shown}


@pytest.mark.parametrize("others", [0, 1])
def test_unavailable_judge_ends_the_run_after_the_scores_and_the_report(spec: RunSpec, others: int) -> None:
    out, there = Path(spec.out), ("there", ModelSpec(engine="random", seed=2))
    (reason,) = run_sweep(replace(spec, judges=(("judge", GONE), *[there] * others))).unavailable
    assert reason.startswith("model 'judge': ")
    assert "127.0.0.1:9" in reason
    predictions = sorted(out.glob("predictions/*/*/*.parquet"))
    assert {path.name for path in out.glob("scores/*/*/*.parquet")} == {path.name for path in predictions}
    assert judged(spec.out) == {(name, True, 20) for name in NAMES}
    assert "model 'judge'" in (out / "report" / "report.md").read_text()
    assert len([*out.glob("judgements/*/model=there/*.parquet")]) == 2 * others
    assert not list(out.glob("plan/*/judge-*"))
    verdicts = {path: path.read_bytes() for path in out.glob("judgements/*/*/*.parquet")}
    written = {path: path.stat().st_mtime_ns for path in (*predictions, *verdicts)}
    run_sweep(replace(spec, judges=(*spec.judges, *[there] * others)))
    assert judged(spec.out) == {(name, False, 20) for name in NAMES}
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_judges_run_concurrently_on_gpus_of_their_own(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sweep(spec, stages=[Stage.PREDICT])
    on_gpu = ModelSpec(engine="transformers", model="o/m", revision="1", parameters_b=7, replicas={"max": 1})
    names, both, begun = ("a", "b", "c"), threading.Barrier(2, timeout=120), list[str]()
    spec = replace(spec, judges=tuple((name, on_gpu.model_copy(update={"seed": at})) for at, name in enumerate(names)))
    cluster, shares = Mock(is_embedded=True, connect=lambda: ClusterInfo("", 8.0, 2.0)), dict[str, float]()

    def answer(job: Job, share: ClusterInfo, on_receipt: Callable[[Receipt], None], _: object) -> None:
        begun.append(job.model)
        shares[job.model] = share.gpus
        if len(begun) < 3:
            both.wait()
        for unit in job.units:
            loaded = job.loader.build().load(unit)
            reply = Reply(request_id="", outcome=Answer(text="yes"))
            rows = [prediction_row(columns, reply) for columns in loaded.columns.values()]
            Store(job.out).put(unit.part, to_parquet(rows, PREDICTIONS))
            on_receipt(Receipt(part=unit.part, counts={("judge", "", "ok"): unit.requests}, tokens=TokenCounts(10, 1)))

    monkeypatch.setattr(stage, "gpus_of_nodes", lambda: [2])
    monkeypatch.setattr(stage, "run_units", answer)
    context, costs = SweepContext.open(spec), CostTracker()
    replies, gone = judge_rounds(
        context, dict(spec.judges), load_run(context.out).entries,
        lambda *job: ModelRuns(context, cluster, costs, *job).run(),
    )  # fmt: skip
    assert gone == []
    assert (sorted(begun), shares) == ([*names], dict.fromkeys(names, 1.0))
    assert {name: [(judge.name, len(judge.replies)) for judge in replies[name]] for name in NAMES} == {
        name: [(judge, 20) for judge in names] for name in NAMES
    }
    assert {name: costs.tokens[name].read for name in names} == dict.fromkeys(names, 20)
    assert not list(Path(spec.out).glob("plan/*/judge-*"))


def test_unavailable_judge_is_asked_in_no_further_round(spec: RunSpec) -> None:
    run_sweep(spec, stages=[Stage.PREDICT])
    context, titles = SweepContext.open(spec), list[tuple[str, list[str]]]()
    models = {name: ModelSpec(engine="random", seed=at) for at, name in enumerate("ab")}

    def run_jobs(title: str, jobs: Mapping[str, Job], _: object) -> dict[str, str]:
        titles.append((title, [*jobs]))
        for unit in jobs["b"].units:
            reply = Reply(request_id="", outcome=Answer(text="hard to say"))
            loaded = jobs["b"].loader.build().load(unit)
            table = [prediction_row(columns, reply) for columns in loaded.columns.values()]
            context.out.put(unit.part, to_parquet(table, PREDICTIONS))
        return {"a": "no weights"} if "a" in jobs else {}

    _, gone = judge_rounds(context, models, load_run(context.out).entries, run_jobs)
    assert gone == ["no weights"]
    assert titles == [("judge {}", ["a", "b"]), ("judge {}, round 2", ["b"]), ("judge {}, round 3", ["b"])]

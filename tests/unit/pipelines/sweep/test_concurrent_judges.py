from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from cluster.lazy import LazyCluster
from models.entry_fields import Replicas
from models.errors import ModelError
from models.messages import Answer, Reply
from models.spec import ModelSpec
from pipelines.errors import DatasetError, FencedError, ModelUnavailableError, StoreError
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.human_files import HumanFile
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict import concurrent_judges, stage
from pipelines.predict.concurrent_judges import CAPACITY_WAIT_S, ConcurrentJudges, IdleGpus, RunJob
from pipelines.predict.records import Job, Receipt, TokenCounts
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.judge import UNIT_QUESTIONS
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store
from pipelines.sweep import evaluate
from pipelines.sweep.run import run_sweep

ON_GPU = ModelSpec(engine="transformers", model="o/m", revision="1", parameters_b=7, replicas={"max": 1})
ENDPOINT = ModelSpec(engine="openai", model="j", base_url="http://127.0.0.1:9/v1")
QUESTIONS = 200


class Sweep:
    """Two models and a judge on GPUs that only count, their answers scripted."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        questions = "".join(f"q{number},What is {number}?,word {number}\n" for number in range(QUESTIONS))
        (tmp_path / "questions.csv").write_text(f"id,question,answer\n{questions}")
        data = str(tmp_path / "data")
        ingest_table(str(tmp_path / "questions.csv"), Store(data), name="own", kind="open")
        load_tables(data, ("own",))
        self.spec = RunSpec(
            data=data, out=str(tmp_path / "out"), models={"a": ON_GPU, "b": ON_GPU}, benchmarks=("own",)
        )
        self.out, self._patch = tmp_path / "out", monkeypatch
        self.jobs: list[tuple[str, float, int]] = []
        """Model, GPUs of its share and questions of each job, as they begin."""
        self.waits_s: list[float | None] = []
        """How long each of these jobs waits for a node."""

    def run(
        self, judge: ModelSpec, gpus: int, before: Callable[[Job, int], None], stages: Collection[Stage] = tuple(Stage)
    ) -> list[str]:
        """Run the sweep; `before` is called before each unit, with the number of those before it in its job."""

        def answer(job: Job, share: ClusterInfo, on_receipt: Callable[[Receipt], None], _: object) -> None:
            self.jobs.append((job.model, share.gpus, sum(unit.requests for unit in job.units)))
            self.waits_s.append(job.wait_for_nodes_s)
            loader = job.loader.build()
            for done, unit in enumerate(job.units):
                before(job, done)
                loaded = loader.load(unit)
                text = "yes" if job.model == "judge" else f"{job.model} says"
                reply = Reply(request_id="", outcome=Answer(text=text))
                rows = [prediction_row(columns, reply) for columns in loaded.columns.values()]
                Store(job.out).put(unit.part, to_parquet(rows, PREDICTIONS))
                group = ("judge", "") if job.model == "judge" else (rows[0]["task"], rows[0]["setting"])
                on_receipt(Receipt(part=unit.part, counts={(*group, "ok"): unit.requests}, tokens=TokenCounts(10, 1)))

        @contextmanager
        def cluster(_: object) -> Iterator[LazyCluster]:
            yield LazyCluster(None, ExitStack())

        info = ClusterInfo("", 8.0, float(gpus))
        self._patch.setattr(LazyCluster, "connect", lambda _: info)
        self._patch.setattr(stage, "gpus_of_nodes", lambda: [gpus])
        self._patch.setattr(stage, "run_units", answer)
        self._patch.setattr(stage, "run_in_process", lambda job, on_receipt, _: answer(job, info, on_receipt, None))
        self._patch.setattr(evaluate, "open_cluster", cluster)
        return run_sweep(replace(self.spec, judges=(("judge", judge),)), stages=stages).unavailable

    def questions(self) -> Counter[str]:
        """Count the judge's committed rows by question."""
        parts = self.out.glob("judgements/*/*/*.parquet")
        return Counter(name for part in parts for name in pq.ParquetFile(part).read()["request_id"].to_pylist())

    def judged(self) -> dict[str, tuple[int, int]]:
        """Return count and failures of the judged accuracy by model."""
        numbers = json.loads((self.out / "report" / "metrics.json").read_text())
        shown = (row for row in numbers if row["metric"] == "judged_accuracy" and not row["category"])
        return {row["model"]: (row["n"], row["n_failed"]) for row in shown}


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(tmp_path, monkeypatch)


@pytest.mark.parametrize(("judge", "gpus", "share"), [(ON_GPU, 2, 1.0), (ENDPOINT, 2, 2.0)], ids=["GPU", "endpoint"])
def test_ended_model_is_judged_while_others_run(sweep: Sweep, judge: ModelSpec, gpus: int, share: float) -> None:
    a_is_judged = threading.Event()

    def before(job: Job, done: int) -> None:
        if job.model == "b":
            assert a_is_judged.wait(60)
        if job.model == "judge" and done == len(job.units) - 1:
            threading.Timer(0.2, a_is_judged.set).start()

    assert sweep.run(judge, gpus, before) == []
    assert sorted(sweep.jobs[:2]) == [("a", 1.0, QUESTIONS), ("b", 1.0, QUESTIONS)]
    assert sweep.jobs[2:] == [("judge", share, QUESTIONS), ("judge", float(gpus), QUESTIONS)]
    assert sweep.waits_s[2:] == [CAPACITY_WAIT_S, None]  # concurrently: not until the sweep ends
    assert (len(sweep.questions()), sweep.questions().total()) == (2 * QUESTIONS, 2 * QUESTIONS)
    assert sweep.judged() == {"a": (QUESTIONS, 0), "b": (QUESTIONS, 0)}
    assert not list(sweep.out.glob("plan/*/judge-*"))
    units = 2 * -(-QUESTIONS // UNIT_QUESTIONS)
    assert load_run(Store(str(sweep.out))).spending[-1].models["judge"].input_tokens == 10 * units


@pytest.mark.parametrize("error", [ModelUnavailableError, StoreError, ClusterError, DatasetError, ModelError])
def test_error_beside_the_models_ends_no_sweep_and_all_is_judged_then(sweep: Sweep, error: type[Exception]) -> None:
    was_tried = threading.Event()

    def before(job: Job, done: int) -> None:
        if job.model == "b":
            assert was_tried.wait(60)
        if job.model == "judge" and not was_tried.is_set():
            was_tried.set()
            raise error("no weights, no store, no node")

    assert sweep.run(ON_GPU, 2, before) == []
    assert sweep.jobs[2:] == [("judge", 1.0, QUESTIONS), ("judge", 2.0, 2 * QUESTIONS)]
    assert sweep.judged() == {"a": (QUESTIONS, 0), "b": (QUESTIONS, 0)}


def test_lock_that_another_run_has_taken_ends_the_sweep(sweep: Sweep) -> None:
    was_tried = threading.Event()

    def before(job: Job, done: int) -> None:
        if job.model == "b":
            assert was_tried.wait(60)
        if job.model == "judge":
            was_tried.set()
            raise FencedError("taken")

    with pytest.raises(FencedError, match="taken"):
        sweep.run(ON_GPU, 2, before)


@pytest.mark.parametrize(
    ("judge", "replicas", "share"), [(ON_GPU, 8, 3.0), (ENDPOINT, 3, 4.0)], ids=["GPU", "endpoint"]
)
def test_judge_leaves_with_the_models_after_what_it_was_asked(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, judge: ModelSpec, replicas: int, share: float
) -> None:
    """The last model ends while the judge is asked three of its four units, one a replica."""
    monkeypatch.setattr(concurrent_judges, "SLICE_UNITS", 1)
    run, gpus_of, first_look = ConcurrentJudges.run, list[IdleGpus](), threading.Event()

    def noted(judges: ConcurrentJudges, unfinished: set[str], gpus: IdleGpus, run_job: RunJob) -> None:
        gpus_of.append(gpus)
        run(judges, unfinished, gpus, run_job)
        first_look.set()

    monkeypatch.setattr(ConcurrentJudges, "run", noted)
    one_is_judged = threading.Event()

    def before(job: Job, done: int) -> None:
        if job.model == "a":
            assert first_look.wait(60)
        if job.model == "b":
            assert one_is_judged.wait(60)
        if job.model == "judge" and done == 1 and not one_is_judged.is_set():
            one_is_judged.set()
            assert gpus_of[-1].leave.wait(60)

    assert sweep.run(judge.model_copy(update={"replicas": Replicas(max=replicas)}), 4, before) == []
    rest = 2 * QUESTIONS - 3 * UNIT_QUESTIONS
    assert sweep.jobs[2:] == [("judge", share, 3 * UNIT_QUESTIONS), ("judge", 4.0, rest)]
    assert (len(sweep.questions()), sweep.questions().total()) == (2 * QUESTIONS, 2 * QUESTIONS)
    assert sweep.judged() == {"a": (QUESTIONS, 0), "b": (QUESTIONS, 0)}


def test_people_are_judged_after_the_models_for_their_answers_may_be_replaced(sweep: Sweep) -> None:
    def answers(text: str) -> HumanFile:
        rows = "".join(f"q{number},p,{text} {number}\n" for number in range(QUESTIONS))
        return HumanFile(benchmark="own", kind="answers", uri="p.csv", text=f"sample_id,annotator,answer\n{rows}")

    a_is_judged = threading.Event()

    def before(job: Job, done: int) -> None:
        if job.model in "bc":
            assert a_is_judged.wait(60)
        if job.model == "judge" and done == len(job.units) - 1:
            threading.Timer(0.2, a_is_judged.set).start()

    spec = sweep.spec
    sweep.spec = replace(spec, models={"a": ON_GPU}, human=(answers("a first"),))
    sweep.run(ON_GPU, 3, before, (Stage.PREDICT, Stage.REPORT))
    sweep.spec = replace(spec, models={"b": ON_GPU, "c": ON_GPU}, human=(answers("a second"),))
    sweep.run(ON_GPU, 3, before)
    assert next(job for job in sweep.jobs if job[0] == "judge") == ("judge", 1.0, QUESTIONS)  # of a alone
    assert sweep.questions().total() == len(sweep.questions()) == 4 * QUESTIONS


@pytest.mark.parametrize("stages", [(Stage.PREDICT,), (Stage.PREDICT, Stage.REPORT)])
def test_no_judge_is_asked_where_nothing_is_to_be_scored(sweep: Sweep, stages: tuple[Stage, ...]) -> None:
    def before(job: Job, done: int) -> None:
        if job.model == "b":
            time.sleep(1)

    sweep.run(ON_GPU, 2, before, stages)
    assert sorted(name for name, _, _ in sweep.jobs) == ["a", "b"]

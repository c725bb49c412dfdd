"""Judge questions: sent once, retried by seed, read back from earlier runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from models.messages import Answer, Failure, Generation, Reply, Request, Step, Text, user
from models.spec import ModelSpec
from pipelines.benchmarks.maia.answers import read_verdict
from pipelines.benchmarks.records import JudgeRequest, Row, Sample, Verdict
from pipelines.plan.prompt_plan import CHARS_PER_TOKEN
from pipelines.plan.records import ModelPlan
from pipelines.plan.requests import ModelTarget
from pipelines.predict.executor import run_in_process
from pipelines.predict.records import Job
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.judge import (
    JudgeLoader,
    JudgeLoaderSpec,
    JudgeReplies,
    delete_judge_plans,
    open_questions,
    plan_questions,
)
from pipelines.score.text_scorers import ScoringContext, rows_of
from pipelines.storage.parts import part_folder, read_part, to_parquet
from pipelines.storage.store import Store

SPEC = ModelSpec(engine="random")
ASK = JudgeRequest(step=Step(turns=(user("Giusto?"),), generation=Generation(max_new_tokens=64)))


def judge(replies: Sequence[str] = (), failed: bool = False) -> JudgeReplies:
    judge = JudgeReplies(name="j", spec=SPEC)
    for attempt, text in enumerate(replies):
        judge.replies[judge.question(ASK, attempt).request_id] = text
    if failed:
        judge.failed.add(judge.question(ASK, len(replies)).request_id)
    return judge


@pytest.mark.parametrize(
    ("replies", "failed", "verdict"),
    [
        ([], False, Verdict(state="absent", tries=0)),
        ([], True, Verdict(state="failed", tries=0)),
        (['{"correct": true}'], False, Verdict(state="ok", accepted=True, tries=1, reply='{"correct": true}')),
        (["forse"], False, Verdict(state="absent", tries=1)),
        (["forse", "No"], False, Verdict(state="ok", accepted=False, tries=2, reply="No")),
        (["\\boxed{frase}\nNo"], False, Verdict(state="ok", accepted=False, tries=1, reply="No")),
        (["forse", "\\boxed{corretta}"], False, Verdict(state="ok", accepted=True, tries=2, reply="corretta")),
        (["forse", "boh"], True, Verdict(state="failed", tries=2)),
        (["forse", "boh", ""], False, Verdict(state="invalid", tries=3)),
    ],
)
def test_verdict_follows_from_the_replies(replies: list[str], failed: bool, verdict: Verdict) -> None:
    assert judge(replies, failed).verdict(ASK, read_verdict) == verdict


def test_retry_differs_in_its_seed_alone_and_earlier_replies_are_loaded(tmp_path: Path) -> None:
    first, second = (judge().question(ASK, attempt) for attempt in (0, 1))
    assert first.request_id != second.request_id
    assert first.steps[0].turns == second.steps[0].turns
    assert [q.steps[0].generation.seed for q in (first, second)] == [42, 43]
    out = Store(str(tmp_path))
    question = judge().question(ASK, 0)
    columns = {"request_id": question.request_id, "benchmark": "maia", "task": "judge"}
    rows = [prediction_row(columns, Reply(request_id="", outcome=Answer(text="Corretta")))]
    out.put(f"{part_folder('judgements', 'maia', 'j')}/aaaaaaaaaaaaaaaaaaaaaaaa.parquet", to_parquet(rows, PREDICTIONS))
    assert JudgeReplies.load("j", SPEC, out, "maia").verdict(ASK, read_verdict).accepted is True


def row(sample: Sample, model: str, setting: str, output: str | None, status: str = "ok") -> Row:
    return Row(
        request_id="", sample=sample, model=model, task="oevqa", setting=setting, variant="", status=status,
        output=output,
    )  # fmt: skip


@pytest.fixture
def sample() -> Sample:
    return Sample(sample_id="video1/x_A", data={"question": "Che cosa?", "answers": [f"r{i}" for i in range(8)]})


@pytest.fixture
def scoring(maia_data: str, target: ModelTarget) -> ScoringContext:
    return ScoringContext.open(maia_data, target.prompts)


def test_equal_answers_share_one_question(sample: Sample, scoring: ScoringContext) -> None:
    rows = [
        row(sample, "m1", "1-frame", "un cane"), row(sample, "m1", "32-frames", " un cane "),
        row(sample, "m2", "1-frame", "un cane"), row(sample, "m2", "32-frames", "un gatto"),
        row(sample, "m2", "black-video", ""), row(sample, "m2", "black-video", None, "error"),
    ]  # fmt: skip
    asked_ids: set[str] = set()
    ids = [request.request_id for request, _ in open_questions(judge(), rows, scoring, asked_ids)]
    assert len(ids) == 2
    assert asked_ids == set(ids)
    assert list(open_questions(judge(), rows, scoring, asked_ids)) == []


def words(request: Request) -> str:
    (part,) = request.steps[0].turns[0].parts
    assert isinstance(part, Text)
    return part.text


def test_loader_reads_the_plan(maia_data: str, tmp_path: Path, scoring: ScoringContext, target: ModelTarget) -> None:
    out = Store(str(tmp_path))
    fingerprint = scoring.dataset.manifest.dataset_fingerprint
    predictions = [
        prediction_row(
            {"request_id": f"{i:032x}", "sample_id": name, "benchmark": "maia", "task": "oevqa", "setting": "1-frame",
             "variant": "", "model": "m", "model_revision": "", "dataset_fingerprint": fingerprint,
             "prompt_version": "", "prompt_sha256": ""},
            Reply(request_id="", outcome=Answer(text=f"risposta {i // 2}") if i else Failure(type="x", message="y")),
        )
        for i, name in enumerate(sorted(scoring.samples)[:4])
    ]  # fmt: skip
    part = f"{part_folder('predictions', 'maia', 'm')}/148de9c5a7a44d19e56cd9ae.parquet"
    out.put(part, to_parquet(predictions, PREDICTIONS))
    questions = list(open_questions(judge(), rows_of(read_part(out, part), scoring), scoring, set()))
    plan = ModelPlan(target)
    plan_questions(judge(), questions, scoring, out, plan)
    (unit,) = plan.units
    assert unit.requests == plan.to_do == 3
    assert plan.prompt_tokens == sum(round(len(words(request)) / CHARS_PER_TOKEN) for request, _ in questions) > 0
    assert plan.output_tokens == 3 * questions[0][0].steps[0].generation.max_new_tokens > 0
    loader = JudgeLoaderSpec(out_uri=out.uri, judge="j", revision="r")
    loaded = JudgeLoader(loader).load(unit)
    assert loaded.requests == [request for request, _ in questions]
    for request, row in questions:
        text = words(request)
        assert len(re.findall(r"^\d\. La risposta", text, re.MULTILINE)) == 8
        assert "<risposta>\nrisposta " in text
        columns = loaded.columns[request.request_id]
        assert (columns["sample_id"], columns["task"], columns["model"]) == (row.sample.sample_id, "judge", "j")
        assert columns["dataset_fingerprint"] == fingerprint
    run_in_process(Job(model="j", spec=SPEC, loader=loader, out=out.uri, units=[unit]), lambda _: None)
    replies = JudgeReplies.load("j", SPEC, out, "maia").replies
    assert replies.keys() == {request.request_id for request, _ in questions}
    delete_judge_plans(out, "maia")
    assert out.list("plan") == []

"""Judge questions: sent once, retried by seed, read back from earlier runs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from models.messages import Answer, Failure, Generation, Reply, Request, Step, Text, user
from models.spec import ModelSpec
from pipelines.benchmarks.judges import CHECKS, PADDED, SWAPPED, changed_row, check_metrics, check_value
from pipelines.benchmarks.maia.answers import read_verdict
from pipelines.benchmarks.records import JudgeRequest, Row, Sample, Verdict
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.prompt_plan import CHARS_PER_TOKEN
from pipelines.plan.records import ModelPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import RunSpec
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
from pipelines.sweep.run import run_sweep

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


def checked_row(**data: Any) -> Row:
    sample = Sample(sample_id="a", data=data)
    return Row(request_id="r", sample=sample, model="m", task="t", setting="s", variant="", status="ok", output="red")


@pytest.mark.parametrize(
    ("data", "swapped", "output"),
    [
        ({"answers": ["one", "two"]}, {"answers": ["two", "one"]}, "red"),
        ({"answers": ["one"]}, {"answers": ["red"]}, "one"),
        ({"sentence": "one", "phrase": "p"}, {"sentence": "red", "phrase": "p"}, "one"),
    ],
)
def test_swapped_turns_references_or_the_answer(data: dict[str, Any], swapped: dict[str, Any], output: str) -> None:
    changed = changed_row(checked_row(**data), SWAPPED)
    assert (changed.sample.data, changed.output) == (swapped, output)


def test_padded_answers_and_shifts_by_hand() -> None:
    padded = changed_row(checked_row(), PADDED)
    assert padded.output == "red red"
    assert changed_row(checked_row(), SWAPPED) is None
    frame = pd.DataFrame(
        {"task": "t", "setting": "s", "cluster": "", "sample_id": list("abcde"), "status": "ok",
         "accepted": [1.0, 0.0, 0.0, 1.0, 1.0], check_value(PADDED): [1.0, 1.0, 1.0, 0.0, np.nan]}
    )  # fmt: skip
    metrics = {(m.metric, m.category): m for m in check_metrics(frame)}
    assert {key: (m.value, m.n) for key, m in metrics.items()} == {
        ("judge_changed", PADDED): (0.75, 4),
        ("judge_shift", PADDED): (0.25, 4),
        # mean d = 1/4, mean square 3/4: t^2 = 3 d^2 / (3/4 - d^2 / 4) of three degrees of freedom
        ("judge_shift_p", PADDED): (pytest.approx(0.648139, abs=1e-6), 4),
    }
    shift = metrics["judge_shift", PADDED]
    assert shift.ci_low is not None
    assert shift.ci_low < 0
    assert check_metrics(frame[["task", "setting"]]) == []


def test_a_sweep_asks_so_many_changed_questions_and_keeps_its_metrics(tmp_path: Path) -> None:
    with (tmp_path / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer"))
        rows.writerows((f"q{number}", f"What is {number}?", f"word {number}") for number in range(12))
    data = str(tmp_path / "data")
    ingest_table(str(tmp_path / "questions.csv"), Store(data), name="checked", kind="open")
    load_tables(data, ["checked"])
    guess = ModelSpec(engine="random")
    accuracies = []
    for checks in (0, 5):
        spec = RunSpec(
            data=data, out=str(tmp_path / "out"), models={"m": guess}, benchmarks=("checked",),
            judges=(("judge", ModelSpec(engine="random", seed=1)),), judge_checks=checks,
        )  # fmt: skip
        run_sweep(spec)
        numbers = json.loads((tmp_path / "out" / "report" / "metrics.json").read_text())
        accuracies += [n["value"] for n in numbers if n["metric"] == "judged_accuracy"]
    assert accuracies[0] == accuracies[1]
    check_counts = {n["category"]: n["n"] for n in numbers if n["metric"] == "judge_changed"}
    assert set(check_counts) == set(CHECKS)
    assert max(check_counts.values()) <= 5
    store = Store(str(tmp_path / "out"))
    questions = sum(read_part(store, info.path).num_rows for info in store.list("judgements", "*.parquet"))
    assert questions > 12 + 5
    table = (tmp_path / "out" / "report" / "tables" / "checked_judge_checks.csv").read_text().splitlines()
    assert {line["Question"] for line in csv.DictReader(table)} == set(CHECKS)

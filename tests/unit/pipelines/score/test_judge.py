"""Judge questions: asked once, retried by seed, read back from what earlier runs left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from models.messages import Answer, Failure, Generation, Reply, Step, user
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.maia.answers import read_verdict
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeAsk, Row, Sample, Verdict
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.score.judge import Judge, JudgeLoader, JudgeLoaderSpec, judge_units
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store

SPEC = ModelSpec(engine="random")
ASK = JudgeAsk(step=Step(turns=(user("Giusto?"),), generation=Generation(max_new_tokens=64)))


def judge(said: Sequence[str] = (), failed: bool = False) -> Judge:
    one = Judge(name="j", spec=SPEC)
    for attempt, text in enumerate(said):
        one.said[one.question(ASK, attempt).request_id] = text
    if failed:
        one.failed.add(one.question(ASK, len(said)).request_id)
    return one


@pytest.mark.parametrize(
    ("said", "failed", "verdict"),
    [
        ([], False, Verdict(state="absent", tries=0)),
        ([], True, Verdict(state="failed", tries=0)),
        (['{"correct": true}'], False, Verdict(state="ok", accepted=True, tries=1)),
        (["forse"], False, Verdict(state="absent", tries=1)),
        (["forse", "No"], False, Verdict(state="ok", accepted=False, tries=2)),
        (["forse", "boh"], True, Verdict(state="failed", tries=2)),
        (["forse", "boh", ""], False, Verdict(state="invalid", tries=3)),
    ],
)
def test_what_replies_amount_to(said: list[str], failed: bool, verdict: Verdict) -> None:
    assert judge(said, failed).verdict(ASK, read_verdict) == verdict


def test_a_retry_differs_in_its_seed_alone() -> None:
    first, second = (judge().question(ASK, attempt) for attempt in (0, 1))
    assert first.request_id != second.request_id
    assert first.steps[0].turns == second.steps[0].turns
    assert [q.steps[0].generation.seed for q in (first, second)] == [42, 43]


def row(sample: Sample, model: str, setting: str, output: str | None, status: str = "ok") -> Row:
    return Row(
        request_id="",
        sample=sample,
        model=model,
        task="oevqa",
        setting=setting,
        variant="",
        status=status,
        output=output,
    )


@pytest.fixture
def sample() -> Sample:
    return Sample(sample_id="video1/x_A", data={"question": "Che cosa?", "answers": [f"r{i}" for i in range(8)]})


def test_equal_answers_share_one_question(sample: Sample) -> None:
    texts = PromptTexts(benchmark("maia").prompt_texts)
    rows = [
        ("p1", row(sample, "m1", "1-frame", "un cane")),
        ("p1", row(sample, "m1", "32-frames", " un cane ")),
        ("p2", row(sample, "m2", "1-frame", "un cane")),
        ("p2", row(sample, "m2", "32-frames", "un gatto")),
        ("p2", row(sample, "m2", "black-video", "")),
        ("p2", row(sample, "m2", "black-video", None, "error")),
    ]
    units = judge_units(judge(), rows, "maia", texts)
    assert [unit.requests for unit in units] == [2]
    assert [piece.shard for piece in units[0].pieces] == ["p1", "p2"]
    skipped = judge_units(judge(), rows, "maia", texts, skip=set(units[0].only))
    assert skipped == []


def test_a_worker_makes_the_same_questions(maia_data: str, tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    from pipelines.score.rows import ScoringContext, rows_of

    context = ScoringContext.from_json(maia_data, "maia", "[{}, {}]", 42)
    fingerprint = context.dataset.manifest.dataset_fingerprint
    names = sorted(context.samples)[:4]
    table = [
        prediction_row(
            {
                "request_id": f"{i:032x}",
                "sample_id": name,
                "benchmark": "maia",
                "task": "oevqa",
                "setting": "1-frame",
                "variant": "",
                "model": "m",
                "model_revision": "",
                "dataset_fingerprint": fingerprint,
                "prompt_version": "",
                "prompt_sha256": "",
            },
            Reply(request_id="", outcome=Answer(text=f"risposta {i // 2}") if i else Failure(type="x", message="y")),
        )
        for i, name in enumerate(names)
    ]
    part = f"{part_folder('predictions', 'maia', 'm')}/p.parquet"
    out.put(part, to_parquet(table, PREDICTIONS))
    rows = [(part, one) for one in rows_of(out, part, context)]
    (unit,) = judge_units(judge(), rows, "maia", context.texts)
    assert unit.requests == 3
    spec = JudgeLoaderSpec(
        data=maia_data,
        out=str(tmp_path),
        benchmark="maia",
        judge="j",
        spec=SPEC,
        prompts="[{}, {}]",
        attempts=3,
        seed=42,
    )
    loaded = JudgeLoader(spec).load(unit)
    assert sorted(request.request_id for request in loaded.requests) == sorted(unit.only)
    for request in loaded.requests:
        words = request.steps[0].turns[0].parts[0].text
        assert len(re.findall(r"^\d\. La risposta", words, re.MULTILINE)) == 8
        assert "<risposta>\nrisposta " in words


def test_earlier_verdicts_are_recalled(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    question = judge().question(ASK, 0)
    columns = {"request_id": question.request_id, "benchmark": "maia", "task": "judge"}
    rows = [prediction_row(columns, Reply(request_id="", outcome=Answer(text="Corretta")))]
    out.put(f"{part_folder('judgements', 'maia', 'j')}/a.parquet", to_parquet(rows, PREDICTIONS))
    assert Judge.recall("j", SPEC, out, "maia").verdict(ASK, read_verdict).accepted is True

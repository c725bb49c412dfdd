"""Conversations of several steps run step by step, as successive batches; shared steps are sent once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

from models.messages import Generation, Request, Step, StepOutput, user
from pipelines.errors import ModelUnavailableError
from pipelines.media.recent_frames import FrameSource
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded
from pipelines.predict.records import Job
from pipelines.storage.parts import part_folder
from tests.support.endpoint import BatchEndpoint, BatchScript, EndpointRequest
from tests.unit.pipelines.predict.batches.rig import entry, records, rows, run

QUESTIONS = 3
UNITS = 2


@dataclass(frozen=True)
class _Chats:
    """Loads requests of two steps: a caption, which all requests share, and a question about it."""

    def build(self, frames: FrameSource | None = None) -> _Chats:
        return self

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: object = None) -> Loaded:
        names = [f"{Path(unit.part).stem}{number}" for number in range(unit.requests)]
        caption = Step(turns=(user("Describe."),), generation=Generation(max_new_tokens=8))
        requests = [
            Request(request_id=name, steps=(caption, Step(turns=(user("About ", StepOutput(0), f": {name}?"),))))
            for name in names
        ]
        columns = {name: {"request_id": name, "task": "t", "setting": "s", "benchmark": "maia"} for name in names}
        return Loaded(unit=unit, columns=columns, requests=requests, media={})

    def close(self) -> None:
        pass


def chat_job(out: Path, endpoint: BatchEndpoint, **fields: object) -> Job:
    folder = part_folder("predictions", "maia", "m")
    units = [
        WorkUnit(benchmark="maia", part=f"{folder}/{name}.parquet", slices=(), requests=QUESTIONS)
        for name in ("a" * 24, "b" * 24)
    ]
    return Job(model="m", spec=entry(endpoint, **fields), loader=_Chats(), out=str(out), units=units)


def answer(request: EndpointRequest) -> str:
    return "a red ball" if request.text == "Describe." else f"yes, {request.text}"


def test_steps_are_successive_batches_and_shared_ones_are_sent_once(tmp_path: Path) -> None:
    with BatchEndpoint(answer) as endpoint:
        run(chat_job(tmp_path, endpoint))
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [1, QUESTIONS * UNITS]
    committed = rows(tmp_path)
    assert len(committed) == QUESTIONS * UNITS
    for row in committed:
        assert row["steps"] == ["a red ball"]
        assert row["output"] == f"yes, About a red ball: {row['request_id']}?"
    assert records(tmp_path) == []


def test_killed_run_keeps_the_answers_of_early_steps(tmp_path: Path) -> None:
    with BatchEndpoint(answer) as endpoint:
        endpoint.batches.on_create = lambda: endpoint.batches.refusals.append(400)
        with pytest.raises(ModelUnavailableError, match="refused by the script"):
            run(chat_job(tmp_path, endpoint))  # ends at the creation of the second batch
        endpoint.batches.on_create = lambda: None
        endpoint.batches.refusals.clear()
        assert records(tmp_path)
        run(chat_job(tmp_path, endpoint))
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [1, QUESTIONS * UNITS]
    assert set(endpoint.batches.billed.values()) == {1}
    assert records(tmp_path) == []


def test_step_that_expires_is_sent_again(tmp_path: Path) -> None:
    scripts = {0: BatchScript(end="expired", answered=0.0)}
    with BatchEndpoint(answer, lambda number: scripts.get(number, BatchScript())) as endpoint:
        run(chat_job(tmp_path, endpoint))
    assert {row["status"] for row in rows(tmp_path)} == {"ok"}


def test_thoughts_are_split_from_answers(tmp_path: Path) -> None:
    with BatchEndpoint(lambda _: "<think>hm</think>blue") as endpoint:
        run(chat_job(tmp_path, endpoint, reasoning_tokens=100))
        assert endpoint.batches.batches[0].lines[0]["body"]["max_tokens"] == 108
    assert {(row["output"], row["reasoning"]) for row in rows(tmp_path)} == {("blue", "hm")}

"""Batches in the protocols of all engines of endpoints: nothing is asked or paid twice, refusals are read alike."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from models.engines import open_batch_api
from pipelines.errors import ModelUnavailableError
from pipelines.predict.batches.runner import BatchRunner
from tests.support.endpoint import BatchEndpoint, BatchScript, EndpointRequest, Say, Status, always
from tests.support.turns import in_turns
from tests.unit.models.engines.endpoints.rig import ENGINES
from tests.unit.pipelines.predict.batches.rig import REQUESTS, check_complete, entry, job_of, records, rows, run

CREDIT = "Your credit balance is too low to access the API."

pytestmark = pytest.mark.parametrize("engine", in_turns(ENGINES, ("openai",)))


def test_answers_tokens_and_thoughts_arrive(maia_data: str, tmp_path: Path, engine: str) -> None:
    with BatchEndpoint(lambda _: Say(text="A", cached_tokens=7), engine=engine) as endpoint:
        receipts = run(job_of(maia_data, tmp_path, endpoint, batch_max_requests=20))
        assert sum(sum(receipt.counts.values()) for receipt in receipts) == REQUESTS
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [20, 12]
        assert not endpoint.requests
        check_complete(tmp_path, endpoint)
    committed = rows(tmp_path)
    names = ("output", "cached_tokens", "decoding", "frames_used")
    assert {tuple(row[name] for name in names) for row in committed} == {("A", 7, "greedy", 1)}
    assert all(row["input_tokens"] > 100 for row in committed)


def test_batch_that_expires_keeps_its_answers(maia_data: str, tmp_path: Path, engine: str) -> None:
    scripts = {0: BatchScript(end="expired", answered=0.5)}
    with BatchEndpoint(always("A"), lambda number: scripts.get(number, BatchScript()), engine=engine) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [REQUESTS, REQUESTS // 2]
        check_complete(tmp_path, endpoint)


def test_batch_whose_creation_was_not_confirmed_is_found(maia_data: str, tmp_path: Path, engine: str) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=0), engine=engine) as endpoint:
        endpoint.batches.refusals = [500]
        run(job_of(maia_data, tmp_path, endpoint, batch_max_requests=20))
        assert len(endpoint.batches.batches) == 2
        check_complete(tmp_path, endpoint)


def test_batch_of_a_run_that_died_is_adopted(maia_data: str, tmp_path: Path, engine: str) -> None:
    with BatchEndpoint(always("A"), engine=engine) as endpoint:

        def die() -> None:
            raise SystemExit

        api = type(open_batch_api(entry(endpoint)))
        with pytest.MonkeyPatch.context() as patched:
            create = api.create
            patched.setattr(api, "create", lambda self, uploaded, key: (create(self, uploaded, key), die()))
            with pytest.raises(SystemExit):
                run(job_of(maia_data, tmp_path, endpoint))
        assert len(records(tmp_path)) == 1
        server = endpoint.batches
        if engine == "anthropic":  # whose list shows by time and number alone which batch it may be
            server.create([{"custom_id": f"x{n}", "body": {}} for n in range(REQUESTS)], file_id="", metadata={})
            server._answer = lambda body: endpoint._answer(body) if body else (429, {"error": {"message": "no"}})
        server.on_create = lambda: pytest.fail("sent twice")
        run(job_of(maia_data, tmp_path, endpoint))
        check_complete(tmp_path, endpoint)


def test_refused_creation_ends_the_run_in_the_provider_s_words(maia_data: str, tmp_path: Path, engine: str) -> None:
    with BatchEndpoint(always("A"), engine=engine) as endpoint:
        endpoint.batches.refusals, endpoint.batches.refusal_message = [400], CREDIT
        with pytest.raises(ModelUnavailableError, match=f"HTTP 400: {CREDIT}"):
            run(job_of(maia_data, tmp_path, endpoint))
        assert records(tmp_path) == []
        run(job_of(maia_data, tmp_path, endpoint))
        check_complete(tmp_path, endpoint)


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, CREDIT), (401, "invalid x-api-key"), (403, "no access to this model"), (400, "`prompt` is required")],
)
def test_lines_refused_alike_end_a_run(maia_data: str, tmp_path: Path, engine: str, status: int, message: str) -> None:
    faults = [Status(status=status, message=message)]
    with BatchEndpoint(lambda _: faults[0] if faults else "A", engine=engine) as endpoint:
        with pytest.raises(ModelUnavailableError, match=f"refused alike: http_{status}: {message}"):
            run(job_of(maia_data, tmp_path, endpoint))
        assert rows(tmp_path) == []
        faults.clear()
        run(job_of(maia_data, tmp_path, endpoint))
        assert len(endpoint.batches.batches) == 2
        check_complete(tmp_path, endpoint)


def test_some_refused_lines_are_rows(maia_data: str, tmp_path: Path, engine: str) -> None:
    def script(request: EndpointRequest) -> Any:
        return Status(status=400, message="unreadable picture") if len(request.text) % 3 else "A"

    with BatchEndpoint(script, engine=engine) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
        assert len(endpoint.batches.batches) == 1
    counts = Counter((row["status"], row["error_type"], row["error"]) for row in rows(tmp_path))
    assert counts["error", "http_400", "unreadable picture"] >= 16
    assert counts["ok", "", ""] > 0


def test_refused_parameters_are_left_out_and_said(maia_data: str, tmp_path: Path, engine: str) -> None:
    """Two are refused, one after the other, and a killed run does not ask for them again."""

    def script(request: EndpointRequest) -> Any:
        for name in ("temperature", "seed"):
            if name in request.body:
                return Status(status=400, message=f"Unsupported parameter: '{name}' is not supported with this model")
        return "A"

    refused = ["temperature"] if engine == "anthropic" else ["temperature", "seed"]
    with BatchEndpoint(script, engine=engine) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint)
        stop, receipts = threading.Event(), list[Any]()
        runner = BatchRunner(job, receipts.append, note=lambda _: None, stop=stop)
        endpoint.batches.on_create = lambda: stop.set() if len(endpoint.batches.batches) == 2 else None
        runner.run()  # ends early, once it has sent the second batch
        runner.close()
        endpoint.batches.on_create = lambda: None
        receipts += run(job_of(maia_data, tmp_path, endpoint))
        lines = [batch.lines[0]["body"] for batch in endpoint.batches.batches]
        assert len(lines) == len(refused) + 1
        assert [[name for name in refused if name in body] for body in lines] == [
            refused[number:] for number in range(len(lines))
        ]
        check_complete(tmp_path, endpoint)
    warnings = {text for receipt in receipts for text in receipt.warnings}
    assert warnings == {f"m-1: the endpoint refuses {name}, which is not sent" for name in refused}
    assert {row["decoding"] for row in rows(tmp_path)} == {"sampled"}


def test_entry_that_omits_the_temperature_samples(maia_data: str, tmp_path: Path, engine: str) -> None:
    with BatchEndpoint(always("A"), engine=engine) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint, omit_parameters=["temperature"]))
        assert "temperature" not in json.dumps(endpoint.batches.batches[0].lines)
    assert {row["decoding"] for row in rows(tmp_path)} == {"sampled"}


def test_clip_that_is_too_long_is_sent_with_fewer_frames(maia_data: str, tmp_path: Path, engine: str) -> None:
    def script(request: EndpointRequest) -> Any:
        message = "prompt is too long: 300000 tokens > 200000 maximum"
        return Status(status=400, message=message) if len(request.pictures) > 16 else "A"

    with BatchEndpoint(script, engine=engine) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint, setting="32-frames"))
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [REQUESTS] * 3  # 32, 24 and 16 frames
        check_complete(tmp_path, endpoint)
    assert {row["frames_used"] for row in rows(tmp_path)} == {16}


def test_interrupted_run_cancels_and_keeps_what_is_finished(maia_data: str, tmp_path: Path, engine: str) -> None:
    stop = threading.Event()
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=99, answered=0.25), engine=engine) as endpoint:
        endpoint.batches.on_poll = lambda polls: stop.set() if polls == 3 else None
        runner = BatchRunner(job_of(maia_data, tmp_path, endpoint), list[Any]().append, note=lambda _: None, stop=stop)
        runner.run()
        runner.close()
        assert endpoint.batches.cancelled == ["batch_0"]
        endpoint.batches.script = lambda _: BatchScript()
        run(job_of(maia_data, tmp_path, endpoint))
        assert [len(batch.lines) for batch in endpoint.batches.batches] == [REQUESTS, REQUESTS * 3 // 4]
        check_complete(tmp_path, endpoint)


def test_lost_batch_is_explained(maia_data: str, tmp_path: Path, engine: str) -> None:
    with (
        BatchEndpoint(always("A"), lambda _: BatchScript(lost=True), engine=engine) as endpoint,
        pytest.raises(ModelUnavailableError, match="no record of batch"),
    ):
        run(job_of(maia_data, tmp_path, endpoint))

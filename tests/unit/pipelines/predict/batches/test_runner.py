"""A job in batches: each request is committed and billed once, whatever becomes of its batches."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cluster.lazy import open_cluster
from models.spec import ModelSpec
from pipelines.errors import CostLimitReachedError, ModelUnavailableError
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.batches.records import BatchRecords
from pipelines.predict.batches.runner import BatchRunner, run_in_batches, warn_of_batches
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.stage import predict
from pipelines.predict.status import StatusWriter
from tests.support.endpoint import BatchEndpoint, BatchScript, EndpointRequest, Say, Status, always
from tests.unit.pipelines.predict.batches.rig import REQUESTS, check_complete, entry, job_of, records, rows, run


def test_bodies_are_those_of_single_requests(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A")) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint, extra_body={"safe_mode": True}, top_p=0.5))
    (batch,) = endpoint.batches.batches
    for line in batch.lines:
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        body = line["body"]
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("m-1", 16, 0.0)
        assert (body["safe_mode"], body["top_p"]) == (True, 0.5)
        assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url", "text"]
        assert len(line["custom_id"]) <= 64


@pytest.mark.parametrize("limits", [{"batch_max_requests": 5}, {"batch_max_bytes": 20_000}])
def test_files_keep_the_provider_s_limits(maia_data: str, tmp_path: Path, limits: dict[str, int]) -> None:
    with BatchEndpoint(always("A")) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint, **limits))
    check_complete(tmp_path, endpoint)
    assert len(endpoint.batches.batches) > 1
    assert all(len(batch.lines) <= limits.get("batch_max_requests", 99) for batch in endpoint.batches.batches)
    files = [endpoint.batches.files[batch.file_id] for batch in endpoint.batches.batches]
    assert all(len(content) <= limits.get("batch_max_bytes", 10**9) for content in files)


def test_no_more_batches_are_in_flight_than_the_entry_allows(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=3)) as endpoint:
        open_batches: list[int] = []
        server = endpoint.batches
        server.on_create = lambda: open_batches.append(sum(b.status == "in_progress" for b in server.batches))
        run(job_of(maia_data, tmp_path, endpoint, samples=12, batch_max_requests=64, batch_max_in_flight=1))
    assert len(rows(tmp_path)) == 96
    assert max(open_batches) == 1


def test_requests_that_no_batch_answers_become_error_rows(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(end="expired", answered=0.0)) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
    assert len(endpoint.batches.batches) == 3
    committed = rows(tmp_path)
    assert {(row["status"], row["error_type"]) for row in committed} == {("error", "batch_unanswered")}
    assert len(committed) == REQUESTS


def test_lines_with_errors_become_error_rows_which_a_later_run_sends_again(maia_data: str, tmp_path: Path) -> None:
    failing = {"on": True}

    def script(request: EndpointRequest) -> Any:
        return Status(status=503, message="overloaded") if failing["on"] and len(request.text) % 3 == 0 else "B"

    with BatchEndpoint(script) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
        counts = Counter((row["status"], row["error_type"]) for row in rows(tmp_path))
        assert set(counts) == {("ok", ""), ("error", "http_503")}
        failing["on"] = False
        job = job_of(maia_data, tmp_path, endpoint)
        assert sum(unit.requests for unit in job.units) == counts["error", "http_503"]
        run(job)
    check_complete(tmp_path, endpoint)


def test_lost_batch_is_explained_and_no_row_is_lost(maia_data: str, tmp_path: Path) -> None:
    scripts = {1: BatchScript(lost=True)}
    with BatchEndpoint(always("A"), lambda number: scripts.get(number, BatchScript())) as endpoint:
        fields = {"batch_max_requests": 192, "samples": 48}
        with pytest.raises(ModelUnavailableError, match=r"batch batch_1 .* delete .*\.json and run") as error:
            run(job_of(maia_data, tmp_path, endpoint, **fields))
        assert len(rows(tmp_path)) == 192
        with pytest.raises(ModelUnavailableError, match="no record of batch batch_1"):
            run(job_of(maia_data, tmp_path, endpoint, **fields))
        assert len(endpoint.batches.batches) == 2  # nothing was sent again without a decision
        (record,) = [path for path in records(tmp_path) if str(path) in str(error.value)]
        record.unlink()
        run(job_of(maia_data, tmp_path, endpoint, **fields))
    assert len({row["request_id"] for row in rows(tmp_path)}) == len(rows(tmp_path)) == 384
    assert set(endpoint.batches.billed.values()) == {1}


def test_refused_line_becomes_an_error_row_and_the_others_are_sent(maia_data: str, tmp_path: Path) -> None:
    scripts = {0: BatchScript(end="failed", problem=("invalid_request", "too many pictures", 3))}
    with BatchEndpoint(always("A"), lambda number: scripts.get(number, BatchScript())) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
    committed = rows(tmp_path)
    assert Counter(row["status"] for row in committed) == {"ok": REQUESTS - 1, "error": 1}
    assert [row["error"] for row in committed if row["status"] == "error"] == ["invalid_request: too many pictures"]


def test_refused_batch_ends_the_run_with_the_provider_s_reason(maia_data: str, tmp_path: Path) -> None:
    script = BatchScript(end="failed", problem=("model_not_found", "no model m-1", None))
    reason = "refused batch batch_0: model_not_found: no model m-1"
    with BatchEndpoint(always("A"), lambda _: script) as endpoint, pytest.raises(ModelUnavailableError, match=reason):
        run(job_of(maia_data, tmp_path, endpoint))
    assert records(tmp_path) == []


def test_full_queue_of_the_provider_is_waited_for(maia_data: str, tmp_path: Path) -> None:
    scripts = {
        0: BatchScript(polls=4),
        1: BatchScript(end="failed", problem=("token_limit_exceeded", "queue is full", None)),
    }
    with BatchEndpoint(always("A"), lambda number: scripts.get(number, BatchScript())) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint, samples=12, batch_max_requests=64))
        assert len(endpoint.batches.batches) == 3
    assert len(rows(tmp_path)) == 96
    assert set(endpoint.batches.billed.values()) == {1}


def test_other_name_of_the_token_limit_is_learned(maia_data: str, tmp_path: Path) -> None:
    def script(request: EndpointRequest) -> Any:
        message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return Status(status=400, message=message) if "max_tokens" in request.body else "A"

    with BatchEndpoint(script) as endpoint:
        run(job_of(maia_data, tmp_path, endpoint))
        assert len(endpoint.batches.batches) == 2
    check_complete(tmp_path, endpoint)


def test_run_without_batches_warns_of_them(maia_data: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(lost=True)) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint)
        warn_of_batches(job)
        assert not caplog.messages
        with pytest.raises(ModelUnavailableError):
            run(job)
        warn_of_batches(job)
    assert f"{REQUESTS} requests are in batches at the provider" in caplog.text


def test_ctrl_c_waits_until_batches_are_cancelled(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=99)) as endpoint:
        endpoint.batches.on_poll = lambda polls: os.kill(os.getpid(), signal.SIGINT) if polls == 3 else None
        with pytest.raises(KeyboardInterrupt):
            run(job_of(maia_data, tmp_path, endpoint))
        assert endpoint.batches.cancelled == ["batch_0"]
    check_complete(tmp_path, endpoint)


def test_batches_of_requests_outside_this_run_are_left_alone(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=99)) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint, samples=12, batch_max_requests=64)
        runner = BatchRunner(job, list[Any]().append, note=lambda _: None, stop=threading.Event())
        runner._queue.restore()
        runner._visit_ready()
        runner._queue.flush()
        runner.close()  # as if killed: two batches are in flight
        endpoint.batches.batches[0].script = BatchScript()
        run(job_of(maia_data, tmp_path, endpoint, samples=4))
        assert len(endpoint.batches.batches) == 2
        assert {row["status"] for row in rows(tmp_path)} == {"ok"}
        endpoint.batches.batches[1].script = BatchScript()
        run(job_of(maia_data, tmp_path, endpoint, samples=12))
        assert len(endpoint.batches.batches) == 2
    assert len(rows(tmp_path)) == 96
    assert records(tmp_path) == []


def test_cost_counts_half_and_the_limit_ends_the_run(maia_data: str, tmp_path: Path) -> None:
    price = {"input_per_million": 1000.0, "output_per_million": 1000.0}
    with BatchEndpoint(lambda _: Say(text="A")) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint, price=price, cost_limit=1.5)
        costs = CostTracker(limit=1.5)

        def on_receipt(receipt: Any) -> None:
            costs.add("m", job.spec, receipt.tokens)
            costs.check("m", is_refused=receipt.cost_limit_reached)

        with pytest.raises(CostLimitReachedError):
            run_in_batches(job, on_receipt, lambda _: None)
        billed = sum(endpoint.batches.billed.values())
        assert 0 < billed < REQUESTS
        tokens = sum(costs.tokens["m"])
        assert costs.total == pytest.approx(tokens * 500 / 1e6)
        assert costs.total <= 1.5
        run(job_of(maia_data, tmp_path, endpoint, price=price))
    check_complete(tmp_path, endpoint)


def test_endpoint_without_batches_says_so(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A")) as endpoint:
        endpoint.batches = None  # type: ignore[assignment]
        with pytest.raises(ModelUnavailableError, match="has no batch endpoint"):
            run(job_of(maia_data, tmp_path, endpoint))
    assert records(tmp_path) == []


def test_models_in_batches_run_concurrently(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.lazy.connect", lambda address: pytest.fail(f"Ray was started ({address})"))
    with BatchEndpoint(always("A")) as endpoint:
        server = endpoint.batches
        # A batch ends only after the other model's is there too: one model after the other would wait for ever.
        server.script = lambda _: BatchScript(polls=10**9)

        def release(_: int) -> None:
            if len(server.batches) == 2:
                for batch in server.batches:
                    batch.script = BatchScript(polls=0)

        server.on_poll = release
        spec = entry(endpoint)
        models = {"m": spec, "n": spec.model_copy(update={"model": "n-1"}), "r": ModelSpec(engine="random")}
        run_spec = RunSpec(data=maia_data, out=str(tmp_path), models=models, benchmarks=("maia",), limit="2")
        context = SweepContext.open(run_spec)
        plans = plan_sweep(context)
        status, costs = StatusWriter(context.out, plans), CostTracker(None)
        with open_cluster(None) as cluster:
            assert predict(context, cluster, plans, status, costs) == {}
        status.close()
    assert {group["done"] == group["requests"] for group in status.rows()} == {True}
    assert {line["body"]["model"] for batch in server.batches for line in batch.lines} == {"m-1", "n-1"}


@pytest.mark.parametrize("moment", ["put_results", "put"])
def test_death_while_storing(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    store = getattr(BatchRecords, moment)

    def die(records: BatchRecords, *args: Any) -> None:
        if moment == "put_results" or args[0].is_ended:
            raise SystemExit
        store(records, *args)

    with BatchEndpoint(always("A")) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint)
        monkeypatch.setattr(BatchRecords, moment, die)
        with pytest.raises(SystemExit):
            run(job)
        monkeypatch.undo()
        assert rows(tmp_path) == []
        run(job_of(maia_data, tmp_path, endpoint))
        assert len(endpoint.batches.batches) == 1
    check_complete(tmp_path, endpoint)

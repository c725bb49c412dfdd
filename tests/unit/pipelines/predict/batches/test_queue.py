"""Batches whose provider fails in the middle: no request is lost, waited for in vain, or paid twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import ModelUnavailableError
from tests.support.endpoint import BatchEndpoint, BatchScript, always
from tests.support.turns import in_turns
from tests.unit.pipelines.predict.batches.rig import job_of, records, rows, run

FAILURE = b'{"error": {"message": "failed by the script"}}'


def test_collected_batch_is_not_forgotten_when_the_look_at_the_next_one_fails(maia_data: str, tmp_path: Path) -> None:
    failures = [503, 503]

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        return (failures.pop(), FAILURE) if path == "/batches/batch_1" and failures else None

    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=0)) as endpoint:
        endpoint.batches.override = fail
        run(job_of(maia_data, tmp_path, endpoint, samples=12, batch_max_requests=64, retries=0))
        assert len(endpoint.batches.batches) == 2
    assert not failures
    assert len(rows(tmp_path)) == 96
    assert set(endpoint.batches.billed.values()) == {1}


@pytest.mark.parametrize(
    ("creations", "list_status", "retries"),
    [([500], 403, 1), ([500, 400], 200, 1), ([500], 200, 0)],
    ids=["the list is refused", "the next creation is refused", "the list does not show it yet"],
)
def test_record_stays_while_a_batch_may_exist(
    maia_data: str, tmp_path: Path, creations: list[int], list_status: int, retries: int
) -> None:
    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        is_list = method == "GET" and path.startswith("/batches?")
        return (list_status, FAILURE) if is_list and list_status >= 400 else None

    with BatchEndpoint(always("A")) as endpoint:
        server = endpoint.batches
        server.refusals, server.is_listed, server.override = creations, False, fail
        with pytest.raises(ModelUnavailableError, match="HTTP 500: the reply is lost"):
            run(job_of(maia_data, tmp_path, endpoint, retries=retries))
        assert len(records(tmp_path)) == 1
        server.is_listed, server.override = True, lambda method, path: None
        run(job_of(maia_data, tmp_path, endpoint))
        assert len(server.batches) == 1
    assert {row["status"] for row in rows(tmp_path)} == {"ok"}
    assert set(endpoint.batches.billed.values()) == {1}


@pytest.mark.parametrize("status", in_turns([404, 405, 501], [404]))
@pytest.mark.parametrize("is_created", [True, False])
def test_unlisted_batch_waits_for_a_person(maia_data: str, tmp_path: Path, status: int, is_created: bool) -> None:
    lost_replies = [500]

    def refuse(method: str, path: str) -> tuple[int, bytes] | None:
        if method == "GET" and path.startswith("/batches?"):
            return status, FAILURE
        is_lost = (method, path, is_created) == ("POST", "/batches", False) and lost_replies
        return (lost_replies.pop(), FAILURE) if is_lost else None

    with BatchEndpoint(always("A")) as endpoint:
        server = endpoint.batches
        server.refusals, server.override = [500] if is_created else [], refuse
        for _ in range(2):  # the second run finds the record of the first
            with pytest.raises(ModelUnavailableError) as error:
                run(job_of(maia_data, tmp_path, endpoint, retries=0))
            (record,) = records(tmp_path)
            assert f"does not list its batches (HTTP {status})" in str(error.value)
            assert f"vlmsweep_key {record.stem} in its metadata" in str(error.value)
            assert f"into {record}; if there is none, delete that file" in str(error.value)
        assert (len(server.batches), len(server.files)) == (int(is_created), 1)
        if is_created:
            content = json.loads(record.read_text())
            assert content["batch_id"] == ""
            record.write_text(json.dumps({**content, "batch_id": "batch_0"}))
        else:
            record.unlink()
        run(job_of(maia_data, tmp_path, endpoint, retries=0))
        assert len(server.batches) == 1
    assert len(rows(tmp_path)) == 32
    assert {row["status"] for row in rows(tmp_path)} == {"ok"}
    assert set(endpoint.batches.billed.values()) == {1}
    assert records(tmp_path) == []


def test_run_that_may_follow_fewer_batches_than_are_in_flight_waits_for_them(maia_data: str, tmp_path: Path) -> None:
    with BatchEndpoint(always("A"), lambda number: BatchScript(polls=2 * number)) as endpoint:
        job = job_of(maia_data, tmp_path, endpoint, batch_max_requests=8, batch_max_in_flight=3)
        assert [unit.requests for unit in job.units] == [32]
        endpoint.batches.refusals = [0, 0, 400]
        with pytest.raises(ModelUnavailableError, match="refused by the script"):
            run(job)
        assert len(endpoint.batches.batches) == 2  # they hold half of the unit
        run(job_of(maia_data, tmp_path, endpoint, batch_max_requests=8, batch_max_in_flight=1))
        assert len(endpoint.batches.batches) == 4
    assert len(rows(tmp_path)) == 32
    assert set(endpoint.batches.billed.values()) == {1}

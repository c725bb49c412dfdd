"""Several units of an endpoint at once: a full window, and answers that are committed before their unit is whole."""

from __future__ import annotations

import _thread
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.engines.endpoints import health
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.predict import open_units
from pipelines.predict.executor import run_in_process
from pipelines.predict.records import Job, Receipt
from pipelines.predict.stage import model_job
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import EndpointRequest, Say, Status

ONE_STEP = ("lm", "vlm")


def job_of(data: str, out: Path, spec: ModelSpec, settings: tuple[str, ...] = ()) -> Job:
    fields: dict[str, Any] = {"benchmarks": ("vague",), "settings": settings}
    context = SweepContext.open(RunSpec(data=data, out=str(out), models={"m": spec}, **fields))
    return model_job(context, "m", spec, plan_sweep(context)["m"])


def stored(out: Path) -> list[str]:
    """Return the request ids of all stored rows."""
    return [
        request_id
        for _, rows in iter_parts(Store(str(out)), part_folder("predictions", "vague", "m"), ["request_id"])
        for request_id in rows["request_id"].to_pylist()
    ]


def entry(endpoint: ScriptedEndpoint, **fields: int) -> ModelSpec:
    return ModelSpec(engine="openai", model="m", base_url=endpoint.base_url, **fields)


def counted(receipts: list[Receipt]) -> int:
    return sum(sum(receipt.counts.values()) for receipt in receipts)


class Gate:
    """Answers so many requests; the others wait until it is opened."""

    def __init__(self, passes: int, then: Callable[[], object] = lambda: None) -> None:
        self._passes, self._then, self._open, self._count = passes, then, threading.Event(), 0
        self._lock = threading.Lock()

    def __call__(self, request: EndpointRequest) -> Say:
        with self._lock:
            self._count += 1
            count = self._count
        if count > self._passes:
            self._then()
            self._open.wait(60)
        return Say(text="A")

    def open(self) -> None:
        self._open.set()


def test_window_is_filled_from_several_units(vague_data: str, tmp_path: Path) -> None:
    gate = Gate(1)
    with ScriptedEndpoint(gate) as endpoint:
        job = job_of(vague_data, tmp_path, entry(endpoint, concurrency=200))
        largest = max(unit.requests for unit in job.units)
        opener = threading.Thread(target=lambda: (reached(endpoint, largest + 10), gate.open()))
        opener.start()
        receipts = list[Receipt]()
        run_in_process(job, receipts.append)
        opener.join()
        assert endpoint.most_at_once > largest
    ids = stored(tmp_path)
    assert len(ids) == len({*ids}) == counted(receipts) == sum(unit.requests for unit in job.units)


def reached(endpoint: ScriptedEndpoint, count: int) -> None:
    """Wait until so many requests have come."""
    pause = threading.Event()
    while len(endpoint.requests) < count:
        pause.wait(0.02)


def test_answers_are_stored_in_time_and_counted_once(
    vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the rest of its unit is stored; the part holds all rows in the end."""
    monkeypatch.setattr(open_units, "SAVE_AFTER_S", 0.3)
    gate, receipts, early = Gate(20), list[Receipt](), list[int]()
    with ScriptedEndpoint(gate) as endpoint:
        job = job_of(vague_data, tmp_path, entry(endpoint, concurrency=40))

        def receive(receipt: Receipt) -> None:
            receipts.append(receipt)
            if not early:
                early.append(len(stored(tmp_path)))
                gate.open()

        run_in_process(job, receive)
    planned = sum(unit.requests for unit in job.units)
    assert early[0] == counted(receipts[:1]) < min(planned, 21)
    ids = stored(tmp_path)
    assert len(ids) == len({*ids}) == counted(receipts) == planned
    assert len({receipt.part for receipt in receipts}) == len(job.units) < len(receipts)


def test_interrupt_loses_no_answer_and_a_resumed_run_asks_for_the_rest(vague_data: str, tmp_path: Path) -> None:
    gate, receipts = Gate(30, then=interrupt_once()), list[Receipt]()
    with ScriptedEndpoint(gate) as endpoint:
        with pytest.raises(KeyboardInterrupt):
            run_in_process(job_of(vague_data, tmp_path, entry(endpoint, concurrency=4), ONE_STEP), receipts.append)
        gate.open()
        first = stored(tmp_path)
        assert len(first) == len({*first}) == counted(receipts) == 30
        rest: Job = job_of(vague_data, tmp_path, entry(endpoint, concurrency=4), ONE_STEP)
        asked = sum(unit.requests for unit in rest.units)
        run_in_process(rest, receipts.append)
    ids = Counter(stored(tmp_path))
    assert {*ids.values()} == {1}
    assert len(ids) == 30 + asked == counted(receipts)
    assert ids.keys() > {*first}


def test_endpoint_that_goes_away_leaves_what_it_has_answered(
    vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STREAK_LIMIT", 8)
    receipts = list[Receipt]()
    with ScriptedEndpoint(lambda request: Say(text="A") if request.number < 20 else Status(status=401)) as endpoint:
        job = job_of(vague_data, tmp_path, entry(endpoint, concurrency=4, retries=0), ONE_STEP)
        with pytest.raises(ModelUnavailableError, match="no answer to 8 consecutive calls"):
            run_in_process(job, receipts.append)
    assert len(stored(tmp_path)) == counted(receipts) >= 20
    answered = sum(count for receipt in receipts for (_, _, status), count in receipt.counts.items() if status == "ok")
    assert answered == 20


def interrupt_once() -> Callable[[], None]:
    """Return what interrupts the main thread at its first call, once the answers before it have arrived."""
    calls = list[threading.Timer]()

    def interrupt() -> None:
        if not calls:
            calls.append(threading.Timer(1.0, _thread.interrupt_main))
            calls[0].start()

    return interrupt

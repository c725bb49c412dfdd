"""A replica that prepares: the next pixels are preprocessed while it answers, its own batch's and the next batch's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from models.errors import EngineUnreachableError
from pipelines.predict import actors
from pipelines.predict.actors import EngineActor
from pipelines.predict.open_units import OpenUnits


class Pipeline:
    """Units are their names; answers wait until they may."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.may_answer = {name: threading.Event() for name in ("a1", "a2", "b1")}
        self.changed = threading.Condition()
        self.runner, self.wanted_calls = self, 0

    def prepare(self, loaded: Any) -> None:
        self.note(f"prepared {loaded.unit.part}")

    def answer(self, loaded: Any, rows: Any = None) -> Any:
        del rows
        self.note(f"answering {loaded.unit.part}")
        assert self.may_answer[loaded.unit.part].wait(60)
        return SimpleNamespace(unit=loaded.unit, fatal="")

    def note(self, event: str) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait_for(self, *events: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: {*events} <= {*self.events}, 60), self.events


def replica(monkeypatch: pytest.MonkeyPatch, *, prepares: bool) -> tuple[EngineActor, Pipeline]:
    def unit(name: str) -> Any:
        described = SimpleNamespace(part=name, requests=1, retried=True)
        return SimpleNamespace(unit=described, requests=[name], ready=[], media={})

    monkeypatch.setattr(actors, "unpack_units", lambda batch: map(unit, batch))
    monkeypatch.setattr(actors, "pack_answers", lambda answered: [item.unit.part for item in answered])
    monkeypatch.setattr(actors, "count_units", len)
    actor, pipeline = object.__new__(EngineActor), Pipeline()
    actor._bug, actor._fatal, actor._log_fields, actor._pipeline = None, "", None, pipeline
    actor._turn, actor._ahead = threading.Lock(), ThreadPoolExecutor(1) if prepares else None
    return actor, pipeline


def test_next_units_are_prepared_while_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, pipeline = replica(monkeypatch, prepares=True)
    with ThreadPoolExecutor(2) as calls:
        first = calls.submit(lambda: [*actor(["a1", "a2"])])
        pipeline.wait_for("answering a1", "prepared a2")
        second = calls.submit(lambda: [*actor(["b1"])])
        pipeline.wait_for("prepared b1")
        assert [event for event in pipeline.events if "answering" in event] == ["answering a1"]
        for event in pipeline.may_answer.values():
            event.set()
        assert (first.result(60), second.result(60)) == ([["a1", "a2"]], [["b1"]])
    assert [event for event in pipeline.events if "answering" in event] == [
        f"answering {name}" for name in ("a1", "a2", "b1")
    ]


def test_replica_on_the_cpu_prepares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, pipeline = replica(monkeypatch, prepares=False)
    for event in pipeline.may_answer.values():
        event.set()
    assert [*actor(["a1", "a2"])] == [["a1", "a2"]]
    assert pipeline.events == ["answering a1", "answering a2"]


def test_units_of_an_engine_that_takes_several_are_answered_at_once_and_yielded_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actor, pipeline = replica(monkeypatch, prepares=False)
    pipeline.wanted_calls, begun = 3, set[str]()
    actor._open_units = OpenUnits(pipeline)  # type: ignore[arg-type]
    actor._state = SimpleNamespace(was_begun=begun.__contains__)  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as calls:
        first = calls.submit(lambda: [*actor(["a1", "a2"])])
        second = calls.submit(lambda: [*actor(["b1"])])
        pipeline.wait_for("answering a1", "answering a2", "answering b1")
        for name in ("b1", "a2", "a1"):
            pipeline.may_answer[name].set()
        assert (first.result(60), second.result(60)) == ([["a1", "a2"]], [["b1"]])
    pipeline.events.clear()
    pipeline.may_answer["a1"].clear()
    begun.add("a2")  # its engine died
    with ThreadPoolExecutor(1) as calls:
        again = calls.submit(lambda: [*actor(["a1", "a2", "b1"])])
        pipeline.wait_for("answering a1")
        assert pipeline.events == ["answering a1"], "the one that may kill is alone"
        pipeline.may_answer["a1"].set()
        assert again.result(60) == [["a1", "a2", "b1"]]
    assert pipeline.events == ["answering a1", "answering a2", "answering b1"]


def test_what_was_answered_comes_before_the_end_of_an_unavailable_model(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, pipeline = replica(monkeypatch, prepares=False)
    pipeline.wanted_calls = 3
    actor._open_units = OpenUnits(pipeline)  # type: ignore[arg-type]
    actor._state = SimpleNamespace(was_begun=lambda _: False)  # type: ignore[assignment]
    answer = pipeline.answer

    def refuse_first(loaded: Any, rows: Any = None) -> Any:
        if loaded.unit.part == "a1":
            assert pipeline.may_answer["b1"].wait(60)
            raise EngineUnreachableError("gone")
        return answer(loaded, rows)

    monkeypatch.setattr(pipeline, "answer", refuse_first)
    monkeypatch.setattr(actor._open_units, "save", lambda **_: None)
    for name in ("a2", "b1"):
        pipeline.may_answer[name].set()
    assert [*actor(["a1", "a2", "b1"])] == [["a2", "b1", "a1"]]
    assert actor._fatal == "gone"

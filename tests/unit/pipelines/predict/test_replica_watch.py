"""What is noted about replicas while no unit is committed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pipelines.predict import replica_watch
from pipelines.predict.replica_watch import ReplicaWatch

BOARDS = [
    (0, 0, 0, []),
    (1, 0, 0, []),
    (1, 0, 0, [("loading", 1e9, 4e9)]),
    (1, 0, 0, [("loading", 3e9, 4e9)]),
    (0, 1, 0, []),
    (0, 1, 160, []),
    (0, 1, 160, []),
    (0, 1, 0, []),
]


def test_loading_and_answered_rows_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    boards: list[Any] = list(BOARDS)
    monkeypatch.setattr("ray.get", lambda _reference, timeout: boards.pop(0))
    monkeypatch.setattr(replica_watch, "monotonic", Mock(side_effect=[0.0, 1.0, 2.0, 4.0, 8.0]))
    notes: list[str] = []
    actor = SimpleNamespace(board=SimpleNamespace(remote=Mock()))
    watch = ReplicaWatch("m", {"CPU": 1.0}, actor, notes.append)
    monkeypatch.setattr(watch, "_ended", Mock(wait=lambda _seconds: not boards, is_set=lambda: False))
    watch._watch()
    assert notes == [
        "the model's process starts", "the model's process imports its engine and loads the weights",
        "loading weights, 1.00 of 4.00 GB", "loading weights, 3.00 of 4.00 GB, 500 MB/s, 2 s left",
        "the first requests are being answered", "160 rows answered of units that are not stored yet", "",
    ]  # fmt: skip


def test_board_is_not_asked_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may shut down then, and ends a process one of whose threads asks it meanwhile."""
    asked, answer = threading.Event(), threading.Event()

    def get(_reference: object, timeout: float) -> tuple[int, int, int, list[Any]]:
        asked.set()
        assert answer.wait(timeout)
        return 0, 0, 0, []

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr(replica_watch, "CHECK_S", 0.01)
    watch = ReplicaWatch("m", {"CPU": 1.0}, SimpleNamespace(board=SimpleNamespace(remote=Mock())), lambda _: None)
    with watch:
        assert asked.wait(30)
        threading.Timer(0.2, answer.set).start()
    assert watch._thread
    assert not watch._thread.is_alive()

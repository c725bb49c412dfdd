"""The board of replicas, without Ray."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pipelines.predict import replica_board
from pipelines.predict.replica_board import MAX_LOADS, ReplicaBoard, ReplicaWatch


def test_board_reports_the_last_progress_of_each_replica() -> None:
    board = ReplicaBoard()
    board.record_progress("a", "m", 1.0, 9.0)
    board.record_progress("b", "m", 2.0, 9.0)
    board.record_progress("a", "m", 5.0, 9.0)
    assert board.progress() == [("m", 5.0, 9.0), ("m", 2.0, 9.0)]


def test_board_keeps_the_reason_for_giving_up() -> None:
    board = ReplicaBoard()
    assert board.begin_load("a") == ""
    board.give_up("the engine dies")
    assert board.begin_load("a") == "the engine dies"


def failed(board: ReplicaBoard, replica: str, node: str = "n", reason: str = "disk full") -> str:
    assert board.begin_load(replica) == ""
    return board.record_failed_load(replica, node, reason)


def test_model_is_given_up_when_no_replica_is_left_to_hope_for() -> None:
    assert failed(ReplicaBoard(1), "a") == "disk full"
    board = ReplicaBoard(2)
    assert failed(board, "a") == "", "the other may start"
    assert failed(board, "b") == "disk full"
    board = ReplicaBoard(2)
    assert [failed(board, "a") for _ in range(MAX_LOADS)] == ["", "", "disk full"], "no other comes"


def test_failed_load_costs_one_replica_while_another_runs_or_loads() -> None:
    board = ReplicaBoard(2)
    board.begin_load("b")
    assert [failed(board, "a") for _ in range(2 * MAX_LOADS)] == [""] * 2 * MAX_LOADS
    board.record_start("b")
    assert failed(board, "a") == ""
    board.begin_load("b")  # its process died
    assert board.record_failed_load("b", "n", "the GPU is gone") == "the GPU is gone"


def test_reason_of_three_nodes_is_the_models_fault() -> None:
    board = ReplicaBoard(50)
    assert [failed(board, name, node=name) for name in "abc"] == ["", "", "disk full"]
    board = ReplicaBoard(50)
    assert [failed(board, name, node=name, reason=name) for name in "abc"] == ["", "", ""]


def test_smallest_limit_of_a_batch_is_what_was_learnt() -> None:
    board = ReplicaBoard()
    assert board.max_rows() is None
    for rows in (32, 8, 16):
        board.record_max_rows(rows)
    assert board.max_rows() == 8


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
    monkeypatch.setattr(replica_board, "monotonic", Mock(side_effect=[0.0, 1.0, 2.0, 4.0, 8.0]))
    notes: list[str] = []
    actor = SimpleNamespace(board=SimpleNamespace(remote=Mock()))
    watch = ReplicaWatch("m", {"CPU": 1.0}, actor, notes.append)
    monkeypatch.setattr(watch, "_ended", Mock(wait=lambda _seconds: not boards, is_set=lambda: False))
    watch._watch()
    assert notes == [
        "the model's process starts",
        "the model's process imports its engine and loads the weights",
        "loading weights, 1.00 of 4.00 GB",
        "loading weights, 3.00 of 4.00 GB, 500 MB/s, 2 s left",
        "the first requests are being answered",
        "160 rows answered of units that are not stored yet",
        "",
    ]


def test_board_is_not_asked_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may shut down then, and ends a process one of whose threads asks it meanwhile."""
    asked, answer = threading.Event(), threading.Event()

    def get(_reference: object, timeout: float) -> tuple[int, int, int, list[Any]]:
        asked.set()
        assert answer.wait(timeout)
        return 0, 0, 0, []

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr(replica_board, "CHECK_S", 0.01)
    watch = ReplicaWatch("m", {"CPU": 1.0}, SimpleNamespace(board=SimpleNamespace(remote=Mock())), lambda _: None)
    with watch:
        assert asked.wait(30)
        threading.Timer(0.2, answer.set).start()
    assert watch._thread
    assert not watch._thread.is_alive()

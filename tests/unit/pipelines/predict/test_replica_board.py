"""The board of replicas, without Ray."""

from pipelines.predict.replica_board import ReplicaBoard


def test_board_reports_each_warning_once() -> None:
    board = ReplicaBoard()
    board.record_start(("no plan",))
    board.record_start(("no plan", "slow"))
    assert board.started() == 2
    assert board.warnings() == ("no plan", "slow")


def test_board_reports_the_last_progress_of_each_replica() -> None:
    board = ReplicaBoard()
    board.record_progress("a", "m", 1.0, 9.0)
    board.record_progress("b", "m", 2.0, 9.0)
    board.record_progress("a", "m", 5.0, 9.0)
    assert board.progress() == [("m", 5.0, 9.0), ("m", 2.0, 9.0)]


def test_board_keeps_the_reason_for_giving_up() -> None:
    board = ReplicaBoard()
    assert board.given_up() == ""
    board.give_up("the engine dies")
    assert board.given_up() == "the engine dies"

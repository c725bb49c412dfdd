from pipelines.predict.replica_board import MAX_LOADS, ReplicaBoard


def test_board_keeps_progress_limits_and_the_reason_for_giving_up() -> None:
    board = ReplicaBoard()
    board.record_progress("a", "m", 1.0, 9.0)
    board.record_progress("b", "m", 2.0, 9.0)
    board.record_progress("a", "m", 5.0, 9.0)
    assert board.progress() == [("m", 5.0, 9.0), ("m", 2.0, 9.0)]
    assert board.begin_load("a") == ""
    board.give_up("the engine dies")
    assert board.begin_load("a") == "the engine dies"
    assert board.max_rows() is None
    for rows in (32, 8, 16):
        board.record_max_rows(rows)
    assert board.max_rows() == 8


def failed(board: ReplicaBoard, replica: str, node: str = "n", reason: str = "disk full") -> str:
    assert board.begin_load(replica) == ""
    return board.record_failed_load(replica, node, reason)


def test_model_is_given_up_when_no_replica_is_left_or_three_nodes_give_one_reason() -> None:
    assert failed(ReplicaBoard(1), "a") == "disk full"
    board = ReplicaBoard(2)
    assert failed(board, "a") == "", "the other may start"
    assert failed(board, "b") == "disk full"
    board = ReplicaBoard(2)
    assert [failed(board, "a") for _ in range(MAX_LOADS)] == ["", "", "disk full"], "no other comes"
    board = ReplicaBoard(50)
    assert [failed(board, name, node=name) for name in "abc"] == ["", "", "disk full"]
    board = ReplicaBoard(50)
    assert [failed(board, name, node=name, reason=name) for name in "abc"] == ["", "", ""]


def test_failed_load_costs_one_replica_while_another_runs_or_loads() -> None:
    board = ReplicaBoard(2)
    board.begin_load("b")
    assert [failed(board, "a") for _ in range(2 * MAX_LOADS)] == [""] * 2 * MAX_LOADS
    board.record_start("b")
    assert failed(board, "a") == ""
    board.begin_load("b")  # its process died
    assert board.record_failed_load("b", "n", "the GPU is gone") == "the GPU is gone"

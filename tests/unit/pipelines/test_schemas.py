"""Rows of predictions."""

from models.messages import Answer, Failure, Reply
from pipelines.schemas import PREDICTIONS, prediction_row
from pipelines.storage.parts import read_parquet, to_parquet


def test_answer_becomes_an_ok_row() -> None:
    row = prediction_row({"request_id": "r"}, Reply(request_id="r", outcome=Answer(text="half \ud800"), steps=("a",)))
    assert (row["status"], row["output"], row["error_type"]) == ("ok", "half ?", "")
    assert read_parquet(to_parquet([row], PREDICTIONS))["steps"].to_pylist() == [["a"]]


def test_failure_becomes_an_error_row_without_output() -> None:
    row = prediction_row(
        {"request_id": "r"}, Reply(request_id="r", outcome=Failure(type="timeout", message="x" * 9000))
    )
    assert (row["status"], row["error_type"], len(row["error"])) == ("error", "timeout", 2000)
    assert "output" not in row

"""Failed rows at the end of a run: counted by model and reason, with the first of them and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.shared.render import failure_lines
from pipelines.predict.records import TaskCount
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.status import failure_reasons


@pytest.fixture
def out(tmp_path: Any) -> Store:
    return Store(str(tmp_path))


def write(
    out: Store, part: str, *rows: tuple[str, str], folder: str = part_folder("predictions", "vague", "m")
) -> None:
    table = [
        {"request_id": name, "sample_id": f"s/{name}", "task": "mcq", "setting": "vlm"}
        | ({"status": "error", "error_type": kind, "error": f"{kind}:\nof {name}"} if kind else {"status": "ok"})
        for name, kind in rows
    ]
    out.put(f"{folder}/{part}.parquet", to_parquet(table, PREDICTIONS))


def count(errors: int) -> TaskCount:
    return TaskCount(benchmark="vague", model="m", task="mcq", setting="vlm", requests=9, ok=9 - errors, error=errors)


def test_reasons_are_counted_with_the_first_row_and_a_remedy(out: Store) -> None:
    write(out, "a" * 24, ("a", "odd"), ("b", "media"), ("c", "media"), ("d", ""))
    lines = failure_lines(failure_reasons(out, [count(3)]))
    assert lines[0] == "3 failed rows:"
    assert lines[1].startswith("  m: 2 media, first vague mcq vlm s/b: media:")
    assert lines[1].endswith("of b")
    assert lines[2] == "    replace the file, run `vlmsweep ingest` again, and then this command"
    assert lines[3].startswith("  m: 1 odd, first vague mcq vlm s/a: odd:")
    assert lines[4] == "    run the same command again: failed rows alone are sent again"


def test_rows_answered_later_have_not_failed_and_missing_outputs_have_their_remedy(out: Store) -> None:
    write(out, "a" * 24, ("a", "no_output"))
    (reason,) = failure_reasons(out, [count(1)])
    assert reason.remedy == "write the missing outputs into the file of answers, and score it again"
    write(out, "a" * 24, ("a", "media"), ("b", "media"))
    write(out, "b" * 24, ("a", ""))
    assert [(reason.rows, reason.example) for reason in failure_reasons(out, [count(1)])] == [(1, "vague mcq vlm s/b")]
    write(out, "a" * 24, ("a", "media"))
    assert failure_reasons(out, [count(0)]) == []
    assert failure_lines([]) == []


@pytest.mark.parametrize("kind", ["http_401", "http_404", "wrong_server", "no_pictures"])
def test_failure_that_stays_is_not_said_to_pass_by_running_again(out: Store, kind: str) -> None:
    write(out, "a" * 24, ("a", kind))
    (reason,) = failure_reasons(out, [count(1)])
    assert reason.remedy.startswith("this will not pass by itself: ")


def test_questions_of_a_judge_that_failed_are_named_unless_another_part_answers_them(out: Store) -> None:
    """A question that failed is asked again with others, in a part whose name may come before."""
    folder = part_folder("judgements", "vague", "j")
    write(out, "b" * 24, ("a", "http_400"), ("b", "http_400"), folder=folder)
    write(out, "a" * 24, ("a", ""), folder=folder)
    (reason,) = failure_reasons(out, [count(0)], ["j"])
    assert (reason.model, reason.rows, reason.example) == ("j", 1, "vague mcq vlm s/b")

"""Parquet parts: writing, reading and the detection of damage."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pipelines.errors import DamagedPartError
from pipelines.plan.completed import load_completed, repair_parts
from pipelines.plan.records import CompletedRequests, Repair
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import folder_names, iter_parts, part_folder, read_part, score_path, to_parquet
from pipelines.storage.store import Store

FOLDER = part_folder("predictions", "maia", "m")
A, B, C = (f"{FOLDER}/{letter * 24}.parquet" for letter in "abc")


def rows(first: int, count: int, status: str = "ok") -> list[dict]:
    return [
        {"request_id": f"{i:032x}", "sample_id": f"s{i}", "status": status, "output": "parola " * (i % 5),
         "steps": ["a"]}
        for i in range(first, first + count)
    ]  # fmt: skip


def test_any_flipped_bit_or_truncation_is_detected(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    content = to_parquet(rows(0, 40), PREDICTIONS)
    store.put("good.parquet", content)
    good = read_part(store, "good.parquet")
    draw = Random(7)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        check_equal_or_damaged(tmp_path, bytes(damaged), good)
    for _ in range(100):
        (tmp_path / "bad.parquet").write_bytes(content[: draw.randrange(len(content))])
        with pytest.raises(DamagedPartError, match=r"bad\.parquet"):
            read_part(store, "bad.parquet")


def check_equal_or_damaged(folder: Path, content: bytes, good) -> None:
    (folder / "bad.parquet").write_bytes(content)
    with contextlib.suppress(DamagedPartError):
        assert read_part(Store(str(folder)), "bad.parquet").equals(good)


def test_parts_are_readable_by_other_readers_and_without_checksum(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(to_parquet(rows(0, 3), PREDICTIONS))
    assert pq.read_table(tmp_path / "part.parquet")["sample_id"].to_pylist() == ["s0", "s1", "s2"]
    store = Store(str(tmp_path))
    store.put("with.parquet", to_parquet(rows(0, 3), PREDICTIONS))
    pq.write_table(read_part(store, "with.parquet"), tmp_path / "without.parquet")
    assert read_part(store, "without.parquet").equals(read_part(store, "with.parquet"))


def repaired(store: Store) -> CompletedRequests:
    """Repair the parts; return what is completed, of which nothing is to be repaired."""
    repair_parts(store, load_completed(store, "maia", "m").repair)
    completed = load_completed(store, "maia", "m")
    assert completed.repair == Repair(FOLDER)
    return completed


def test_damaged_part_is_skipped_and_moved_by_repair(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(str(tmp_path))
    store.put(A, to_parquet(rows(0, 5), PREDICTIONS))
    store.put(B, to_parquet(rows(5, 5), PREDICTIONS)[:-20])
    assert [path for path, _ in iter_parts(store, FOLDER)] == [A]
    assert store.exists(B)
    assert len(repaired(store).finished) == 5
    assert not store.exists(B)
    assert store.exists(f"damaged/{B}")
    assert "bbbbbbbbbbbbbbbbbbbbbbbb.parquet" in caplog.text


@pytest.mark.parametrize(("late_status", "remaining_status"), [("ok", "ok"), ("error", "ok")])
def test_repair_removes_rows_that_were_committed_twice(tmp_path: Path, late_status: str, remaining_status: str) -> None:
    store = Store(str(tmp_path))
    store.put(A, to_parquet(rows(0, 6), PREDICTIONS))
    store.put(B, to_parquet([*rows(4, 2, late_status), *rows(6, 2)], PREDICTIONS))
    store.put(C, to_parquet(rows(0, 1, "error"), PREDICTIONS))
    before = load_completed(store, "maia", "m")
    assert store.exists(C), "a reader changes nothing"
    after = repaired(store)
    assert (after.finished, after.failed) == (before.finished, before.failed)
    assert len(after.finished) == 8
    assert not after.failed
    remaining = [row for _, table in iter_parts(store, FOLDER) for row in table.to_pylist()]
    assert sorted(row["request_id"] for row in remaining) == [f"{i:032x}" for i in range(8)]
    assert {row["status"] for row in remaining} == {remaining_status}


def test_repair_removes_an_error_that_another_part_answers(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put(A, to_parquet(rows(0, 2, "error"), PREDICTIONS))
    store.put(B, to_parquet(rows(1, 2), PREDICTIONS))
    after = repaired(store)
    assert (len(after.finished), len(after.failed)) == (2, 1)
    remaining = [row for _, table in iter_parts(store, FOLDER) for row in table.to_pylist()]
    statuses = sorted((row["request_id"][-1], row["status"]) for row in remaining)
    assert statuses == [("0", "error"), ("1", "ok"), ("2", "ok")]


def test_reading_a_part_starts_no_thread() -> None:
    """A thread of Arrow that waits at the end of a short process aborts it, with 134 for the exit code."""
    script = """
import os
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import read_parquet, to_parquet
content = to_parquet([], PREDICTIONS)
before = len(os.listdir("/proc/self/task"))
read_parquet(content)
print(len(os.listdir("/proc/self/task")) - before)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "0"


def test_paths_of_parts_name_their_folders() -> None:
    part = f"{part_folder('predictions', 'my-table', 'org/model')}/a.parquet"
    assert folder_names(part) == ("predictions", "my-table")
    assert score_path(part) == f"{part_folder('scores', 'my-table', 'org/model')}/a.parquet"


@pytest.mark.parametrize("is_limited", [True, False])
def test_a_limit_of_memory_chooses_the_allocator_that_reports_it(is_limited: bool) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_AS, (64 << 30, resource.RLIM_INFINITY))" if is_limited else ""
    code = (
        f"import resource\n{limit}\nimport pyarrow as pa\nimport pipelines.storage.parts\n"
        "print(pa.default_memory_pool().backend_name)"
    )
    shell = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    result = subprocess.run([sys.executable, "-c", code], env=shell, capture_output=True, text=True, check=True)
    assert (result.stdout == "system\n") == is_limited

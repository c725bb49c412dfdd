"""Parquet parts: writing, reading and the detection of damage."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pipelines.errors import DamagedPartError
from pipelines.plan.planner import load_completed, repair_parts
from pipelines.plan.records import CompletedRequests, Repair
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import folder_names, iter_parts, part_folder, read_part, score_path, to_parquet
from pipelines.storage.store import RECORD, FileCache, Store, is_as_published, publish_files, put_named

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


def test_versions_that_are_held_are_found_and_those_used_last_stay_within_the_limit() -> None:
    cached = FileCache()
    cached.add("a", "1", b"first")
    assert cached.find("a", "1") == b"first"
    assert cached.find("a", "2") is None
    cached.add("a", "2", b"second")
    assert (cached.find("a", "1"), cached.find("a", "2")) == (None, b"second")
    cached.drop("a")
    cached.drop("a")
    assert cached.find("a", "2") is None
    cached = FileCache(max_bytes=10)
    for name in ("a", "b"):
        cached.add(name, "1", b"12345")
    cached.find("a", "1")
    cached.add("c", "1", b"12345")
    assert [cached.find(name, "1") is not None for name in ("a", "b", "c")] == [True, False, True]
    cached.add("a", "2", b"1")
    cached.add("d", "1", b"1234")
    assert [cached.find(*key) is not None for key in (("a", "2"), ("c", "1"), ("d", "1"))] == [True, True, True]
    cached.add("large", "1", b"12345678901")
    assert [cached.find(name, "1") for name in ("c", "d", "large")] == [None, None, None]


def test_a_users_file_of_a_needed_name_is_copied_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = Store(str(tmp_path))
    out.put("index.html", b"a user's")
    put_named(out, "index.html", b"ours, one", b"ours")
    assert "index.html was not written by vlmsweep; a copy is in replaced/" in caplog.text
    put_named(out, "index.html", b"ours, two", b"ours")
    put_named(out, "new.html", b"ours", b"ours")
    files = {info.path: out.get(info.path) for info in out.list()}
    assert files == {"index.html": b"ours, two", "new.html": b"ours", "replaced/index.html": b"a user's"}


def contents(out: Store) -> dict[str, bytes]:
    return {info.path: out.get(info.path) for info in out.list() if not info.path.startswith(".")}


def test_a_file_that_a_user_edited_is_copied_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = Store(str(tmp_path))
    publish_files(out, {"report/index.html": b"one", "report/a.csv": b"1"}, "report")
    out.put("report/a.csv", b"1, edited")
    publish_files(out, {"report/index.html": b"two", "report/a.csv": b"1"}, "report")
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/report/a.csv has changed since vlmsweep wrote it; a copy is in replaced/"
    ]
    expected = {"report/index.html": b"two", "report/a.csv": b"1", "replaced/report/a.csv": b"1, edited"}
    assert contents(out) == expected
    publish_files(out, {"report/index.html": b"two", "report/a.csv": b"1"}, "report")
    assert contents(out) == expected
    assert len(caplog.records) == 1


@pytest.mark.parametrize("last_write", range(1, 5))
def test_an_unfinished_report_is_not_taken_for_an_edited_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, last_write: int
) -> None:
    out, put, writes = Store(str(tmp_path)), Store.put, iter(range(1, last_write + 1))
    publish_files(out, {"report/a.csv": b"1", "report/b.csv": b"1"}, "report")
    with monkeypatch.context() as patched:

        def put_or_die(store: Store, path: str, content: bytes) -> None:
            if next(writes) == last_write:
                raise KeyboardInterrupt
            put(store, path, content)

        patched.setattr(Store, "put", put_or_die)
        with pytest.raises(KeyboardInterrupt):
            publish_files(out, {"report/a.csv": b"2", "report/b.csv": b"2"}, "report")
    assert all(is_as_published(out, path, out.get(path)) for path in ("report/a.csv", "report/b.csv"))
    publish_files(out, {"report/a.csv": b"3", "report/b.csv": b"3"}, "report")
    assert contents(out) == {"report/a.csv": b"3", "report/b.csv": b"3"}
    assert not caplog.records


@pytest.mark.parametrize("record", [None, b"", b"\xff{", b"[" * 100_000, b'{"report/a.csv": 1, "report/b.csv": []}'])
def test_an_edited_file_is_copied_where_the_record_is_lost(tmp_path: Path, record: bytes | None) -> None:
    out = Store(str(tmp_path))
    publish_files(out, {"report/index.html": b"vlmsweep", "report/a.csv": b"1", "report/b.csv": b"1"}, "report")
    out.put("report/a.csv", b"1, edited")
    if record is None:
        out.delete(RECORD)
    else:
        out.put(RECORD, record)
    publish_files(out, {"report/index.html": b"vlmsweep", "report/a.csv": b"2"}, "report")
    assert contents(out)["replaced/report/a.csv"] == b"1, edited"
    assert contents(out)["report/b.csv"] == b"1"

"""Parts of a run: what is written, and that damage of any kind is seen."""

import contextlib
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pipelines.plan.planner import load_completed
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import DamagedPartError, iter_parts, part_folder, read_part, to_parquet
from pipelines.storage.store import Store

FOLDER = part_folder("predictions", "maia", "m")


def rows(first: int, count: int, status: str = "ok") -> list[dict]:
    return [
        {
            "request_id": f"{i:032x}",
            "sample_id": f"s{i}",
            "status": status,
            "output": "parola " * (i % 5),
            "steps": ["a"],
        }
        for i in range(first, first + count)
    ]


def test_any_flipped_bit_or_cut_is_seen(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    content = to_parquet(rows(0, 40), PREDICTIONS)
    store.put("good.parquet", content)
    good = read_part(store, "good.parquet")
    draw = Random(7)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        store_is_whole_or_told(tmp_path, bytes(damaged), good)
    for _ in range(100):
        (tmp_path / "bad.parquet").write_bytes(content[: draw.randrange(len(content))])
        with pytest.raises(DamagedPartError, match=r"bad\.parquet"):
            read_part(store, "bad.parquet")


def store_is_whole_or_told(folder: Path, content: bytes, good) -> None:
    (folder / "bad.parquet").write_bytes(content)
    with contextlib.suppress(DamagedPartError):
        assert read_part(Store(str(folder)), "bad.parquet").equals(good)


def test_parts_are_plain_parquet_for_everyone(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(to_parquet(rows(0, 3), PREDICTIONS))
    assert pq.read_table(tmp_path / "part.parquet")["sample_id"].to_pylist() == ["s0", "s1", "s2"]


def test_a_part_of_another_tool_is_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("ours.parquet", to_parquet(rows(0, 3), PREDICTIONS))
    pq.write_table(read_part(store, "ours.parquet"), tmp_path / "theirs.parquet")
    assert read_part(store, "theirs.parquet").equals(read_part(store, "ours.parquet"))


def test_a_damaged_part_is_left_alone_by_readers_and_set_aside_by_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(str(tmp_path))
    store.put(f"{FOLDER}/a.parquet", to_parquet(rows(0, 5), PREDICTIONS))
    store.put(f"{FOLDER}/b.parquet", to_parquet(rows(5, 5), PREDICTIONS)[:-20])
    assert [path for path, _ in iter_parts(store, FOLDER)] == [f"{FOLDER}/a.parquet"]
    assert store.exists(f"{FOLDER}/b.parquet")
    assert len(load_completed(store, "maia", "m", mend=True).finished) == 5
    assert not store.exists(f"{FOLDER}/b.parquet")
    assert store.exists(f"damaged/{FOLDER}/b.parquet")
    assert "b.parquet" in caplog.text


@pytest.mark.parametrize(("late", "kept"), [("ok", "ok"), ("error", "ok")])
def test_rows_that_a_dead_runs_worker_committed_twice_are_taken_out(tmp_path: Path, late: str, kept: str) -> None:
    store = Store(str(tmp_path))
    store.put(f"{FOLDER}/a.parquet", to_parquet(rows(0, 6), PREDICTIONS))
    store.put(f"{FOLDER}/b.parquet", to_parquet([*rows(4, 2, late), *rows(6, 2)], PREDICTIONS))
    store.put(f"{FOLDER}/c.parquet", to_parquet(rows(0, 1, "error"), PREDICTIONS))
    before = load_completed(store, "maia", "m")
    assert store.exists(f"{FOLDER}/c.parquet"), "who only reads changes nothing"
    done = load_completed(store, "maia", "m", mend=True)
    assert done == before
    assert len(done.finished) == 8
    assert not done.failed
    left = [row for _, table in iter_parts(store, FOLDER) for row in table.to_pylist()]
    assert sorted(row["request_id"] for row in left) == [f"{i:032x}" for i in range(8)]
    assert {row["status"] for row in left} == {kept}


def test_an_error_that_was_answered_in_another_part_is_taken_out(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put(f"{FOLDER}/a.parquet", to_parquet(rows(0, 2, "error"), PREDICTIONS))
    store.put(f"{FOLDER}/b.parquet", to_parquet(rows(1, 2), PREDICTIONS))
    done = load_completed(store, "maia", "m", mend=True)
    assert (len(done.finished), len(done.failed)) == (2, 1)
    left = [row for _, table in iter_parts(store, FOLDER) for row in table.to_pylist()]
    assert sorted((row["request_id"][-1], row["status"]) for row in left) == [("0", "error"), ("1", "ok"), ("2", "ok")]

import os
from pathlib import Path

import pytest

from pipelines.store import Store, StoreError


def test_put_get_list_delete(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("a/b.txt", b"one")
    store.put("a/b.txt", b"two")
    store.put("c.txt", b"")
    assert store.get("a/b.txt") == b"two"
    assert [(info.path, info.size) for info in store.list()] == [("a/b.txt", 3), ("c.txt", 0)]
    assert [info.path for info in store.list("a", "*.txt")] == ["a/b.txt"]
    assert store.exists("a/b.txt")
    assert not store.exists("a")
    store.delete("a/b.txt")
    store.delete("a/b.txt")
    assert [info.path for info in store.list()] == ["c.txt"]


def test_a_reader_never_sees_a_temporary_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / ".part.parquet.123.tmp").write_bytes(b"half")
    assert store.list() == []


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    store.put("x", b"old")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put("x", b"new")
    assert store.get("x") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\x00b"])
def test_a_path_cannot_leave_its_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="leaves its folder"):
        Store(str(tmp_path)).put(path, b"")


def test_a_place_that_cannot_be_written_says_so() -> None:
    with pytest.raises(StoreError, match="/proc/nowhere"):
        Store("/proc/nowhere").check_writable()


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Store(str(tmp_path)).get("nothing")
    assert Store(str(tmp_path / "no-such-folder")).list() == []


def test_other_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="s3://"):
        Store("gs://bucket/key")

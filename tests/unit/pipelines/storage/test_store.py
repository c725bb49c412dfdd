"""Files behind `Store`, on a disk and in an object store whose connection is scripted."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import StoreError, TooLargeError, UsageError
from pipelines.storage.store import Store
from tests.unit.pipelines.storage.client_error import ClientError


def test_store_puts_gets_lists_and_deletes_files(tmp_path: Path) -> None:
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


def test_missing_and_temporary_files_are_not_there(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / ".part.parquet.123.tmp").write_bytes(b"half")
    assert store.list() == []
    with pytest.raises(FileNotFoundError):
        Store(str(tmp_path)).get("missing")
    assert Store(str(tmp_path / "no-such-folder")).list() == []


def test_failed_put_keeps_the_old_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    store.put("x", b"old")

    def raise_disk_full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    with pytest.raises(StoreError, match="No space left"):
        store.put("x", b"new")
    assert store.get("x") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\x00b"])
def test_put_refuses_a_path_outside_the_root(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="leaves its folder"):
        Store(str(tmp_path)).put(path, b"")


def test_check_writable_names_the_folder_and_not_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="/proc/nowhere"):
        Store("/proc/nowhere").check_writable()

    def raise_permission_error(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", raise_permission_error)
    with pytest.raises(StoreError, match=f"^{re.escape(str(tmp_path))}: no permission") as raised:
        Store(str(tmp_path)).check_writable()
    assert "probe" not in str(raised.value)
    assert "tmp)" not in str(raised.value)


@pytest.mark.parametrize("below", ["", "/below", "/further/below"])
def test_store_reports_a_file_where_it_expects_a_folder(tmp_path: Path, below: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("")
    store = Store(f"{file}{below}")
    operations = (store.check_writable, store.list, partial(store.put, "a", b""), partial(store.get, "a"))
    for operation in operations:
        with pytest.raises(StoreError) as raised:
            operation()
        assert str(raised.value) == f"{file}: expected a folder, found a file"
    assert not store.exists("a")


class MissingBucketFilesystem:
    """s3fs without the bucket: a missing file, with the store's response as its cause or context."""

    def __init__(self, link: str) -> None:
        self.link = link

    def fail(self, *_: object, **__: object) -> None:
        missing = FileNotFoundError("The specified bucket does not exist")
        setattr(missing, self.link, ClientError(404, "NoSuchBucket"))
        raise missing

    pipe_file = call_s3 = info = find = fail


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_missing_bucket_is_a_store_error(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    store = Store("s3://nobucket/x")
    monkeypatch.setattr(store.backend, "filesystem", MissingBucketFilesystem(link))
    operations = (store.check_writable, store.list, partial(store.get, "a"), partial(store.exists, "a"))
    for operation in (*operations, partial(store.put_if, "a", b"", None)):
        with pytest.raises(StoreError) as raised:
            operation()
        assert str(raised.value) == "s3://nobucket/x: The specified bucket does not exist; create the bucket first"


@pytest.mark.parametrize(
    "uri",
    ["gs://bucket/key", "s3://bucket/o?versionId=x", "s3://", "s3:///key", "https://h/x", "s3://u:password@bucket/x"],
)
def test_store_refuses_what_is_no_folder(uri: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(uri)}: "):
        Store(uri)


class BreakingFilesystem:
    """s3fs whose response bodies break off in the middle so many times."""

    def __init__(self, times: int) -> None:
        from fsspec.asyn import get_loop

        self.loop, self.failures, self.closed = get_loop(), times, 0

    def call_s3(self, method: str, **_: object) -> dict[str, object]:
        assert method == "get_object"
        return {"Body": self, "ETag": "e", "ContentLength": 5}

    async def read(self) -> bytes:
        self.failures -= 1
        if self.failures >= 0:
            raise ConnectionResetError("in the middle")
        return b"whole"

    def close(self) -> None:
        self.closed += 1


def test_interrupted_body_is_fetched_again_and_an_oversized_one_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.storage.s3_store.BODY_PAUSE_S", 0.0)
    store, sometimes, always = Store("s3://bucket/folder"), BreakingFilesystem(3), BreakingFilesystem(99)
    monkeypatch.setattr(store.backend, "filesystem", sometimes)
    assert store.get_version("a") == (b"whole", "e")
    assert sometimes.closed == 4
    monkeypatch.setattr(store.backend, "filesystem", always)
    with pytest.raises(StoreError, match="in the middle"):
        store.get("a")
    assert always.closed == 4
    store, unused = Store("s3://bucket/folder"), BreakingFilesystem(0)
    monkeypatch.setattr(store.backend, "filesystem", unused)
    with pytest.raises(TooLargeError, match="a: 5 bytes, more than the limit of 4 bytes"):
        store.get("a", max_bytes=4)
    assert (unused.failures, unused.closed) == (0, 1)
    assert store.get("a", max_bytes=5) == b"whole"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("a/b", b"1")
    (tmp_path / "a").chmod(0)
    try:
        for operation in (store.list, lambda: store.exists("a/b"), lambda: store.delete("a/b")):
            with pytest.raises(StoreError, match="no permission"):
                operation()
    finally:
        (tmp_path / "a").chmod(0o700)


def test_list_reports_a_failing_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(base: str, onerror: Any) -> Any:
        onerror(FileNotFoundError(2, "gone", base))
        onerror(OSError(116, "Stale file handle", base))
        return iter(())

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(StoreError, match="Stale file handle"):
        Store(str(tmp_path)).list()


def test_put_interrupted_by_a_signal_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Store(str(tmp_path)).put("a", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["", ".", ".."], ids=["empty", "here", "above"])
def test_address_with_a_part_that_is_no_name_is_refused(part: str) -> None:
    for uri in (f"s3://bucket/{part}/out", f"s3://bucket/runs/{part}/out/"):
        with pytest.raises(UsageError, match=r"a part of it is empty, \. or \.\.; give s3://bucket/folder"):
            Store(uri)
    assert Store("s3://bucket/runs/out//").uri == "s3://bucket/runs/out"

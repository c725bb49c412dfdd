import errno
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipelines.storage.errors import StoreError, TooLargeError
from pipelines.storage.store import Store


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


def test_a_message_names_the_folder_and_not_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(StoreError, match=f"^{re.escape(str(tmp_path))}: no permission") as told:
        Store(str(tmp_path)).check_writable()
    assert "probe" not in str(told.value)
    assert "tmp)" not in str(told.value)


@pytest.mark.parametrize("below", ["", "/below", "/far/below"])
def test_a_file_where_a_folder_is_wanted_is_one_sentence(tmp_path: Path, below: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("")
    store = Store(f"{file}{below}")
    asks = (store.check_writable, store.list, partial(store.put, "a", b""), partial(store.get, "a"))
    for ask in asks:
        with pytest.raises(StoreError) as told:
            ask()
        assert str(told.value) == f"{file}: a file stands where a folder is wanted"
    assert not store.exists("a")


class NoBucket:
    """An object store without the bucket; s3fs tells so as a missing file, with the store's answer behind it."""

    def __init__(self, link: str) -> None:
        self.link = link

    def fail(self, *_: object, **__: object) -> None:
        missing = FileNotFoundError("The specified bucket does not exist")
        setattr(missing, self.link, ClientError(404, "NoSuchBucket"))
        raise missing

    pipe_file = call_s3 = info = find = fail


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_a_bucket_that_is_not_there_is_no_missing_file(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    store = Store("s3://nobucket/x")
    monkeypatch.setattr(store, "_fs", NoBucket(link))
    asks = (store.check_writable, store.list, partial(store.get, "a"), partial(store.exists, "a"))
    for ask in (*asks, partial(store.put_if, "a", b"", None)):
        with pytest.raises(StoreError) as told:
            ask()
        assert str(told.value) == "s3://nobucket/x: The specified bucket does not exist; create the bucket first"


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Store(str(tmp_path)).get("nothing")
    assert Store(str(tmp_path / "no-such-folder")).list() == []


def test_other_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="s3://"):
        Store("gs://bucket/key")


class Breaking:
    """An object store whose answers break off in their middle so many times."""

    def __init__(self, times: int) -> None:
        from fsspec.asyn import get_loop

        self.loop, self.left, self.closed = get_loop(), times, 0

    def call_s3(self, method: str, **_: object) -> dict[str, object]:
        assert method == "get_object"
        return {"Body": self, "ETag": "e", "ContentLength": 5}

    async def read(self) -> bytes:
        self.left -= 1
        if self.left >= 0:
            raise ConnectionResetError("in the middle")
        return b"whole"

    def close(self) -> None:
        self.closed += 1


def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.storage.store.BODY_PAUSE_S", 0.0)
    store, now_and_then, always = Store("s3://bucket/folder"), Breaking(3), Breaking(99)
    monkeypatch.setattr(store, "_fs", now_and_then)
    assert store.get_version("a") == (b"whole", "e")
    assert now_and_then.closed == 4
    monkeypatch.setattr(store, "_fs", always)
    with pytest.raises(StoreError, match="in the middle"):
        store.get("a")
    assert always.closed == 4


def test_an_object_too_large_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    store, unread = Store("s3://bucket/folder"), Breaking(0)
    monkeypatch.setattr(store, "_fs", unread)
    with pytest.raises(TooLargeError, match="a: 5 bytes, more than the limit of 4 bytes"):
        store.get("a", most=4)
    assert (unread.left, unread.closed) == (0, 1)
    assert store.get("a", most=5) == b"whole"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("a/b", b"1")
    (tmp_path / "a").chmod(0)
    try:
        for ask in (store.list, lambda: store.exists("a/b"), lambda: store.delete("a/b")):
            with pytest.raises(StoreError, match="no permission"):
                ask()
    finally:
        (tmp_path / "a").chmod(0o700)


def test_a_walk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(base: str, onerror: Any) -> Any:
        onerror(FileNotFoundError(2, "gone", base))
        onerror(OSError(116, "Stale file handle", base))
        return iter(())

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(StoreError, match="Stale file handle"):
        Store(str(tmp_path)).list()


def test_a_write_that_a_signal_ends_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Store(str(tmp_path)).put("a", b"new")
    assert list(tmp_path.iterdir()) == []


class ClientError(Exception):
    """As botocore's."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


ClientError.__module__ = "botocore.exceptions"


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ClientError(503, "SlowDown"), True),
        (ClientError(500, "InternalError"), True),
        (ClientError(400, "RequestTimeout"), True),
        (ClientError(403, "AccessDenied"), False),
        (ClientError(400, "ExpiredToken"), False),
        (ClientError(404, "NoSuchBucket"), False),
        (OSError(errno.ENOSPC, "full"), False),
        (OSError(errno.ESTALE, "stale"), True),
        (PermissionError(errno.EACCES, "no"), False),
    ],
)
def test_what_may_pass_by_itself_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, passing: bool
) -> None:
    store = Store(str(tmp_path))
    monkeypatch.setattr(Path, "read_bytes", lambda path: (_ for _ in ()).throw(error))
    with pytest.raises(StoreError) as told:
        store.get("a")
    assert told.value.passing is passing

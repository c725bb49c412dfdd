"""What the product asks of a store: the same calls on a disk and on a real S3 server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.errors import StoreError, TooLargeError
from pipelines.storage.store import ListedFolder, Store
from tests.integration.conftest import S3, s3_server

PAGE = 1_000
"""Objects that S3 lists in one response."""


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, use_s3: Callable[[], S3]) -> Store:
    if request.param == "disk":
        return Store(str(tmp_path))
    use_s3()
    return Store(f"s3://bench/contract/{request.node.name.partition('[')[0]}")


@pytest.fixture
def use_s3(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], S3]:
    """Return a function that points this process to the server, which is started only when needed."""

    def point() -> S3:
        s3 = request.getfixturevalue("s3")
        for name, value in s3.env.items():
            monkeypatch.setenv(name, value)
        return s3

    return point


@pytest.fixture
def s3_store(use_s3: Callable[[], S3], request: pytest.FixtureRequest) -> Store:
    use_s3()
    return Store(f"s3://bench/contract/{request.node.name}")


def test_put_replaces_and_delete_is_idempotent(store: Store) -> None:
    store.put("a/b.txt", b"first")
    store.put("a/b.txt", b"second")
    store.put("empty", b"")
    assert store.get("a/b.txt") == b"second"
    assert store.get("empty") == b""
    assert [(info.path, info.size) for info in store.list()] == [("a/b.txt", 6), ("empty", 0)]
    assert [info.path for info in store.list("a", "*.txt")] == ["a/b.txt"]
    assert store.list("absent") == []
    assert store.exists("a/b.txt")
    assert not store.exists("a")
    assert not store.exists("a/b")
    store.delete("a/b.txt")
    store.delete("a/b.txt")
    assert [info.path for info in store.list()] == ["empty"]
    with pytest.raises(FileNotFoundError):
        store.get("a/b.txt")


def test_listed_file_is_read_as_it_was_listed(store: Store) -> None:
    other = Store(store.uri)
    store.put("a", b"first", hold=True)
    (listed,) = store.list()
    assert store.get_listed(listed) == other.get_listed(listed) == b"first"
    other.put("a", b"other")
    (listed,) = store.list()
    assert store.get_listed(listed) == b"other"
    other.delete("a")
    with pytest.raises(FileNotFoundError):
        Store(store.uri).get_listed(listed)


def test_version_that_is_held_needs_no_request(s3_store: Store) -> None:
    other = Store(s3_store.uri)
    s3_store.put("written", b"w", hold=True)
    other.put("read", b"r")
    read, written = s3_store.list()
    assert read.is_known_to_be(b"r")
    assert not read.is_known_to_be(b"w")
    assert s3_store.get_listed(read) == b"r"
    assert s3_store.get_cached("read", "hash") == b"r"
    s3_store.forget("read")
    assert s3_store.get_listed(read) == b"r"
    for name in ("read", "written"):
        other.delete(name)
    assert (s3_store.get_listed(read), s3_store.get_listed(written)) == (b"r", b"w")


def test_listed_folder_writes_what_is_not_stored_yet(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("f/intact", b"1"), ("f/damaged", b"0"), ("f/obsolete", b"3")):
        store.put(name, content)
    folder, written = ListedFolder(store, "f"), list[str]()
    put = Store.put
    monkeypatch.setattr(Store, "put", lambda self, path, content: (written.append(path), put(self, path, content)))
    for name, content in (("f/intact", b"1"), ("f/damaged", b"2"), ("f/new", b"4"), ("f/new", b"4")):
        folder.put_named(name, content)
    folder.delete("f/obsolete")
    assert written == ["f/damaged", "f/new"]
    assert {path: store.get(path) for path in folder.by_path} == {"f/intact": b"1", "f/damaged": b"2", "f/new": b"4"}


@pytest.mark.parametrize(
    "name", ["benchmark=maia/model=a b/part-1.parquet", "ünï/cødé 文字.json", "plus+percent%20&.x", "#?"]
)
def test_names_survive(store: Store, name: str) -> None:
    store.put(name, name.encode())
    assert store.get(name) == name.encode()
    assert [info.path for info in store.list()] == [name]
    store.delete(name)
    assert store.list() == []


def test_large_object_is_whole(store: Store) -> None:
    content = os.urandom(1 << 20) * 70  # above the size at which s3fs uploads in several parts
    store.put("large", content)
    assert store.get("large") == content
    with pytest.raises(TooLargeError):
        store.get("large", max_bytes=len(content) - 1)
    assert [info.size for info in store.list()] == [len(content)]


def test_listing_goes_beyond_one_page(store: Store) -> None:
    names = [f"part-{number:05}.parquet" for number in range(PAGE + 5)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(f"many/{name}", b"x"), names))
    assert [info.path for info in store.list("many")] == [f"many/{name}" for name in names]


def test_check_writable_leaves_nothing(store: Store) -> None:
    store.check_writable()
    assert store.list() == []


def test_conditional_put_needs_the_current_version(s3_store: Store) -> None:
    first = s3_store.put_if("lock", b"1", None)
    assert first
    assert s3_store.put_if("lock", b"other", None) is None, "it exists"
    second = s3_store.put_if("lock", b"2", first)
    assert second
    assert second != first
    assert s3_store.put_if("lock", b"3", first) is None, "it has changed"
    assert s3_store.get_version("lock") == (b"2", second)
    s3_store.delete("lock")
    assert s3_store.put_if("lock", b"4", second) is None, "it is gone"


def test_one_of_many_simultaneous_conditional_puts_wins(s3_store: Store) -> None:
    for name in ("race-1", "race-2", "race-3"):
        contenders = [b"%d" % number for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            versions = list(pool.map(s3_store.put_if, [name] * 8, contenders, [None] * 8))
        (winner,) = (content for content, version in zip(contenders, versions, strict=True) if version)
        assert s3_store.get(name) == winner


def test_missing_bucket_says_to_create_it(use_s3: Callable[[], S3]) -> None:
    use_s3()
    for call in (lambda store: store.put("x", b""), lambda store: store.list(), lambda store: store.get("x")):
        with pytest.raises(StoreError, match="create the bucket first"):
            call(Store("s3://no-such-bucket/out"))


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong-secret", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "nobody", "InvalidAccessKeyId"),
    ],
)
def test_wrong_credentials_are_named(
    use_s3: Callable[[], S3], monkeypatch: pytest.MonkeyPatch, variable: str, value: str, code: str
) -> None:
    use_s3()
    monkeypatch.setenv(variable, value)
    with pytest.raises(StoreError) as error:
        Store("s3://bench/denied").put("x", b"")
    assert f"{code} (" in str(error.value)
    assert "; check AWS_ACCESS_KEY_ID and its secret" in str(error.value)
    assert "wrong-secret" not in str(error.value)
    assert not error.value.is_transient


def test_object_above_a_request_s_limit_goes_up_in_parts(s3_store: Store, use_s3: Callable[[], S3]) -> None:
    checksums = list[str]()
    session = s3_store.backend.filesystem.session
    session.register("before-send.s3.UploadPart", lambda request, **_: checksums.append(request.headers["Content-MD5"]))
    s3_store.put("large", os.urandom(1 << 20) * 110)  # one PUT carries at most 5 GB; s3fs takes parts from 100 MB on
    assert len({*checksums}) == 2  # two parts are equal
    key = f"{s3_store.uri.removeprefix('s3://bench/')}/large"
    assert use_s3().client().head_object(Bucket="bench", Key=key)["ETag"].strip('"').endswith("-3")


@pytest.fixture(params=["seaweed", "moto"])
def versions_s3(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """The server of the other tests; and moto, which as AWS refuses a PUT without a checksum to a locked bucket."""
    if request.param == "seaweed":
        yield request.getfixturevalue("use_s3")()
        return
    with s3_server(tmp_path / "log") as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize("is_locked", [False, True])
def test_bucket_that_keeps_versions_is_written_and_deleted_from(versions_s3: S3, is_locked: bool) -> None:
    client, name = versions_s3.client(), f"versions-{is_locked}".lower()
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=is_locked)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    if is_locked:
        rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
        configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
        client.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=configuration)
    store = Store(f"s3://{name}/out")
    for content in (b"1", b"2"):
        store.put("run.json", content)
    version = store.put_if("lock.json", b"a", None)
    assert version
    assert store.put_if("lock.json", b"b", version)
    assert [info.path for info in store.list()] == ["lock.json", "run.json"]
    assert store.get("run.json") == b"2"
    store.delete("lock.json")  # which leaves its versions
    assert [info.path for info in store.list()] == ["run.json"]
    assert not store.exists("lock.json")
    assert store.put_if("lock.json", b"c", None)
    store.check_writable()

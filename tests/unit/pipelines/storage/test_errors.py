from __future__ import annotations

import errno
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from pipelines.errors import StoreError
from pipelines.storage.errors import describe, is_storage_error, no_bucket
from pipelines.storage.lock import LOCK
from pipelines.storage.parts import iter_parts
from pipelines.storage.store import Store
from tests.chaos.commits import S3_STEPS, STEPS, cut_commit, cut_commit_on_s3, part, unit
from tests.support.redirecting_store import redirecting_store
from tests.support.whole_bodies import WholeBodies
from tests.unit.pipelines.storage.client_error import ClientError


@pytest.mark.parametrize(
    ("error", "is_transient"),
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
def test_store_error_says_whether_a_retry_may_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_transient: bool
) -> None:
    store = Store(str(tmp_path))
    monkeypatch.setattr(store.backend, "get", lambda path, limit: (_ for _ in ()).throw(error))
    with pytest.raises(StoreError) as raised:
        store.get("a")
    assert raised.value.is_transient is is_transient


def test_store_errors_survive_pickling_and_those_of_our_code_are_none() -> None:
    copy = pickle.loads(pickle.dumps(StoreError("away", is_transient=True)))
    assert (str(copy), copy.is_transient) == ("away", True)
    assert is_storage_error(ClientError(500, "x"))
    assert not is_storage_error(KeyError("x"))
    assert no_bucket(ClientError(404, "NoSuchBucket"))
    assert not no_bucket(ClientError(404, "NoSuchKey"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ClientError(400, "ExpiredToken"), "renew the credentials. Run the same command again to resume"),
        (ClientError(403, "SignatureDoesNotMatch"), "check AWS_ACCESS_KEY_ID and its secret"),
        (ClientError(400, "InvalidToken"), "check AWS_SESSION_TOKEN"),
        (ClientError(500, "InternalError"), "the store failed: wait"),
        (OSError(errno.ENOSPC, "full"), "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system"), "the place is read-only"),
        (OSError(errno.EMFILE, "Too many open files"), "`ulimit -n 4096`"),
        (PermissionError(errno.EACCES, "no"), "no permission"),
        (OSError(errno.EINVAL, "Bad Request"), "check that the credentials are valid"),
        (ConnectionResetError("http://host/x?signature=s3cret"), "check AWS_ENDPOINT_URL"),
    ],
)
def test_description_names_the_remedy(error: Exception, message: str) -> None:
    assert message in describe(error)
    assert "s3cret" not in describe(error)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AWS_PROFILE": "absent"}, "AWS_PROFILE must name a profile"),
        ({"AWS_CONFIG_FILE": __file__}, "AWS_CONFIG_FILE"),
        ({"AWS_REGION": "no region!", "AWS_DEFAULT_REGION": "no region!"}, "check the variables AWS_"),
        ({"AWS_DEFAULTS_MODE": "odd"}, "check the variables AWS_"),
        ({"AWS_METADATA_SERVICE_TIMEOUT": "soon"}, "check the variables AWS_"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://public.example/"}, "check the variables AWS_"),
    ],
)
def test_refused_settings_are_named(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=expected):
        Store("s3://bucket/folder").get("file")


@pytest.mark.parametrize(
    ("status", "region", "setting"),
    [
        (301, "", "AWS_REGION to the bucket's region"),
        (301, "eu-west-3", "AWS_REGION=eu-west-3"),
        (307, "", "AWS_REGION"),
    ],
)
@pytest.mark.parametrize("operation", ["get", "put", "exists", "list"])
def test_bucket_of_another_region_names_region_address_and_remedy(
    operation: str, status: int, region: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore asks for the region until the recursion limit where that request is redirected too."""
    names = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-2"}
    with redirecting_store(status, region) as address:
        for name, value in {**names, "ENDPOINT_URL": address}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        store = Store("s3://bucket/folder")
        calls = {
            "get": store.get, "exists": store.exists, "list": store.list, "put": lambda path: store.put(path, b"a"),
        }  # fmt: skip
        with pytest.raises(StoreError) as failure:
            calls[operation]("file")
    assert f"the store at {address} says that the bucket is not in region us-east-2; set {setting}" in str(
        failure.value
    )
    assert not failure.value.is_transient


@pytest.mark.parametrize("step", STEPS)
def test_interrupted_commit_leaves_a_complete_part(tmp_path: Path, step: str) -> None:
    store = Store(str(tmp_path))
    for when in ("before", "after"):
        store.put("predictions/37a680133bd09342f934afb8.parquet", part("old"))
        assert cut_commit(tmp_path, step, when) == 9
        ((_, table),) = iter_parts(store, "predictions")
        replaced = step == "replace" and when == "after"
        assert set(table["output"].to_pylist()) == {"new" if replaced else "old"}
    has_started = step != "mkdir"
    assert store.remove_temporary() >= (1 if has_started and step != "open" else 0)
    assert store.remove_temporary() == 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["37a680133bd09342f934afb8.parquet"]


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "word", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[WholeBodies, dict[str, str]]]:
    app = WholeBodies(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, app, threaded=True)
    http.log_startup = lambda: None
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    env = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{http.server_port}"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    yield app, env
    http.shutdown()
    thread.join()
    http.server_close()


def test_interrupted_commit_on_s3_leaves_a_complete_part(
    server: tuple[WholeBodies, dict[str, str]], tmp_path: Path
) -> None:
    app, env = server
    env = {**env, "HOME": str(tmp_path)}
    store = Store("s3://bench/out")
    store.backend.filesystem.mkdir("bench")
    for step in S3_STEPS:
        for when in ("before", "after"):
            store.put(LOCK, b'{"run": "me", "host": "h", "pid": 1, "process_start": "s", "since": "t"}')
            store.put(unit().part, part("old"))
            assert cut_commit_on_s3(store.uri, "part", step, when, env) == 9, (step, when)
            ((_, table),) = iter_parts(store, "predictions")
            replaced = (step, when) == ("send", "after")
            assert set(table["output"].to_pylist()) == {"new" if replaced else "old"}, (step, when)
            assert [info.path for info in store.list()] == [LOCK, unit().part]
    assert app.broken, "a request broke off in the middle"


@pytest.mark.full
def test_interrupted_takeover_leaves_one_lock(server: tuple[WholeBodies, dict[str, str]], tmp_path: Path) -> None:
    app, env = server
    env = {**env, "HOME": str(tmp_path)}
    store = Store("s3://locks/out")
    store.backend.filesystem.mkdir("locks")
    for step in S3_STEPS[1:]:
        for when in ("before", "after"):
            store.put(LOCK, b'{"run": "old"}')
            _, version = store.get_version(LOCK)
            assert cut_commit_on_s3(store.uri, "lock", step, when, env) == 9, (step, when)
            replaced = (step, when) == ("send", "after")
            assert json.loads(store.get(LOCK)) == {"run": "new" if replaced else "old"}
            # A third run that read the old version gets the lock only if it is unchanged.
            assert (store.put_if(LOCK, b'{"run": "third"}', version) is None) == replaced
    assert app.broken, "a request broke off in the middle"

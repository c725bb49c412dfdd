"""A process that dies during a commit leaves the old part or the new one, complete."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from pipelines.storage.lock import LOCK
from pipelines.storage.parts import iter_parts
from pipelines.storage.store import Store
from tests.chaos.commits import S3_STEPS, STEPS, cut_commit, cut_commit_on_s3, part, unit
from tests.support.whole_bodies import WholeBodies


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

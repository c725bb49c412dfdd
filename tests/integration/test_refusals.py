"""Errors of a refusing store, operation by operation: never a missing file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.errors import StoreError
from pipelines.storage.store import Store
from tests.integration.conftest import s3_server

OPERATIONS: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("b", b"2"),
    "put_if": lambda store: store.put_if("a", b"2", None),
    "get": lambda store: store.get("a"),
    "get_version": lambda store: store.get_version("a"),
    "exists": lambda store: store.exists("a"),
    "exists not": lambda store: store.exists("c"),
    "list": lambda store: store.list(),
    "delete": lambda store: store.delete("a"),
}
MESSAGES = {
    "ExpiredToken": r"ExpiredToken .*renew the credentials|check that the credentials are valid",
    "RequestTimeTooSkewed": r"RequestTimeTooSkewed .*this machine's clock|no permission",
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    folder = tmp_path_factory.mktemp("moody")
    with s3_server(folder / "log", mode=folder / "mood") as s3, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        store = Store("s3://bench/folder")
        store.put("a", b"1")
        yield store, folder / "mood"


@pytest.mark.parametrize("code", sorted(MESSAGES))
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_store_refusal_names_the_remedy(refusing: tuple[Store, Path], operation: str, code: str) -> None:
    store, mode = refusing
    mode.write_text(code)
    try:
        with pytest.raises(StoreError, match=MESSAGES[code]):
            OPERATIONS[operation](store)
    finally:
        mode.unlink()
    assert (store.get("a"), store.exists("a"), store.exists("c")) == (b"1", True, False)
    assert [file.path for file in store.list()] == ["a"]
    with pytest.raises(FileNotFoundError):
        store.get("c")


@pytest.mark.parametrize(
    "operation", [pytest.param(name, marks=[] if name == "put_if" else pytest.mark.full) for name in sorted(OPERATIONS)]
)
def test_lost_store_is_a_store_error(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """The lock's heartbeat survives store errors only: another exception would end it."""
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    store = Store("s3://bench/folder")
    store.backend.filesystem.retries = 1
    with pytest.raises(StoreError, match=r"cannot be reached .* check AWS_ENDPOINT_URL"):
        OPERATIONS[operation](store)

"""What a store that refuses is told as, operation by operation: never as a file that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.store import Store, StoreError
from tests.integration.conftest import s3_server

OPERATIONS: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("b", b"2"),
    "put_if": lambda store: store.put_if("a", b"2", None),
    "get": lambda store: store.get("a"),
    "get_range": lambda store: store.get_range("a", 0, 1),
    "get_version": lambda store: store.get_version("a"),
    "open": lambda store: store.open("a").read(),
    "exists": lambda store: store.exists("a"),
    "exists not": lambda store: store.exists("c"),
    "list": lambda store: store.list(),
    "delete": lambda store: store.delete("a"),
}
SAID = {
    "ExpiredToken": r"ExpiredToken .*renew the credentials|see whether the credentials have expired",
    "RequestTimeTooSkewed": r"RequestTimeTooSkewed .*this machine's clock|no permission",
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    folder = tmp_path_factory.mktemp("moody")
    with s3_server(folder / "log", mood=folder / "mood") as s3, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        store = Store("s3://bench/folder")
        store.put("a", b"1")
        yield store, folder / "mood"


@pytest.mark.parametrize("code", sorted(SAID))
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_a_refusal_is_an_error_that_says_what_to_do(refusing: tuple[Store, Path], operation: str, code: str) -> None:
    store, mood = refusing
    mood.write_text(code)
    try:
        with pytest.raises(StoreError, match=SAID[code]):
            OPERATIONS[operation](store)
    finally:
        mood.unlink()
    assert (store.get("a"), store.exists("a"), store.exists("c")) == (b"1", True, False)
    assert [file.path for file in store.list()] == ["a"]
    with pytest.raises(FileNotFoundError):
        store.get("c")

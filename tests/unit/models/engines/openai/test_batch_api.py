"""Replies of a batch endpoint that are none of its API."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator

import pytest

from models.engines import open_batch_api
from models.engines.endpoints.batch_api import BatchApi, BatchState, SentBatch
from models.engines.endpoints.failures import LONGEST_WAIT_S
from models.errors import BatchApiError
from models.spec import ModelSpec
from tests.support.endpoint import BatchEndpoint, always
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS

KEY = "sk-planted-secret"
PAGE = b"<html><title>Welcome</title></html>"
ENDED = BatchState(batch_id="batches/0", status="completed", is_ended=True, result_files=("files/0",))


@pytest.fixture(params=ENGINES)
def endpoint(request: pytest.FixtureRequest) -> Iterator[BatchEndpoint]:
    with BatchEndpoint(always("A"), engine=request.param) as endpoint:
        yield endpoint


@pytest.fixture
def api(endpoint: BatchEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchApi]:
    monkeypatch.setenv("BATCH_KEY", KEY)
    address = endpoint.address + PATHS[endpoint.engine]
    api = open_batch_api(
        ModelSpec(engine=endpoint.engine, model="m", base_url=address, api_key_env="BATCH_KEY", retries=0)  # type: ignore[arg-type]
    )
    yield api
    api.close()


CALLS: dict[str, Callable[[BatchApi], object]] = {
    "upload": lambda api: api.upload("x.jsonl", io.BytesIO(b"{}\n")),
    "create": lambda api: api.create(io.BytesIO(b"{}\n") if api.spec.engine == "anthropic" else "file-0", "k"),
    "retrieve": lambda api: api.retrieve("batches/0"),
    "list": lambda api: api.find(SentBatch(key="k", created=time.time(), custom_ids=("x",))),
    "download": lambda api: api.results(ENDED),
}


@pytest.mark.parametrize("name", CALLS)
def test_reply_that_is_no_json_is_a_transient_failure(endpoint: BatchEndpoint, api: BatchApi, name: str) -> None:
    if (endpoint.engine, name) == ("anthropic", "upload"):
        pytest.skip("its batches have no files")
    endpoint.batches.override = lambda method, path: (200, PAGE)
    with pytest.raises(BatchApiError, match=rf"{name} of a batch: the reply is none of this API .* in /v1") as caught:
        CALLS[name](api)
    assert caught.value.is_transient


@pytest.mark.parametrize("content", [b"", b"\n", b' {"custom_id": "x"}\n'])
def test_result_files_may_be_empty(endpoint: BatchEndpoint, api: BatchApi, content: bytes) -> None:
    endpoint.batches.override = lambda method, path: (200, content)
    assert api.results(ENDED) == content


def test_refusal_by_a_content_filter_does_not_quote_the_key(endpoint: BatchEndpoint, api: BatchApi) -> None:
    body = f'{{"error": {{"code": "content_filter", "message": "stopped for {KEY}"}}}}'.encode()
    endpoint.batches.override = lambda method, path: (400, body)
    with pytest.raises(BatchApiError, match=r"stopped for \*\*\*") as caught:
        api.retrieve("batches/0")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(("wait_s", "attempts"), [(LONGEST_WAIT_S, 4), (86_400.0, 1)])
def test_call_is_not_repeated_after_a_pause_that_is_longer_than_a_run_waits(
    api: BatchApi, wait_s: float, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, pauses = list[float](), list[float]()
    monkeypatch.setattr(time, "sleep", pauses.append)
    api.spec = api.spec.model_copy(update={"retries": 3})

    def refuse() -> None:
        calls.append(wait_s)
        raise BatchApiError("too many requests", is_transient=True, wait_s=wait_s)

    with pytest.raises(BatchApiError):
        api.repeat(refuse)
    assert (len(calls), pauses) == (attempts, [wait_s] * (attempts - 1))

"""Message Batches: which batch a run created that died is seen by time, number and requests."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from models.engines.anthropic.batch_api import AnthropicBatchApi
from models.engines.endpoints.batch_api import SentBatch
from models.spec import ModelSpec
from tests.support.endpoint import BatchEndpoint, BatchScript, always


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({}, "batch_0"),
        ({"names": ("x", "z")}, None),
        ({"names": ("x", "y", "z")}, None),
        ({"age": 4_000}, None),
        ({"age": -400}, None),
        ({"age": 200}, "batch_0"),
        ({"polls": 9}, ""),
        ({"names": ("x", "z"), "polls": 9}, ""),  # by its number it may be the one
        ({"others": ("batch_0",)}, None),
    ],
)
def test_batch_is_found_by_its_requests(batch: dict[str, Any], expected: str | None) -> None:
    names = batch.get("names", ("y", "x"))
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=batch.get("polls", 0)), engine="anthropic") as endpoint:
        api = AnthropicBatchApi(ModelSpec(engine="anthropic", model="m", base_url=endpoint.address, retries=0))
        server, now = endpoint.batches, time.time()
        body = {"model": "m", "messages": [], "max_tokens": 1}
        server.create([{"custom_id": name, "body": body} for name in names], file_id="", metadata={})
        server.batches[0].created = now + batch.get("age", 0)
        wanted_ids = ("x", "y") if "z" not in names or len(names) > 2 else ("y", "w")
        sent = SentBatch(key="k", created=now, custom_ids=wanted_ids, other_ids=batch.get("others", ()))
        state = api.find(sent)
        api.close()
    assert (state.batch_id if state else None) == expected


def test_results_that_the_provider_has_deleted_are_gone() -> None:
    with BatchEndpoint(always("A"), lambda _: BatchScript(polls=0), engine="anthropic") as endpoint:
        api = AnthropicBatchApi(ModelSpec(engine="anthropic", model="m", base_url=endpoint.address, retries=0))
        server = endpoint.batches
        body = {"model": "m", "messages": [], "max_tokens": 1}
        server.create([{"custom_id": "x", "body": body}], file_id="", metadata={})
        state = api.retrieve("batch_0")
        assert state
        assert api.results(state)
        archived = {**server.to_json(server.batches[0]), "archived_at": "2026-01-01T00:00:00Z"}
        server.override = lambda method, path: (200, json.dumps(archived).encode())
        state = api.retrieve("batch_0")
        assert state
        assert state.is_ended
        assert api.results(state) is None
        api.close()

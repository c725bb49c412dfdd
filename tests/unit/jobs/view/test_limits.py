"""What visitors use at once is bounded; who waits too long or reads too slowly is let go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from jobs.shared.auth import key_hash
from jobs.view.app import CHUNK, IN_FLIGHT, Gate, Guard
from jobs.view.index import Index
from pipelines.errors import StoreError

SCOPE = {"type": "http", "method": "GET", "path": "/secret/", "headers": [(b"host", b"127.0.0.1:8001")]}


def test_gate_lets_a_few_work_and_refuses_who_waits_too_long() -> None:
    async def visit() -> tuple[int, list[int]]:
        gate, leave, inside, most, refused = Gate(2, patience_s=0), asyncio.Event(), 0, 0, []

        async def work() -> None:
            nonlocal inside, most
            try:
                async with gate.entered():
                    inside += 1
                    most = max(most, inside)
                    await leave.wait()
                    inside -= 1
            except HTTPException as error:
                refused.append(error.status_code)
                leave.set()

        await asyncio.gather(*(work() for _ in range(5)))
        async with gate.entered():  # places are given back
            return most, refused

    assert asyncio.run(visit()) == (2, [503] * 3)


async def statuses(count: int, body: bytes = b"page") -> tuple[list[int], list[int]]:
    """Return the status of each of so many requests, whose application answers when all have come, and body sizes."""
    come, all_come, starts, sizes = 0, asyncio.Event(), [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await all_come.wait()
        await PlainTextResponse(body)(scope, receive, send)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            starts.append(message["status"])
        else:
            sizes.append(len(message["body"]))

    async def request() -> None:
        nonlocal come
        come += 1
        if come == count:
            all_come.set()
        await guard(dict(SCOPE), lambda: asyncio.sleep(0), send)

    guard = Guard(app, key_hash("secret"))
    await asyncio.gather(*(request() for _ in range(count)))
    return starts, sizes


def test_requests_beyond_the_limit_are_refused_and_long_replies_leave_in_chunks() -> None:
    starts, _ = asyncio.run(statuses(IN_FLIGHT + 3))
    assert sorted(starts) == [200] * IN_FLIGHT + [503] * 3
    _, sizes = asyncio.run(statuses(1, b"x" * (2 * CHUNK + 5)))
    assert sizes == [CHUNK, CHUNK, 5]


def test_query_beyond_the_memory_is_a_sentence_and_the_next_one_works(tmp_path: Path) -> None:
    index = Index(tmp_path)
    with pytest.raises(StoreError, match=r"no room .*400MB.*try again"):
        index.rows("SELECT list(repeat('x', 1000) || range) FROM range(2000000)")
    assert index.rows("SELECT 1 AS n") == [{"n": 1}]
    index.close()

"""Connections whose client does not move are ended."""

from __future__ import annotations

from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from jobs.shared import web
from jobs.shared.web import ImpatientProtocol


class Connection:
    """A transport and a loop that note what is asked of them."""

    def __init__(self) -> None:
        self.timers: dict[float, Any] = {}
        self.aborted = False

    def call_later(self, seconds: float, act: Any) -> Connection:
        self.timers[seconds] = act
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def create_task(self, work: Any, **_: Any) -> Connection:
        work.close()
        return self

    def abort(self) -> None:
        self.aborted = True

    def add_done_callback(self, _act: Any) -> None: ...
    def get_extra_info(self, _name: str) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def connection() -> tuple[Connection, ImpatientProtocol]:
    fake, config = Connection(), uvicorn.Config(lambda: None, log_config=None, lifespan="off")  # type: ignore[arg-type]
    protocol = ImpatientProtocol(config, ServerState(), {}, _loop=fake)  # type: ignore[arg-type]
    protocol.connection_made(fake)  # type: ignore[arg-type]
    return fake, protocol


def test_connection_whose_header_does_not_come_is_ended(connection: tuple[Connection, ImpatientProtocol]) -> None:
    fake, protocol = connection
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: 127")  # a part of a header does not start the time again
    assert list(fake.timers) == [web._HEADER_S]
    fake.timers[web._HEADER_S]()
    assert fake.aborted


def test_connection_with_a_whole_header_waits_for_its_reply_alone(
    connection: tuple[Connection, ImpatientProtocol],
) -> None:
    fake, protocol = connection
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert not fake.timers
    protocol.pause_writing()
    assert list(fake.timers) == [web._WRITE_S]
    protocol.resume_writing()
    assert not fake.timers
    protocol.pause_writing()
    fake.timers[web._WRITE_S]()
    assert fake.aborted

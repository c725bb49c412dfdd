"""The address at which an endpoint listens, and its bounds by options."""

from __future__ import annotations

import socket

import pytest

from jobs.serve.chat_api import Bounds
from jobs.serve.options import ServeOptions
from jobs.serve.run import _bounds, _listening, is_loopback
from pipelines.errors import UsageError

HOST = "127.0.0.1"


def test_free_port_is_taken_at_once_and_a_taken_one_or_a_strange_host_refused() -> None:
    with _listening(HOST, 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((HOST, port), timeout=30), listener.accept()[0]:
            pass
        with pytest.raises(UsageError, match=f"--host {HOST} --port {port}: cannot listen there"):
            _listening(HOST, port)
    with pytest.raises(UsageError, match=r"--host 192\.0\.2\.77 --port 0: cannot listen there"):
        _listening("192.0.2.77", 0)


def test_bounds_are_those_of_the_flags() -> None:
    assert _bounds(ServeOptions(model="m")) == Bounds()
    options = ServeOptions(model="m", max_pictures=1, max_total_pixels=2, max_messages=3, max_body_mib=4, timeout_s=5.0)
    assert _bounds(options) == Bounds(pictures=1, pixels=2, messages=3, body_bytes=4 << 20, timeout_s=5.0)


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "host")] == [
        *3 * [True],
        *2 * [False],
    ]

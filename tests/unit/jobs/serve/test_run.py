"""The port that an endpoint announces."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from ray.serve._private.http_util import set_socket_reuse_port

from jobs.serve.run import reserved_port
from pipelines.errors import UsageError

HOST = "127.0.0.1"


@pytest.fixture
def proxy() -> Iterator[socket.socket]:
    """A socket as Ray Serve's proxy opens it."""
    with socket.socket() as opened:
        assert set_socket_reuse_port(opened)
        yield opened


def test_only_the_proxy_can_bind_the_reserved_port(proxy: socket.socket) -> None:
    with reserved_port(HOST, 0) as port, socket.socket() as stranger:
        with pytest.raises(OSError, match="in use"):
            stranger.bind((HOST, port))
        proxy.bind((HOST, port))
        proxy.listen(32)
        for _ in range(32):  # the socket that reserves the port takes no connection
            with socket.create_connection((HOST, port), timeout=30), proxy.accept()[0]:
                pass


def test_port_of_another_proxy_is_refused(proxy: socket.socket) -> None:
    proxy.bind((HOST, 0))
    proxy.listen()
    port = proxy.getsockname()[1]
    with pytest.raises(UsageError, match=f"--port {port}: cannot listen there"), reserved_port(HOST, port):
        pytest.fail("the port is another's")
    proxy.close()
    with reserved_port(HOST, port) as free:
        assert free == port

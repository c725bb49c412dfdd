"""Hosts in network namespaces: joined by a bridge, cut off, removed at the end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hosts import Host, network, unavailable_reason

PING = "import socket, sys; socket.create_connection((sys.argv[1], 7000), timeout=2)"
SERVE = "import socket, time; s = socket.create_server(('0.0.0.0', 7000)); print('up', flush=True); time.sleep(280)"

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "-")


def test_hosts_are_disconnected_and_removed_with_the_block(tmp_path: Path) -> None:
    log, env = tmp_path / "log", {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with network(tmp_path, ("a", "b"), net="10.78.0") as net:

        def reached_in_time(host: Host) -> bool:
            """Return whether a host is reached: a repaired link and a new process take a moment."""
            return any(reached(host) for _ in range(10))

        server = net.hosts["b"].start(sys.executable, "-u", "-c", SERVE, env=env, log=log)

        def reached(host: Host) -> bool:
            ping = host.start(sys.executable, "-c", PING, net.hosts["b"].address, env=env, log=tmp_path / "pings")
            return ping.wait(120) == 0

        while "up" not in (log.read_text() if log.exists() else ""):
            assert server.poll() is None
            time.sleep(0.05)
        assert reached_in_time(net.hosts["a"])
        assert reached_in_time(net.hosts["switch"])
        net.cut("b")
        assert not reached(net.hosts["a"])
        net.join("b")
        assert reached_in_time(net.hosts["a"])
        named = net.hosts["a"].start("hostname", env=env, log=tmp_path / "name")
        assert named.wait(120) == 0
        assert (tmp_path / "name").read_text() == "a\n"
        namespaces = [host.namespace for host in net.hosts.values()]
    assert server.poll() is not None
    stdout = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert not [namespace for namespace in namespaces if namespace in stdout]

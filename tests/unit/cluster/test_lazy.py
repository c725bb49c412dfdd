"""A lazy cluster: nothing starts before it is needed, and what was started ends with its block."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import cluster.lazy
from cluster.connection import ClusterInfo
from cluster.lazy import open_cluster


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record starts and ends of connections instead of starting Ray."""
    events: list[str] = []

    @contextmanager
    def connect(address: str | None) -> Iterator[ClusterInfo]:
        events.append(f"start {address}")
        yield ClusterInfo(address or "", 2.0, 0.0)
        events.append(f"end {address}")

    monkeypatch.setattr(cluster.lazy, "connect", connect)
    return events


def test_embedded_cluster_starts_once_at_its_first_use(connections: list[str]) -> None:
    with open_cluster(None):
        pass
    assert connections == []
    with open_cluster(None) as embedded:
        assert (embedded.is_embedded, connections) == (True, [])
        assert embedded.connect() == embedded.connect() == ClusterInfo("", 2.0, 0.0)
        assert connections == ["start None"]
    assert connections == ["start None", "end None"]


def test_remote_cluster_is_joined_at_once(connections: list[str]) -> None:
    with open_cluster("head:6379") as remote:
        assert (remote.is_embedded, connections) == (False, ["start head:6379"])


def test_inner_block_shares_the_cluster_of_the_outer_block(connections: list[str]) -> None:
    with open_cluster(None) as outer:
        with open_cluster(None) as inner:
            inner.connect()
            assert inner is outer
        assert connections == ["start None"]
    assert connections == ["start None", "end None"]

"""Endpoints whose proxies are slow to listen."""

from collections.abc import Iterator
from typing import Any

import pytest
from ray import serve
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.schema import ProxyStatus, ServeStatus

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve import deployment as serving
from jobs.serve.deployment import ServeConfig
from models.spec import ModelSpec

SPEC, CLUSTER = ModelSpec(engine="random"), ClusterInfo("", 2.0, 0.0)
CONFIG = ServeConfig(host="127.0.0.1", port=8123, key=None, idle_s=1.0)
STARTING, HEALTHY = ServeStatus(proxies={"a": ProxyStatus.STARTING}), ServeStatus(proxies={"a": ProxyStatus.HEALTHY})


class Serve:
    """The start of Ray Serve, scripted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None, states: Iterator[ServeStatus]) -> None:
        self.error, self.states, self.status_calls = error, states, 0
        self.is_shut = False
        for name in ("start", "status", "shutdown"):
            monkeypatch.setattr(serve, name, getattr(self, name))
        monkeypatch.setattr(serving.time, "sleep", lambda _: None)

    def start(self, **options: Any) -> None:
        assert options["http_options"] == {"host": "127.0.0.1", "port": 8123}
        if self.error:
            raise self.error

    def status(self) -> ServeStatus:
        self.status_calls += 1
        return next(self.states)

    def shutdown(self) -> None:
        self.is_shut = True


@pytest.mark.parametrize("error", [None, ActorDiedError(), TimeoutError("HTTP proxies not available after 60s.")])
def test_restarted_proxy_is_waited_for(error: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, error, iter([ServeStatus(), STARTING, STARTING, HEALTHY]))
    serving._start_proxies(CONFIG)
    assert started.status_calls == 4


@pytest.mark.parametrize("address", ["", "10.0.0.1:6379"])
def test_proxy_that_cannot_listen_fails_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterInfo(address, 2.0, 0.0)
    error = RayTaskError("ready", "port 8123 is taken", OSError("port 8123 is taken"))
    started = Serve(monkeypatch, error, iter([ServeStatus(), STARTING]))
    message = r"no proxy listens at 127.0.0.1 port 8123 \(port 8123 is taken\)"
    with pytest.raises(ClusterError, match=message), serving.serving("m", SPEC, cluster, CONFIG):
        pytest.fail("no proxy listens")
    assert started.is_shut == bool(address), "an embedded cluster ends anyway, and waits for no request in flight"


def test_waiting_for_a_proxy_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    Serve(monkeypatch, None, iter(lambda: STARTING, HEALTHY))
    monkeypatch.setattr(serving, "LISTEN_S", 0.0)
    with pytest.raises(ClusterError, match="no proxy listens"):
        serving._start_proxies(CONFIG)


def test_running_serve_is_not_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, None, iter([HEALTHY]))
    message = "serves nothing yet.*serve shutdown"
    with pytest.raises(ClusterError, match=message), serving.serving("m", SPEC, CLUSTER, CONFIG):
        pytest.fail("it is taken")
    assert not started.is_shut

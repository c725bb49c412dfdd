"""Serve runs once on a cluster, without proxies of its own."""

from typing import Any

import pytest
from ray import serve
from ray.serve.schema import ProxyStatus, ServeStatus

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve import run as serving
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError

SPEC = ModelSpec(engine="random")


class Serve:
    """Ray Serve, scripted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: ServeStatus) -> None:
        self.current, self.is_shut, self.options = status, False, dict[str, Any]()
        for name in ("start", "status", "shutdown"):
            monkeypatch.setattr(serve, name, getattr(self, name))

    def start(self, **options: Any) -> None:
        self.options = options

    def status(self) -> ServeStatus:
        return self.current

    def shutdown(self) -> None:
        self.is_shut = True


@pytest.mark.parametrize("address", ["", "10.0.0.1:6379"])
def test_serve_has_no_proxies_and_ends_with_the_block(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, ServeStatus())
    monkeypatch.setattr(serving, "_start", lambda *_: "handle")
    with serving.serving("m", SPEC, ClusterInfo(address, 2.0, 0.0), 1.0) as handle:
        assert handle == "handle"
        assert started.options["proxy_location"] == "Disabled"
    assert started.is_shut == bool(address), "an embedded cluster ends anyway, and waits for no request in flight"


def test_model_that_cannot_start_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise RuntimeError("no room")

    Serve(monkeypatch, ServeStatus())
    monkeypatch.setattr(serve, "run", run)
    message = "model 'm' could not be started: no room"
    with (
        pytest.raises(ModelUnavailableError, match=message),
        serving.serving("m", SPEC, ClusterInfo("", 2.0, 0.0), 1.0),
    ):
        pytest.fail("it cannot start")


def test_running_serve_is_not_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, ServeStatus(proxies={"a": ProxyStatus.HEALTHY}))
    message = "serves nothing yet.*serve shutdown"
    with pytest.raises(ClusterError, match=message), serving.serving("m", SPEC, ClusterInfo("", 2.0, 0.0), 1.0):
        pytest.fail("it is taken")
    assert not started.is_shut

"""Errors of a Ray that cannot be started."""

from typing import NoReturn

import pytest
import ray

from cluster.connect import connect
from cluster.errors import ClusterError


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(ray, "init", init)


def test_slow_ray_start_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(Exception("The current node timed out during startup."), monkeypatch)
    with pytest.raises(ClusterError, match=r"a local Ray cannot be used: .*timed out.* less busy"), connect(None):
        pass


def test_bug_is_not_reported_as_a_cluster_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(KeyError("missing"), monkeypatch)
    with pytest.raises(KeyError), connect(None):
        pass

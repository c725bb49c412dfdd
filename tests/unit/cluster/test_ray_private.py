"""Names of Ray that are not public: one module knows them, and another for Ray Serve."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest
import ray
import ray._private.utils
import ray._private.worker

from cluster.ray_private import shut_down, take_over


def test_reference_dropped_while_ray_shuts_down_reaches_no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, ended = ray._private.worker.global_worker, list[str]()

    def shutdown_driver() -> None:
        ended.append("worker")
        assert not hasattr(worker, "core_worker"), "where `ObjectRef` looks for it"

    worker.core_worker = SimpleNamespace(shutdown_driver=shutdown_driver)
    monkeypatch.setattr(ray, "shutdown", lambda *, wait_for_processes: ended.append(f"rest, {wait_for_processes}"))
    shut_down()
    assert ended == ["worker", "rest, True"]


def test_ray_installs_no_handler_of_sigterm_in_this_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    take_over(None)
    ray._private.utils.set_sigterm_handler(lambda *_: None)
    assert signal.getsignal(signal.SIGTERM) is before

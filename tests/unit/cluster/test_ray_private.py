"""Names of Ray that are not public: one module knows them, and another for Ray Serve."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import ray
import ray._private.worker

from cluster.ray_private import shut_down
from tests.support.paths import ROOT

PRIVATE = re.compile(r'"ray\.(_raylet|_private\.|\w+\._private)|ray\.(_private|_raylet|experimental\.internal_kv)\b')


def test_no_other_module_uses_private_names() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for room in ("cluster", "jobs", "models", "pipelines")
        for path in (ROOT / room).rglob("*.py")
        if PRIVATE.search(re.sub(r'for logger in \("ray.serve", "ray._private"\)', "", path.read_text()))
    }
    assert users == {"cluster/ray_private.py", "jobs/serve/replica.py"}


def test_reference_that_a_thread_drops_while_ray_shuts_down_does_not_reach_native_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, ended = ray._private.worker.global_worker, list[str]()

    def shutdown_driver() -> None:
        ended.append("worker")
        assert not hasattr(worker, "core_worker"), "where `ObjectRef` looks for it"

    worker.core_worker = SimpleNamespace(shutdown_driver=shutdown_driver)
    monkeypatch.setattr(ray, "shutdown", lambda *, wait_for_processes: ended.append(f"rest, {wait_for_processes}"))
    shut_down()
    assert ended == ["worker", "rest, True"]

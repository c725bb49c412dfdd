"""Names of Ray that are not public: one module knows them, and says which Ray it was written for."""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
import ray._private.services
import ray._private.worker
from ray._private.node import Node
from ray._private.ray_constants import DASHBOARD_ADDRESS, KV_NAMESPACE_DASHBOARD

from cluster.connection import connect
from cluster.errors import ClusterError
from cluster.ray_private import (
    WRITTEN_FOR,
    check_ray,
    embedded_nodes,
    kill_descendants,
    own_handler,
    printed_by,
    shut_down,
)
from tests.support.paths import ROOT

PRIVATE = re.compile(r"ray\.(_private|_raylet|experimental\.internal_kv|\w+\._internal)|import _\w+ .*# ray")


def test_no_other_module_uses_private_names() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for room in ("cluster", "jobs", "models", "pipelines")
        for path in (ROOT / room).rglob("*.py")
        if PRIVATE.search(re.sub(r'for logger in \("ray.serve", "ray._private"\)', "", path.read_text()))
    }
    assert users == {"cluster/ray_private.py"}


def test_the_installed_ray_has_all_names() -> None:
    check_ray()
    assert version("ray").startswith(f"{WRITTEN_FOR}.")


def test_a_ray_without_a_name_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ray._private.services, "get_node")
    expected = (
        rf"^Ray {re.escape(version('ray'))} has no ray\._private\.services\.get_node, .* for Ray {WRITTEN_FOR}; pip"
    )
    with pytest.raises(ClusterError, match=expected), connect(None):
        pass


def test_names_are_replaced_within_a_block_only() -> None:
    before = ray._private.worker.print_to_stdstream, ray._private.services.get_node
    with printed_by(print), embedded_nodes(lambda original, _: lambda *args: (original, args)):
        assert ray._private.worker.print_to_stdstream is print
        assert ray._private.services.get_node(1) == (before[1], (1,))
    assert (ray._private.worker.print_to_stdstream, ray._private.services.get_node) == before


def test_descendants_are_killed_whose_names_are_cut_within_a_character(tmp_path: Path) -> None:
    """The kernel keeps 15 bytes of a name: of eight of these signs seven and a half."""
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 8))
    with subprocess.Popen(["sh", "-c", '"$0" 60 & echo $!; wait', program], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        while "sh" in (name := Path(f"/proc/{pid}/exe").readlink().name):
            assert shell.poll() is None, name  # until it runs the program
        kill_descendants(shell.pid)
        shell.wait(60)
    assert not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2][:2] == b" Z"


@pytest.mark.parametrize("logs", [False, True])
def test_a_node_starts_without_the_processes_that_nobody_asks(logs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started, stored = list[str](), list[tuple[object, ...]]()
    names = {"start_api_server", "start_monitor", "start_log_monitor"}
    for name in names:
        monkeypatch.setattr(Node, name, lambda *_, name=name, **__: started.append(name))
    client = SimpleNamespace(internal_kv_put=lambda *entry: stored.append(entry))
    node = SimpleNamespace(get_gcs_client=lambda: client)
    with embedded_nodes(lambda original, _: original, logs=logs):
        Node.start_api_server(node, include_dashboard=False, raise_on_failure=False)
        Node.start_monitor(node)
        Node.start_log_monitor(node)
    assert started == (["start_log_monitor"] if logs else [])
    assert [(key.decode(), space) for key, _, _, space in stored] == [(DASHBOARD_ADDRESS, KV_NAMESPACE_DASHBOARD)]
    for name in names:
        getattr(Node, name)(node)
    assert {*started} == names


def test_process_that_a_node_needs_is_named_once_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(command: list[str], *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(process=subprocess.Popen(command))

    monkeypatch.setattr(ray._private.services, "start_ray_process", start)
    with embedded_nodes(lambda _, ended: ended):
        for command, kind in ((["true"], "log_monitor"), (["sleep", "60"], "gcs_server"), (["false"], "raylet")):
            info = ray._private.services.start_ray_process(command, kind, fate_share=True)
            if kind == "gcs_server":
                server = info.process
            else:
                info.process.wait()
            assert ray._private.services.get_node() == (("raylet", 1) if kind == "raylet" else None)
        server.kill()
        server.wait()


def test_processes_of_a_node_that_does_not_start_are_killed_with_what_they_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & echo; exec sleep 60"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()  # as a raylet and its agent: both run
    monkeypatch.setattr(ray._private.services, "start_ray_process", lambda *_: SimpleNamespace(process=process))

    def fail() -> None:
        with embedded_nodes(lambda original, _: original):
            ray._private.services.start_ray_process([], "raylet")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert process.returncode == -signal.SIGKILL
    with process.stdout:
        assert select.select([process.stdout], [], [], 20)[0], "the agent holds the pipe until it ends"


def test_processes_of_an_embedded_ray_are_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, where a process is not gone when Ray no longer waits for it."""
    process = subprocess.Popen(["sleep", "60"])
    node = SimpleNamespace(all_processes={"raylet": [SimpleNamespace(process=process)]})
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    monkeypatch.setattr(ray, "shutdown", process.kill)
    shut_down()
    assert process.returncode == -signal.SIGKILL


def test_second_interrupt_ends_an_embedded_ray_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["sleep", "60"])
    node = SimpleNamespace(all_processes={"raylet": [SimpleNamespace(process=process)]})
    attempts = iter([KeyboardInterrupt, None])

    def shutdown() -> None:
        if failure := next(attempts):
            raise failure
        process.kill()

    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    monkeypatch.setattr(ray, "shutdown", shutdown)
    with pytest.raises(KeyboardInterrupt):
        shut_down()
    assert process.returncode == -signal.SIGKILL


def test_handler_of_sigterm_that_native_code_installs_while_ray_starts_is_replaced() -> None:
    received = list[int]()
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with own_handler():
            ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN, past Python
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Ray ends its processes by their group")
def test_processes_of_a_node_are_in_a_group_of_their_own() -> None:
    """So `timeout`, or a terminal that is closed, tells the driver alone, which then ends them in order."""
    with embedded_nodes(lambda original, _: original):
        process = ray._private.services.ConsolePopen(["sleep", "60"])
    assert os.getpgid(process.pid) == process.pid
    process.kill()
    process.wait()


def test_reference_that_a_thread_drops_while_ray_shuts_down_does_not_reach_native_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, ended = ray._private.worker.global_worker, list[str]()

    def shutdown_driver() -> None:
        ended.append("worker")
        assert not hasattr(worker, "core_worker"), "where `ObjectRef` looks for it"

    worker.core_worker = SimpleNamespace(shutdown_driver=shutdown_driver)
    monkeypatch.setattr(worker, "mode", ray.SCRIPT_MODE)
    monkeypatch.setattr(ray._private.worker, "_global_node", None)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append("rest"))
    shut_down()
    assert ended == ["worker", "rest"]

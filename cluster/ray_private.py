"""What the product needs of Ray that has no public name, all in one place: another Ray may keep it elsewhere."""

import contextlib
import importlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from typing import Any, Final

import psutil

from cluster.errors import ClusterError

WRITTEN_FOR: Final = "2.60"
REAP_S: Final = 30
Ended = Callable[[], tuple[str, int] | None]
_NEEDED: Final = ("gcs_server", "raylet")
_NAMES: Final = (
    ("ray._private.worker", "SCRIPT_MODE"),
    ("ray._private.worker", "_global_node"),
    ("ray._private.worker", "global_worker"),
    ("ray._private.worker", "print_to_stdstream"),
    ("ray._private.node", "Node.start_api_server"),
    ("ray._private.node", "Node.start_log_monitor"),
    ("ray._private.node", "Node.start_monitor"),
    ("ray._private.ray_constants", "ENABLE_RAY_CLUSTER"),
    ("ray._private.services", "ConsolePopen"),
    ("ray._private.services", "get_node"),
    ("ray._private.services", "start_ray_process"),
    ("ray._private.state", "available_resources_per_node"),
    ("ray._private.utils", "set_sigterm_handler"),
    ("ray._raylet", "AuthenticationTokenLoader"),
    ("ray._raylet", "Config"),
    ("ray.experimental.internal_kv", "_internal_kv_get"),
)


def check_ray() -> None:
    """Raise ClusterError where the installed Ray lacks a name, and say which Ray this was written for."""
    missing = list[str]()
    for module, name in _NAMES:
        try:
            _get(module, name)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name}")
    if missing:
        raise ClusterError(
            f"Ray {version('ray')} has no {', '.join(missing)}, which this version of vlmsweep needs: it was written "
            f"for Ray {WRITTEN_FOR}; pip install 'ray[data,serve]=={WRITTEN_FOR}.*'"
        )


def embedded_node() -> Any:
    """Return the node of an embedded Ray, which knows its processes."""
    return _get("ray._private.worker", "_global_node")


def shut_down() -> None:
    """End the connection, and reap what ran an embedded Ray: Ray waits one second for each process that it killed."""
    import ray

    node = embedded_node()
    processes = [info.process for infos in node.all_processes.values() for info in infos] if node else []
    try:
        _end_native_worker()
        ray.shutdown()
    except KeyboardInterrupt:  # a second one, which leaves processes that write on
        ray.shutdown()
        raise
    finally:
        _reap(processes)


def _end_native_worker() -> None:
    """End Ray's native half out of other threads' reach: one that drops a reference meanwhile would exit with code 1.

    Ray does the same with `core_worker` still in place, and a thread of Ray Data may drop references at any time.
    """
    worker = _get("ray._private.worker", "global_worker")
    core_worker = worker.__dict__.pop("core_worker", None)
    if core_worker and worker.mode == _get("ray._private.worker", "SCRIPT_MODE"):
        core_worker.shutdown_driver()


def _reap(processes: Iterable[Any]) -> None:
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process in a call of the kernel cannot end
            process.wait(REAP_S)


def kill_descendants(pid: int) -> None:
    """Kill the descendants of a process: Ray's agents would wait a minute for a head that is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for descendant in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                descendant.kill()


@contextlib.contextmanager
def printed_by(write: Callable[..., None]) -> Iterator[None]:
    """Let a function write what Ray would print of its workers, within a block."""
    with _replaced("ray._private.worker", "print_to_stdstream", write):
        yield


@contextlib.contextmanager
def own_handler() -> Iterator[None]:
    """Keep this process's handler of SIGTERM while Ray starts in a block; Ray's ends a process without its own blocks.

    Ray's native code installs one past Python, which prints a stack and aborts the process after three seconds.
    """
    try:
        with _replaced("ray._private.utils", "set_sigterm_handler", lambda _: None):
            yield
    finally:
        if threading.current_thread() is threading.main_thread():  # Python lets no other install handlers
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)


@contextlib.contextmanager
def embedded_nodes(
    find: Callable[[Callable[..., object], Ended], Callable[..., object]], *, logs: bool = False
) -> Iterator[None]:
    """Let a function look for a node that starts within a block, without what nobody asks on one machine.

    The function is made from Ray's and from one that returns name and status of a process that the node needs, once it
    ended. All its processes listen at the loopback address alone. Left out are dashboard, for which Ray waits two
    seconds, autoscaler and, unless `logs`, the reader of logs.
    They are a process group of their own, so that a signal to this process's group reaches this process alone.
    Where the block fails, the processes that were started in it are killed, so that another node can be.
    """
    services, started = "ray._private.services", list[tuple[str, Any]]()
    start = _get(services, "start_ray_process")

    def record(command: object, process_type: str, *args: object, **options: object) -> Any:
        info = start(command, process_type, *args, **options)
        started.append((process_type, info.process))
        return info

    def ended() -> tuple[str, int] | None:
        needed = (entry for entry in started if entry[0] in _NEEDED)
        return next(((name, process.returncode) for name, process in needed if process.poll() is not None), None)

    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced("ray._private.node", "Node.start_api_server", _announce_no_dashboard))
        for name in ("start_monitor", *(() if logs else ("start_log_monitor",))):
            stack.enter_context(_replaced("ray._private.node", f"Node.{name}", lambda _: None))
        # Ray binds all interfaces but on systems where it joins no cluster.
        stack.enter_context(_replaced("ray._private.ray_constants", "ENABLE_RAY_CLUSTER", False))
        stack.enter_context(_replaced(services, "start_ray_process", record))
        if sys.platform == "linux":  # elsewhere Ray ends them by the group, should this process be killed
            grouped = partial(subprocess.Popen, process_group=0)
            stack.enter_context(_replaced(services, "ConsolePopen", grouped))
        stack.enter_context(_replaced(services, "get_node", find(_get(services, "get_node"), ended)))
        try:
            yield
        except BaseException:
            for _, process in started:
                kill_descendants(process.pid)
                process.kill()
            _reap(process for _, process in started)
            raise


def serve_replica_at_loopback() -> None:
    """Let the replica of Ray Serve that this process becomes listen at the loopback address, as an embedded Ray does.

    To be called while its class is built; its port, which only other deployments use, is open to all networks else.
    """
    module = importlib.import_module("ray.serve._private.replica")
    add_port: Callable[[object, str], int] = module.add_port_to_grpc_server
    setattr(module, "add_port_to_grpc_server", lambda server, _: add_port(server, "127.0.0.1:0"))  # noqa: B010 - private


def _announce_no_dashboard(node: Any, **_: object) -> None:
    """Give an address at which nobody answers: an agent would log each second that it waits for one."""
    node.get_gcs_client().internal_kv_put(b"dashboard", b"127.0.0.1:1", True, b"dashboard")


def forget_token() -> None:
    """Make Ray read its token again: it reads it once per process, and each cluster has its own."""
    _get("ray._raylet", "Config").initialize("")
    _get("ray._raylet", "AuthenticationTokenLoader").instance().reset_cache()


def cluster_token() -> str | None:
    """Return the cluster's token from where Ray looks for it; None if Ray runs without."""
    from ray.exceptions import AuthenticationError

    loader = _get("ray._raylet", "AuthenticationTokenLoader").instance()
    try:
        return str(loader.get_raw_token()) or None if loader.has_token() else None
    except AuthenticationError:
        return None


def available_resources() -> dict[str, dict[str, float]]:
    """Return what is free on each node, by the node's id."""
    free: dict[str, dict[str, float]] = _get("ray._private.state", "available_resources_per_node")()
    return free


def autoscaler_report() -> dict[str, Any]:
    """Return what the first version of the autoscaler reports, {} where it does not run."""
    content = _get("ray.experimental.internal_kv", "_internal_kv_get")("__autoscaling_status")
    report: dict[str, Any] = json.loads(content or "{}").get("autoscaler_report") or {}
    return report


def _get(module: str, name: str) -> Any:
    return attrgetter(name)(importlib.import_module(module))


@contextlib.contextmanager
def _replaced(module: str, path: str, value: Any) -> Iterator[None]:
    outer, _, name = path.rpartition(".")
    owner = _get(module, outer) if outer else importlib.import_module(module)
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)

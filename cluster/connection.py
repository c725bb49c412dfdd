"""Connect to a Ray cluster, or start an embedded one; watch it, and end this process when it is gone."""

import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import psutil

from cluster.errors import ClusterError
from cluster.ray_private import forget_token, shut_down, take_over
from models.scratch import make_scratch, remove_abandoned, remove_locked, remove_scratch

log = logging.getLogger(__name__)


POLL_S = 0.5
VITAL = {"raylet": "raylet", "gcs_server": "head"}  # Ray's names of its vital processes, and their names in messages
SHUTDOWN_CODES, SHUTDOWN_S = (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP), 60.0
"""Return codes of Ray where a signal went to the whole process group: then this process is ending as well."""
PING_EVERY_S = 5.0
MAX_ABSENCE_S = 45.0  # longest absence of a head; Ray ends its drivers after 60 s
_UNREACHABLE = 3


@contextmanager
def watch_embedded_ray() -> Iterator[None]:
    """End this process with 3 if its embedded Ray dies within the block; log why, and remove temporary folders.

    It ends at once: requests in flight depend on the same Ray. Committed rows are kept.
    """
    children = psutil.Process().children()
    with _in_thread(_watch, {VITAL[name]: child for child in children if (name := child.name()) in VITAL}):
        yield


@contextmanager
def watch_head(address: str, ping: Callable[[str], None]) -> Iterator[None]:
    """End this process with 3 if the head at `host:port` stays unreachable (`ping` raises) within the block; log it."""
    with _in_thread(_watch_head, address, ping):
        yield


@contextmanager
def _in_thread(watch: Callable[..., None], *arguments: Any) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=watch, args=(*arguments, stop), name="ray-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def kill_descendants(pid: int, argument: str = "") -> None:
    """Kill the descendants of a process; with an argument, those started with it and theirs."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for descendant in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if not argument:
                    descendant.kill()
                elif any(argument in text for text in descendant.cmdline()):
                    kill_descendants(descendant.pid)
                    descendant.kill()


def has_descendant(name: str, argument: str) -> bool:
    """Return whether this process has a living descendant with a program's name and an argument."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for descendant in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                program, *arguments = descendant.cmdline() or [""]
                if program.endswith(name) and any(argument in text for text in arguments):
                    return True
    return False


def _watch(processes: Mapping[str, psutil.Process], stop: threading.Event) -> None:
    while not stop.wait(POLL_S):
        for name, process in processes.items():
            try:
                code = process.wait(0)
            except psutil.TimeoutExpired:
                continue
            if code in SHUTDOWN_CODES and stop.wait(SHUTDOWN_S):
                return
            end = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            hint = ", possibly out of memory" if code == -signal.SIGKILL else ""
            log.error("Ray's %s %s%s. Run the same command again to resume.", name, end, hint)
            kill_descendants(os.getpid())
            remove_locked()
            _exit()


def _watch_head(address: str, ping: Callable[[str], None], stop: threading.Event) -> None:
    if not _answers(ping, address):
        return  # the cluster was joined another way, and this address says nothing about it
    last_answer = monotonic()
    is_reported = False
    while not stop.wait(PING_EVERY_S):
        if _answers(ping, address):
            last_answer, is_reported = monotonic(), False
        elif not is_reported:
            log.warning(
                "the cluster's head at %s does not answer; if it stays unreachable this run ends within a minute",
                address,
            )
            is_reported = True
        elif monotonic() - last_answer > MAX_ABSENCE_S:
            log.error("the cluster's head stays unreachable. Run the same command again once it is up to resume.")
            _exit()


def _answers(ping: Callable[[str], None], address: str) -> bool:
    try:
        ping(address)
    except ClusterError:
        return False
    return True


def _exit() -> None:
    logging.shutdown()
    sys.stdout.flush()
    os._exit(_UNREACHABLE)


MAX_NODES_LABEL = "vlmsweep/grows-to"
"""Label of a node, normally the head: the maximum number of GPU nodes, such as `10x1_6x8`."""
_NODES = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")


def parse_max_nodes_label(text: str) -> tuple[int, ...]:
    """Return the GPUs of each node, largest first, `2x1_1x4` as (4, 1, 1); ValueError for another form."""
    matches = [_NODES.fullmatch(part) for part in text.split("_")]
    if not all(matches):
        raise ValueError(
            f"label {MAX_NODES_LABEL} is {text!r}; write COUNTxGPUS, such as 10x1_6x8 for 10 nodes of 1 and 6 of 8"
        )
    return tuple(sorted((int(match[2]) for match in matches if match for _ in range(int(match[1]))), reverse=True))


def max_gpu_nodes() -> tuple[int, ...]:
    """Return the GPUs of each node of the cluster at full scale: () without a label, ValueError for a bad one."""
    import ray

    labels = (node.get("Labels") or {} for node in ray.nodes() if node.get("Alive"))
    text = next((label[MAX_NODES_LABEL] for label in labels if MAX_NODES_LABEL in label), "")
    return parse_max_nodes_label(text) if text else ()


PING_S = 5.0
START_LIMITS_S = (90, 300)
"""Limits of the first and the second start of a local Ray. Its own, half a minute, is too short on a busy machine."""
CHECK_ADDRESS = "check the address (--address, RAY_ADDRESS) and that it runs"
_CANNOT_START = (ConnectionError, RuntimeError, ValueError, TimeoutError)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Capacity of a connected cluster."""

    address: str  # '' for the embedded one
    cpus: float
    gpus: float
    max_gpu_nodes: tuple[int, ...] = ()
    """GPUs of each node at full scale, if an autoscaler adds nodes and the head's label says how many."""
    is_shared: bool = False
    """Other models run on its GPUs too. Ray Data gives each of n pipelines CPUs // n of a node, which may be none, and
    one that uses more than its share a task at a time: so replicas and tasks count no CPUs. Their number is limited."""

    node_sizes: tuple[int, ...] = ()  # GPUs of the nodes on which replicas are planned; () where any will do

    @property
    def is_embedded(self) -> bool:
        """Whether it is this process's own, on this machine."""
        return not self.address

    @property
    def has_gpus(self) -> bool:
        """Whether there are GPUs, or the autoscaler can add some."""
        return self.gpus > 0 or bool(self.max_gpu_nodes)


_CONNECTED: dict[str | None, ClusterInfo] = {}
"""Clusters that this process is connected to, by requested address: an inner block uses the outer block's."""


@contextlib.contextmanager
def connect(address: str | None, *, verbose: bool = False) -> Iterator[ClusterInfo]:
    """Connect to the cluster at `address` for the length of a block; None starts an embedded one that ends with it.

    Inside a Ray job the job's own cluster is used. An inner block of the same address uses the outer block's cluster.

    Raises:
        ClusterError: the cluster cannot be joined.
    """
    if address in _CONNECTED:
        yield refresh(_CONNECTED[address])
        return
    with contextlib.ExitStack() as stack:
        # Ray Data's usage statistics come with a thread that outlives the connection, asking for Prometheus.
        # Ray's native code writes to standard error about actors that Ray Data itself made that way.
        # Its gRPC would print that it does not follow a fork, which only starts another program here.
        settings = {"RAY_DATA_USAGE_DISABLED": "1", "GRPC_ENABLE_FORK_SUPPORT": "0"} | (
            {} if verbose else {"RAY_BACKEND_LOG_LEVEL": "fatal"}
        )
        stack.enter_context(temporary_environment(settings | (_embedded_settings() if address is None else {})))
        options: dict[str, Any] = {"logging_level": "info" if verbose else "error", "log_to_driver": verbose}
        if address is None:
            folder = _scratch_folder()
            stack.callback(remove_scratch, folder)
            options |= {"address": "local", "include_dashboard": False, "_temp_dir": str(folder)}
        else:
            if ":" in address:
                check_reachable(address)
            options["address"] = address
        import ray

        take_over(None if verbose else _log_messages)
        ended = threading.Event()
        stack.callback(ended.set)
        _start(options, START_LIMITS_S if address is None else (None,), ended)
        stack.callback(shut_down)
        head = ray.get_runtime_context().gcs_address
        stack.enter_context(watch_embedded_ray() if address is None else watch_head(head, check_reachable))
        _CONNECTED[address] = _inspect(address)
        stack.callback(_CONNECTED.pop, address)
        yield _CONNECTED[address]


def _start(options: Mapping[str, Any], limits_s: Sequence[int | None], ended: threading.Event) -> None:
    """Start or join Ray, again with the next limit if a local one is not up in time."""
    limit_s, *further = limits_s
    limits = {
        "RAY_gcs_server_port_wait_time_s": f"{limit_s}",
        "RAY_agent_register_timeout_ms": f"{limit_s}000",
    }
    try:
        with temporary_environment(limits if limit_s else {}), _own_handler():
            forget_token(limit_s)
            with contextlib.nullcontext() if options["log_to_driver"] else _silent_stderr():
                _init(options, ended)
    except BaseException as error:
        reason = " ".join(str(error).split())
        if limit_s:
            if type(error) is Exception and not has_descendant("raylet", options["_temp_dir"]):
                # It ended by itself: a longer limit would only be a longer wait.
                reason, further = "its raylet ended as it started", [limit_s for _ in further]
            kill_descendants(os.getpid(), options["_temp_dir"])
        # Ray raises the bare class if a machine is too busy to start it in time.
        if type(error) is not Exception and not isinstance(error, _CANNOT_START):
            raise
        if not further:
            raise ClusterError(_describe_failure(options["address"], reason)) from error
        log.info("Ray is started again: %s", reason)
    else:
        return
    _start(options, further, ended)


def _init(options: Mapping[str, Any], ended: threading.Event) -> None:
    """Start Ray in a thread: its native code waits for its processes, and signals are to end this one meanwhile.

    The thread lasts until `ended`, because Linux ends Ray's processes with the thread that started them.
    """
    import ray

    outcome = Future[Any]()

    def start() -> None:
        try:
            outcome.set_result(ray.init(**options))
            ended.wait()
        except BaseException as error:  # noqa: BLE001  raised by the thread that waits
            outcome.set_exception(error)

    threading.Thread(target=start, name="ray-start", daemon=True).start()
    outcome.result()


def _describe_failure(address: str, reason: str) -> str:
    if address == "local":
        remedy = "run again when this machine is less busy, or with more memory (`ulimit -v`)"
        return f"a local Ray cannot be used: {reason}; {remedy}"
    remedy = CHECK_ADDRESS
    if reason.startswith("Version mismatch"):
        remedy = "use the image of the cluster here too, or its versions of Ray and Python"
    return f"the cluster at {address} cannot be used: {reason}; {remedy}"


@contextlib.contextmanager
def _own_handler() -> Iterator[None]:
    """Keep this process's handler of SIGTERM while Ray starts, whose native code installs its own."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other install handlers
        yield
        return
    handler = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _log_messages(data: Mapping[str, Sequence[str]], **_: object) -> None:
    """Log Ray's messages about dead workers and tasks: the product reports what they mean."""
    for line in data["lines"]:
        log.info("Ray: %s", line)


def _inspect(address: str | None) -> ClusterInfo:
    info = ClusterInfo(address or "", *_capacity())
    try:
        return replace(info, max_gpu_nodes=max_gpu_nodes()) if address is not None else info
    except ValueError as error:
        raise ClusterError(f"the cluster at {address}: {error}") from error


def refresh(info: ClusterInfo) -> ClusterInfo:
    """Return the current capacity, which changes as a cluster grows."""
    if not info.max_gpu_nodes:
        return info
    cpus, gpus = _capacity()
    return replace(info, cpus=cpus, gpus=gpus)


def _capacity() -> tuple[float, float]:
    import ray

    total = ray.cluster_resources()
    return total.get("CPU", 1.0), total.get("GPU", 0.0)


def _embedded_settings() -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a Ray that joins no cluster listens at the loopback address only
        "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def check_reachable(address: str) -> None:
    """Fail fast if nothing listens at `host:port`; Ray would retry silently for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PING_S):
            return
    except (OSError, ValueError) as error:
        raise ClusterError(f"the cluster at {address} cannot be reached ({error}); {CHECK_ADDRESS}") from error


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Close standard error to native code while Ray starts: it announces its own settings there, past any logger."""
    sys.stderr.flush()
    original = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as null:
            os.dup2(null.fileno(), 2)
            yield
    finally:
        os.dup2(original, 2)
        os.close(original)


@contextlib.contextmanager
def temporary_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the length of a block, for settings that Ray takes no other way."""
    old = {name: os.environ.get(name) for name in settings}  # noqa: TID251  Ray takes these settings no other way
    os.environ.update(settings)  # noqa: TID251
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)  # noqa: TID251
            else:
                os.environ[name] = value  # noqa: TID251


def _scratch_folder() -> Path:
    """Return a new folder for Ray's files; those that killed runs left are removed."""
    try:
        for parent in {tempfile.gettempdir(), _short_temp()}:
            remove_abandoned(parent)
        return make_scratch(_short_temp())
    except OSError as error:
        raise ClusterError(f"a local Ray cannot keep its files: {error}") from error


def _short_temp() -> str:
    """Return the temporary folder, or /tmp for a long TMPDIR: Ray's socket paths are limited to 107 characters.

    Its session, with a process id of up to seven digits, takes 64 of them; ours has a user id and a random name.
    """
    folder = tempfile.gettempdir()
    return folder if len(f"{folder}/vlmsweep-{os.getuid()}/12345678") <= 43 else "/tmp"  # noqa: S108

"""Connect to a Ray cluster, or start an embedded one."""

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cluster.autoscaling import max_gpu_nodes
from cluster.errors import ClusterError
from cluster.ray_private import Ended, check_ray, embedded_nodes, forget_token, own_handler, printed_by, shut_down
from cluster.watchdog import watch_embedded_ray, watch_head
from models.scratch import make_scratch, remove_abandoned, remove_scratch

log = logging.getLogger(__name__)

PING_S = 5.0
START_S = 180
STARTS = 3
"""How often a Ray whose raylet aborts is started: it does where its agents need more than 15 s, on a busy machine."""
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
        if address is None:
            folder = _scratch_folder()
            stack.callback(remove_scratch, folder)
        elif ":" in address:
            check_reachable(address)
        check_ray()
        forget_token()
        import ray

        if not verbose:
            stack.enter_context(printed_by(_log_messages))
        options: dict[str, object] = {"logging_level": "info" if verbose else "error", "log_to_driver": verbose}
        if address is None:
            options |= {"address": "local", "include_dashboard": False, "_temp_dir": str(folder)}
        else:
            options["address"] = address
        _start(options, "a local Ray" if address is None else f"the cluster at {address}", verbose=verbose)
        stack.callback(shut_down)
        head = ray.get_runtime_context().gcs_address
        stack.enter_context(watch_embedded_ray() if address is None else watch_head(head, check_reachable))
        _CONNECTED[address] = _inspect(address)
        stack.callback(_CONNECTED.pop, address)
        yield _CONNECTED[address]


def _start(options: Mapping[str, object], target: str, *, verbose: bool) -> None:
    import ray

    is_embedded = options["address"] == "local"
    try:
        with own_handler(), contextlib.nullcontext() if verbose else _silent_stderr():
            (_init_embedded if is_embedded else ray.init)(**options)
    except Exception as error:
        # Ray raises the bare class where a machine is too busy to start it in time.
        if type(error) is not Exception and not isinstance(error, _CANNOT_START):
            raise
        remedy = (
            "run again when this machine is less busy, or with more memory (`ulimit -v`)"
            if is_embedded
            else CHECK_ADDRESS
        )
        reason = " ".join(str(error).split())
        if reason.startswith("Version mismatch"):  # Ray lists the versions on lines of their own
            remedy = "use the image of the cluster here too, or its versions of Ray and Python"
        raise ClusterError(f"{target} cannot be used: {reason}; {remedy}") from error


def _log_messages(data: Mapping[str, Sequence[str]], **_: object) -> None:
    """Log Ray's messages about dead workers and tasks, which it would print: the product reports what they mean."""
    for line in data["lines"]:
        log.info("Ray: %s", line)


class _AbortedError(ConnectionError):
    """A process that a node needs aborted before the node was up."""


def _init_embedded(**options: object) -> None:
    """Start Ray within `START_S`, up to `STARTS` times."""
    import ray

    deadline = time.monotonic() + START_S
    for start in range(1, STARTS + 1):
        try:
            with embedded_nodes(partial(_patient, deadline), logs=bool(options["log_to_driver"])):
                ray.init(**options)
        except _AbortedError as error:
            if start == STARTS or time.monotonic() > deadline:
                raise
            log.info("Ray is started again: %s", error)
        else:
            return


def _patient(deadline: float, find: Callable[..., object], ended: Ended) -> Callable[..., object]:
    """Let an embedded Ray start until `deadline`: its own limit is half a minute, too short on a busy machine."""

    def get_node(*args: object) -> object:
        while True:
            try:
                return find(*args)
            except RuntimeError as error:  # the node is not up
                if process := ended():
                    name, status = process
                    failure = _AbortedError if status == -signal.SIGABRT else ConnectionError
                    raise failure(f"its {name} ended as it started") from error
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    return get_node


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
        "RAY_gcs_server_port_wait_time_s": str(START_S),
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

"""Join a Ray cluster, or start one inside this process when none is named."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.autoscaling import max_gpu_nodes
from cluster.errors import ClusterError
from cluster.watchdog import watch_embedded_ray, watch_head

log = logging.getLogger(__name__)

KNOCK_S = 5.0
_CANNOT_START = (ConnectionError, RuntimeError, ValueError, TimeoutError)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What there is to compute on."""

    address: str
    """'' for the embedded one."""
    cpus: float
    gpus: float
    max_gpu_nodes: tuple[int, ...] = ()
    """GPUs of each node that there may be at the most, where an autoscaler adds them and the head says so."""

    @property
    def has_gpus(self) -> bool:
        """Whether there are GPUs, or there will be when they are asked for."""
        return self.gpus > 0 or bool(self.max_gpu_nodes)


_OPEN: dict[str | None, ClusterInfo] = {}
"""The cluster of the block that this process is in, by the address that was asked for."""


@contextlib.contextmanager
def connect(address: str | None, *, verbose: bool = False) -> Iterator[ClusterInfo]:
    """A cluster for the length of a block: the one at `address`, or an embedded one that ends with the block.

    Inside a Ray job the job's own cluster is used. The embedded cluster listens under a token of its own and keeps its
    files in a folder that is removed at the end; nothing is left in the home directory. Inside a block of the same
    address the outer block's cluster is used.

    Raises:
        ClusterError: the cluster cannot be joined.
    """
    if address in _OPEN:
        yield refresh(_OPEN[address])
        return
    with contextlib.ExitStack() as stack:
        if not verbose:
            # Ray's native code writes to standard error about actors that Ray Data itself made that way.
            stack.enter_context(_environment({"RAY_BACKEND_LOG_LEVEL": "fatal"}))
        if address is None:
            stack.enter_context(_environment(_embedded_settings()))
            _forget_token()
            _remove_left_over(Path(_short_temp()))
            folder = tempfile.mkdtemp(prefix=f"vlmsweep-{os.getpid()}-", dir=_short_temp())
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        elif ":" in address:
            check_reachable(address)
        import ray

        options: dict[str, object] = {"logging_level": "info" if verbose else "error", "log_to_driver": verbose}
        if address is None:
            options |= {"address": "local", "include_dashboard": False, "_temp_dir": folder}
        else:
            options["address"] = address
        try:
            with _own_signals(), contextlib.nullcontext() if verbose else _silent_stderr():
                ray.init(**options)
        except Exception as error:
            # Ray raises the bare class where a machine is too busy to start it within half a minute.
            if type(error) is not Exception and not isinstance(error, _CANNOT_START):
                raise
            place = f"the cluster at {address}" if address else "a local Ray"
            mend = "check the address and that it runs" if address else "run again when this machine is less busy"
            raise ClusterError(f"{place} cannot be used: {error}; {mend}") from error
        stack.callback(ray.shutdown)
        head = ray.get_runtime_context().gcs_address
        stack.enter_context(watch_embedded_ray(folder) if address is None else watch_head(head, check_reachable))
        _OPEN[address] = _looked_at(address)
        stack.callback(_OPEN.pop, address)
        yield _OPEN[address]


def _looked_at(address: str | None) -> ClusterInfo:
    import ray

    total = ray.cluster_resources()
    info = ClusterInfo(address or "", total.get("CPU", 1.0), total.get("GPU", 0.0))
    if address is None:
        return info
    try:
        return replace(info, max_gpu_nodes=max_gpu_nodes())
    except ValueError as error:
        raise ClusterError(f"the cluster at {address}: {error}") from error


def refresh(info: ClusterInfo) -> ClusterInfo:
    """The joined cluster as it is now: one that grows has other nodes than when it was joined."""
    if not info.max_gpu_nodes:
        return info
    import ray

    total = ray.cluster_resources()
    return replace(info, cpus=total.get("CPU", 1.0), gpus=total.get("GPU", 0.0))


def _embedded_settings() -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def check_reachable(address: str) -> None:
    """See in seconds whether anybody listens at `host:port`: Ray itself would wait for minutes without a word."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=KNOCK_S):
            return
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"the cluster at {address} cannot be reached ({error}); check the address and that it runs"
        ) from error


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the program's way with SIGTERM: Ray puts its own in place, which ends the process on the spot."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Close standard error to native code while Ray starts: it announces its own settings there, past any logger."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables for Ray's own processes and put the old ones back."""
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


def _forget_token() -> None:
    """Let Ray read its token again: it does so once a process, and each embedded cluster has a token of its own."""
    try:
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # native
    except ImportError:  # a Ray that keeps them elsewhere: then a second cluster in one process is refused by itself
        return
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _remove_left_over(folder: Path) -> None:
    """Remove what runs that were killed could not: folders named by processes that are no more."""
    for path in folder.glob("vlmsweep-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists() and Path("/proc/self").exists():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _short_temp() -> str:
    """Ray's socket paths must stay below 107 characters, so a long TMPDIR is not used."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= 24 else "/tmp"  # noqa: S108

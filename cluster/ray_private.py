"""The few private names of Ray that have no public counterpart."""

import importlib
from collections.abc import Callable
from typing import Any


def shut_down() -> None:
    """End Ray and wait for its processes. A thread of Ray Data that drops a reference meanwhile must not reach it."""
    import ray

    worker = importlib.import_module("ray._private.worker").global_worker
    if core_worker := worker.__dict__.pop("core_worker", None):
        core_worker.shutdown_driver()  # else the dropped reference would end this process with exit code 1
    ray.shutdown(wait_for_processes=True)


def log_worker_errors(write: Callable[..., None]) -> None:
    """Pass messages about dead workers to a function: Ray prints them to standard output at any logging level."""
    setattr(importlib.import_module("ray._private.worker"), "print_to_stdstream", write)  # noqa: B010


def forget_token() -> None:
    """Make Ray read its settings and token again: it reads them once per process, and each cluster has its own."""
    importlib.import_module("ray._raylet").Config.initialize("")
    _token_loader().reset_cache()


def cluster_token() -> str | None:
    """Return the cluster's token from where Ray looks for it; None if Ray runs without."""
    from ray.exceptions import AuthenticationError

    try:
        return str(_token_loader().get_raw_token()) or None if _token_loader().has_token() else None
    except AuthenticationError:
        return None


def _token_loader() -> Any:
    return importlib.import_module("ray._raylet").AuthenticationTokenLoader.instance()

"""The few private names of Ray that have no public counterpart."""

import json
from collections.abc import Callable


def shut_down() -> None:
    """End Ray and wait for its processes. A thread of Ray Data that drops a reference meanwhile must not reach it."""
    import ray._private.worker

    if core_worker := ray._private.worker.global_worker.__dict__.pop("core_worker", None):  # noqa: SLF001
        core_worker.shutdown_driver()  # else the dropped reference would end this process with exit code 1
    ray.shutdown(wait_for_processes=True)


def take_over(write: Callable[..., None] | None) -> None:
    """Leave SIGTERM to this process; pass messages about dead workers to a function: Ray prints them at any level."""
    from ray._private import utils, worker

    setattr(utils, "set_sigterm_handler", lambda _: None)  # noqa: B010  it would drain a node that may be gone
    setattr(worker, "print_to_stdstream", write or worker.print_to_stdstream)  # noqa: B010  it is no name of ours


def forget_token(start_limit_s: int | None = None) -> None:
    """Make Ray read its token again and take a limit: it reads them once per process, and each start has its own."""
    from ray import _raylet

    names = ("raylet_start_wait_time_s", "gcs_server_request_timeout_seconds") if start_limit_s else ()
    _raylet.Config.initialize(json.dumps(dict.fromkeys(names, start_limit_s)))  # type: ignore[attr-defined]
    _raylet.AuthenticationTokenLoader.instance().reset_cache()  # type: ignore[attr-defined]


def cluster_token() -> str | None:
    """Return the cluster's token from where Ray looks for it; None if Ray runs without."""
    from ray import _raylet, exceptions

    loader = _raylet.AuthenticationTokenLoader.instance()  # type: ignore[attr-defined]
    try:
        return str(loader.get_raw_token()) or None if loader.has_token() else None
    except exceptions.AuthenticationError:
        return None

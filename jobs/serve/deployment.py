"""`vlmsweep serve`: a model on Ray Serve, which scales its replicas, to zero as well."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve.replica import MAX_BATCH_SIZE, ModelReplica
from models.spec import ModelSpec

START_S = 3600.0  # 145 GB of weights may have to be downloaded
HEALTH_S = 2.0  # between questions to a replica; Serve replaces it after the third that fails, by default half a minute
_ENGINE_CPUS = 0.5


@contextlib.contextmanager
def serving(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Iterator[Any]:
    """Yield the handle of a model that is served on a connected cluster for the length of a block.

    Replicas are released after `idle_s` without requests, down to `replicas.min`.

    Raises:
        ModelUnavailableError: the model is unavailable.
        ClusterError: the cluster serves something already.
    """
    from ray import serve

    for logger in ("ray.serve", "ray._private"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    _check_no_serve_runs()
    try:
        # Its own HTTP proxies answer without a key, and wait for slow clients without end.
        serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
        yield _start(name, spec, cluster, idle_s)
    finally:  # else Serve would keep its replicas on a cluster that outlives this process
        if cluster.address:  # an embedded one ends without waiting for requests whose connections are closed
            serve.shutdown()


def _check_no_serve_runs() -> None:
    """Check that Serve is not running: a cluster has one, and our shutdown would end others' models."""
    from ray import serve

    running = serve.status()
    if running.proxies or running.applications:
        applications = ", ".join(sorted(running.applications)) or "nothing yet"
        raise ClusterError(
            f"Ray Serve runs on this cluster already (it serves {applications}); end it first, with `serve shutdown` if"
            " it was left behind, or serve without --address"
        )


def _start(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Any:
    from ray import serve

    from pipelines.errors import ModelUnavailableError

    try:
        handle = serve.run(_application(name, spec, cluster, idle_s), name="vlmsweep", route_prefix=None)
        reason = handle.fatal.remote().result(timeout_s=START_S)
    except (RuntimeError, TimeoutError) as error:
        raise ModelUnavailableError(f"model {name!r} could not be started: {error}") from error
    if reason:
        raise ModelUnavailableError(f"model {name!r}: {reason}")
    return handle


def _application(name: str, spec: ModelSpec, cluster: ClusterInfo, idle_s: float) -> Any:
    from ray import serve

    local = spec.can_use_gpu and cluster.has_gpus
    resources = {"num_gpus": spec.replica_gpus} if local else {"num_cpus": min(_ENGINE_CPUS, cluster.cpus / 4)}
    scaling = {
        "min_replicas": spec.replicas.min,
        "initial_replicas": max(1, spec.replicas.min),
        "max_replicas": spec.replicas.max,
        "target_ongoing_requests": MAX_BATCH_SIZE,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": idle_s,
        "downscale_to_zero_delay_s": idle_s,
    }
    model = serve.deployment(
        name="model",
        ray_actor_options=resources,
        autoscaling_config=scaling,
        max_ongoing_requests=2 * MAX_BATCH_SIZE,
        health_check_period_s=HEALTH_S,
    )(ModelReplica)
    return model.bind(name, spec, is_embedded=not cluster.address)

"""`vlmsweep serve`: a model as an OpenAI-compatible endpoint on Ray Serve, batching requests and scaling to zero."""

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve.chat_api import ChatRequest
from jobs.serve.http_api import OpenAIApi
from jobs.serve.replica import ModelReplica
from models.messages import Answer, Failure
from models.spec import ModelSpec

MAX_BATCH_SIZE = 32  # requests answered as one batch
BATCH_WAIT_S = 0.02  # longest wait of a batch for more requests
START_S = 3600.0  # 145 GB of weights may have to be downloaded
LISTEN_S = 300.0  # a proxy needs three seconds on an idle machine
HEALTH_S = 2.0  # between questions to a replica; Serve replaces it after the third that fails, by default half a minute
_ENGINE_CPUS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Address and authentication of the endpoint."""

    host: str
    port: int
    key: str | None  # hash of the required key (`key_hash`); None: no key is required
    idle_s: float  # seconds without requests after which replicas are released, down to `replicas.min`


@contextlib.contextmanager
def serving(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> Iterator[None]:
    """Serve on a connected cluster for the length of a block; requests name the model `name`.

    Raises:
        ModelUnavailableError: the model is unavailable.
        ClusterError: the cluster serves something already, or no proxy listens in time.
    """
    from ray import serve

    for logger in ("ray.serve", "ray._private"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    _check_no_serve_runs()
    try:
        _start_proxies(config)
        _start(name, spec, cluster, config)
        yield
    finally:  # else Serve would keep its replicas on a cluster that outlives this process
        if cluster.address:  # an embedded one ends without waiting for requests whose connections are closed
            serve.shutdown()


def _check_no_serve_runs() -> None:
    """Check that Serve is not running: a cluster has one, with one port, and our shutdown would end others' models."""
    from ray import serve

    running = serve.status()
    if running.proxies or running.applications:
        applications = ", ".join(sorted(running.applications)) or "nothing yet"
        raise ClusterError(
            f"Ray Serve runs on this cluster already (it serves {applications}); end it first, with `serve shutdown` if"
            " it was left behind, or serve without --address"
        )


def _start(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> None:
    from ray import serve

    from pipelines.errors import ModelUnavailableError

    try:
        handle = serve.run(_application(name, spec, cluster, config), name="vlmsweep", route_prefix="/")
        reason = handle.fatal.remote().result(timeout_s=START_S)
    except (RuntimeError, TimeoutError) as error:
        raise ModelUnavailableError(f"model {name!r} could not be started: {error}") from error
    if reason:
        raise ModelUnavailableError(f"model {name!r}: {reason}")


def _start_proxies(config: ServeConfig) -> None:
    """Start Serve and wait until its proxies listen; ClusterError if none does in time.

    Serve kills a proxy that is not up within 15 s and starts another with a longer timeout; its own call waits for the
    first one only, and fails.
    """
    from ray import serve
    from ray.exceptions import RayActorError, RayTaskError

    last: Exception | None = None
    try:
        serve.start(
            http_options={"host": config.host, "port": config.port},
            logging_config={"log_level": "ERROR", "enable_access_log": False},
        )
    except (RayActorError, RayTaskError, TimeoutError) as error:
        last = error
    deadline = time.monotonic() + LISTEN_S
    while not _listening():
        if time.monotonic() > deadline or isinstance(last, RayTaskError):
            detail = f" ({getattr(last, 'cause', last)})" if last else ""
            raise ClusterError(f"no proxy listens at {config.host} port {config.port}{detail}; try another") from last
        time.sleep(0.2)


def _listening() -> bool:
    from ray import serve

    proxies = serve.status().proxies
    return bool(proxies) and all(status == "HEALTHY" for status in proxies.values())


def _application(name: str, spec: ModelSpec, cluster: ClusterInfo, config: ServeConfig) -> Any:
    from ray import serve

    local = spec.can_use_gpu and cluster.has_gpus
    resources = {"num_gpus": spec.replica_gpus} if local else {"num_cpus": min(_ENGINE_CPUS, cluster.cpus / 4)}
    scaling = {
        "min_replicas": spec.replicas.min,
        "initial_replicas": max(1, spec.replicas.min),
        "max_replicas": spec.replicas.max,
        "target_ongoing_requests": MAX_BATCH_SIZE,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": config.idle_s,
        "downscale_to_zero_delay_s": config.idle_s,
    }

    class Batched(ModelReplica):
        @serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=BATCH_WAIT_S)  # type: ignore[untyped-decorator]
        async def answer(self, requests: list[ChatRequest]) -> list[Answer | Failure]:
            return await ModelReplica.answer(self, requests)

    model = serve.deployment(
        name="model",
        ray_actor_options=resources,
        autoscaling_config=scaling,
        max_ongoing_requests=2 * MAX_BATCH_SIZE,
        health_check_period_s=HEALTH_S,
    )(Batched)
    api = serve.deployment(name="api", ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000)(OpenAIApi)
    return api.bind(model.bind(name, spec), name, spec, config.key)

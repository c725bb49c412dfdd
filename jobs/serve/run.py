"""Run the endpoint of `vlmsweep serve` until it is interrupted."""

import contextlib
import ipaddress
import logging
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

from cluster.connection import ClusterInfo, connect
from cluster.errors import ClusterError
from jobs.serve.chat_api import Bounds
from jobs.serve.http_api import OpenAIApi
from jobs.serve.options import ServeOptions
from jobs.serve.replica import MAX_BATCH_SIZE, ModelReplica
from jobs.shared.auth import key_hash
from jobs.shared.output import print_result, results_only_on_stdout
from jobs.shared.web import listen, run_app
from models.environment import ray_address, secret
from models.spec import ModelSpec
from pipelines.errors import UsageError

START_S = 3600.0  # 145 GB of weights may have to be downloaded
HEALTH_S = 2.0  # between questions to a replica; Serve replaces it after the third that fails, by default half a minute
_ENGINE_CPUS = 0.5
log = logging.getLogger("vlmsweep")


def serve_until_stopped(name: str, spec: ModelSpec, options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0, the normal end."""
    if options.no_key and options.key_env:
        raise UsageError("--no-key and --key-env are mutually exclusive; give one")
    if not is_loopback(options.host):
        log.warning("listening at %s: every host that reaches this machine reaches the model", options.host)
        if options.no_key:
            log.warning("--no-key: authentication is disabled")
    key = None if options.no_key else _key(options.key_env)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        listener = stack.enter_context(_listening(options.host, options.port))
        cluster = stack.enter_context(connect(options.address or ray_address(), verbose=options.verbose))
        with results_only_on_stdout():
            model = stack.enter_context(serving(name, spec, cluster, options.idle_s))
        api = OpenAIApi(model, name, spec, key=key_hash(key) if key else None, bounds=_bounds(options))
        stack.callback(api.close)
        _announce(options, listener.getsockname()[1], name, key if key and not options.key_env else None)
        run_app(api, listener)
    return 0


def _bounds(options: ServeOptions) -> Bounds:
    return Bounds(
        pictures=options.max_pictures,
        pixels=options.max_total_pixels,
        messages=options.max_messages,
        body_bytes=options.max_body_mib << 20,
        timeout_s=options.timeout_s,
    )


def _key(variable: str | None) -> str:
    return secret(variable).get_secret_value() if variable else secrets.token_urlsafe(32)


def _announce(options: ServeOptions, port: int, name: str, key: str | None) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    base_url = f"http://{host}:{port}/v1"
    lines = [f"serving {name} at {base_url}; Ctrl-C stops it", *([f"key, shown this once: {key}"] if key else [])]
    print_result(options.json, {"base_url": base_url, "model": name, "key": key}, *lines)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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

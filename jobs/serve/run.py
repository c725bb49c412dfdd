"""Run the endpoint of `vlmsweep serve` until it is interrupted."""

import ipaddress
import logging
import secrets
import socket
from contextlib import ExitStack, suppress

from cluster.connection import connect
from jobs.serve.chat_api import Bounds
from jobs.serve.deployment import serving
from jobs.serve.http_api import OpenAIApi
from jobs.serve.options import ServeOptions
from jobs.shared.auth import key_hash
from jobs.shared.output import print_result, results_only_on_stdout
from jobs.shared.web import listen, run_app
from models.environment import ray_address, secret
from models.spec import ModelSpec
from pipelines.errors import UsageError

log = logging.getLogger("vlmsweep")


def serve_until_stopped(name: str, spec: ModelSpec, options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0, the normal end."""
    if options.no_key and options.key_env:
        raise UsageError("--no-key and --key-env: give one of them")
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

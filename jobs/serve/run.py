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
from jobs.shared.auth import key_hash
from jobs.shared.flags import ServeFlags
from jobs.shared.output import print_result, results_only_on_stdout
from jobs.shared.web import listen, run_app
from models.environment import ray_address, secret
from models.spec import ModelSpec
from pipelines.errors import UsageError

log = logging.getLogger("vlmsweep")


def serve_until_stopped(name: str, spec: ModelSpec, flags: ServeFlags) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0, the normal end."""
    if flags.no_key and flags.key_env:
        raise UsageError("--no-key and --key-env: give one of them")
    if not is_loopback(flags.host):
        log.warning("listening at %s: every host that reaches this machine reaches the model", flags.host)
        if flags.no_key:
            log.warning("--no-key: authentication is disabled")
    key = None if flags.no_key else _key(flags.key_env)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        listener = stack.enter_context(_listening(flags.host, flags.port))
        cluster = stack.enter_context(connect(flags.address or ray_address(), verbose=flags.verbose))
        with results_only_on_stdout():
            model = stack.enter_context(serving(name, spec, cluster, flags.idle_s))
        api = OpenAIApi(model, name, spec, key=key_hash(key) if key else None, bounds=_bounds(flags))
        stack.callback(api.close)
        _announce(flags, listener.getsockname()[1], name, key if key and not flags.key_env else None)
        run_app(api, listener)
    return 0


def _bounds(flags: ServeFlags) -> Bounds:
    return Bounds(
        pictures=flags.max_pictures,
        pixels=flags.max_total_pixels,
        messages=flags.max_messages,
        body_bytes=flags.max_body_mib << 20,
        timeout_s=flags.timeout_s,
    )


def _key(variable: str | None) -> str:
    return secret(variable).get_secret_value() if variable else secrets.token_urlsafe(32)


def _announce(flags: ServeFlags, port: int, name: str, key: str | None) -> None:
    host = f"[{flags.host}]" if ":" in flags.host else flags.host
    base_url = f"http://{host}:{port}/v1"
    lines = [f"serving {name} at {base_url}; Ctrl-C stops it", *([f"key, shown this once: {key}"] if key else [])]
    print_result(flags.json, {"base_url": base_url, "model": name, "key": key}, *lines)


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

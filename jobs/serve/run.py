"""Run the endpoint of `vlmsweep serve` until it is interrupted."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import threading
from contextlib import ExitStack

from cluster.connection import connect
from jobs.flags import ServeFlags
from jobs.output import print_result, results_only_on_stdout
from jobs.serve.auth import key_hash
from jobs.serve.deployment import ServeConfig, serving
from models.environment import ray_address, secret
from models.spec import ModelSpec
from pipelines.errors import UsageError

log = logging.getLogger("vlmsweep")


def serve_until_stopped(name: str, spec: ModelSpec, flags: ServeFlags) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0, the normal end."""
    if flags.no_key and flags.key_env:
        raise UsageError("--no-key and --key-env: give one of them")
    port = free_port(flags.host, flags.port)
    if not is_loopback(flags.host):
        log.warning("listening at %s: every host that reaches this machine reaches the model", flags.host)
        if flags.no_key:
            log.warning("--no-key: authentication is disabled")
    key = None if flags.no_key else _key(flags.key_env)
    config = ServeConfig(host=flags.host, port=port, key=key_hash(key) if key else None, idle_s=flags.idle_s)
    try:
        with connect(flags.address or ray_address(), verbose=flags.verbose) as cluster, ExitStack() as stack:
            with results_only_on_stdout():
                stack.enter_context(serving(name, spec, cluster, config))
            _announce(flags, port, name, key if key and not flags.key_env else None)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    return 0


def _key(variable: str | None) -> str:
    return secret(variable).get_secret_value() if variable else secrets.token_urlsafe(32)


def _announce(flags: ServeFlags, port: int, name: str, key: str | None) -> None:
    host = f"[{flags.host}]" if ":" in flags.host else flags.host
    base_url = f"http://{host}:{port}/v1"
    lines = [f"serving {name} at {base_url}; Ctrl-C stops it", *([f"key, shown this once: {key}"] if key else [])]
    print_result(flags.json, {"base_url": base_url, "model": name, "key": key}, *lines)


def free_port(host: str, port: int) -> int:
    """Return the port if it is free, or any free one for 0; UsageError if the address or port cannot be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Run the endpoint of `vlmsweep serve` until it is interrupted."""

import ipaddress
import logging
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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
    if not is_loopback(flags.host):
        log.warning("listening at %s: every host that reaches this machine reaches the model", flags.host)
        if flags.no_key:
            log.warning("--no-key: authentication is disabled")
    key = None if flags.no_key else _key(flags.key_env)
    try:
        with ExitStack() as stack:
            port = stack.enter_context(reserved_port(flags.host, flags.port))
            config = ServeConfig(host=flags.host, port=port, key=key_hash(key) if key else None, idle_s=flags.idle_s)
            cluster = stack.enter_context(connect(flags.address or ray_address(), verbose=flags.verbose))
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


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Yield the port, or any free one for 0, which the system gives to no other process for the length of a block.

    Serve's proxy binds it seconds later, with SO_REUSEPORT; until then Ray's other processes might be given it.

    Raises:
        UsageError: the address or port cannot be used.
    """
    with ExitStack() as stack:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            reserved = stack.enter_context(socket.socket(family))
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind((host, port))  # without SO_REUSEPORT: fails where another proxy listens
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            raise UsageError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from error
        yield int(reserved.getsockname()[1])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

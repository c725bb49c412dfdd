# ruff: noqa: TID251 - the one module of the product that reads the environment, for endpoints, secrets and given GPUs
"""Read endpoints, secrets and given GPUs from the environment. No other module reads it; no behaviour depends on it."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pydantic import SecretStr

from models.errors import MissingSecretError

ENCRYPTED_ENV = "VLMSWEEP_SEALED"  # variable of a job that holds its other variables, encrypted

_PASSED_NAMES = frozenset({"PATH", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR", "TZ", "OMP_NUM_THREADS"})
_PASSED_PREFIXES = ("LC_", "PYTHON")
_CONNECTION_VARIABLES = re.compile(
    r"(?i:(http|https|all|no)_proxy)|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL|AWS)_CA_BUNDLE|HF_HUB_(ETAG|DOWNLOAD)_TIMEOUT"
    r"|AWS_WEB_IDENTITY_TOKEN_FILE"
)
_STARTED_WITH = Path("/proc/self/environ")  # the variables of this process as it started, on Linux
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

Secret: TypeAlias = SecretStr  # a value that prints as stars; `get_secret_value()` returns it


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """Connection settings of an object store; None leaves a field to the client library."""

    endpoint_url: str | None  # such as `http://127.0.0.1:8333`; None is AWS itself
    key: str | None
    secret: Secret | None
    token: Secret | None
    region: str | None


_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,39}|[a-z_]{1,24}")
"""Names of variables as they are given; another may be a key."""


def secret(name: str, *, model: str = "") -> Secret:
    """Return the stripped key in a variable; `MissingSecretError` if unset, empty or not valid in an HTTP header."""
    purpose = f"model {model!r} needs a key: " if model else ""
    value = _read(name)
    # Some write the key itself where its variable belongs.
    name = name if _VARIABLE.fullmatch(name) else f"{name[:4]}..."
    if value is None:
        raise MissingSecretError(
            f"{purpose}variable {name} is not set; `export {name}=...` before the run, and on a cluster also where "
            f"Ray is started, or send it with `vlmsweep submit --env {name}`"
        )
    if not (value.isascii() and value.isprintable()) or " " in value:
        # The value stays out of the message: a key with a stray character is still a key.
        raise MissingSecretError(
            f"{purpose}variable {name} contains whitespace, control or non-ASCII characters; set it to a valid key"
        )
    return Secret(value)


def s3_settings() -> S3Settings:
    """Return the object store's settings, from AWS's variables; half a key pair is a `MissingSecretError`."""
    key = _read("AWS_ACCESS_KEY_ID")
    value = _read("AWS_SECRET_ACCESS_KEY")
    token = _read("AWS_SESSION_TOKEN")
    if (key is None) != (value is None):
        missing = "AWS_ACCESS_KEY_ID" if key is None else "AWS_SECRET_ACCESS_KEY"
        raise MissingSecretError(f"half a key pair for the object store: {missing} is not set; set or unset both")
    return S3Settings(
        endpoint_url=object_store_address()[1],
        key=key,
        secret=Secret(value) if value else None,
        token=Secret(token) if token else None,
        region=_read("AWS_REGION") or _read("AWS_DEFAULT_REGION"),
    )


def object_store_address() -> tuple[str, str | None]:
    """Return the variable that names the object store, and its address; None is AWS itself."""
    name = "AWS_ENDPOINT_URL_S3" if _read("AWS_ENDPOINT_URL_S3") else "AWS_ENDPOINT_URL"
    return name, _read(name)


def connection_variables() -> dict[str, str]:
    """Return the variables by which clients find proxies, certificates and the hub, unchanged."""
    return {name: value for name, value in os.environ.items() if _CONNECTION_VARIABLES.fullmatch(name)}


def hub_is_offline() -> bool:
    """Return whether the hub's client sends nothing, as it reads its switches."""
    return any((_read(name) or "").upper() in {"1", "ON", "YES", "TRUE"} for name in _OFFLINE)


def hub_address() -> str:
    """Return the hub's address, as its client reads it."""
    return (_read("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def ray_address() -> str | None:
    """Return the address of the running Ray cluster to join, or None."""
    return _read("RAY_ADDRESS")


def read_variables(names: Iterable[str]) -> dict[str, str]:
    """Return the values of named variables; `MissingSecretError` if one is unset, or a value was given as a name."""
    values = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise MissingSecretError(
                f"--env {name.partition('=')[0]}: give the name of a variable only; its value is read from this shell"
            )
        value = _read(name)
        if value is None:
            raise MissingSecretError(f"--env {name}: the variable is not set here; `export {name}=...` first")
        values[name] = value
    return values


def encrypted_env() -> str | None:
    """Return the encrypted variables sent with a job; None if there are none."""
    return _read(ENCRYPTED_ENV)


def set_variables(values: Mapping[str, str]) -> None:
    """Set variables of this process and its children: botocore and others read keys only there."""
    os.environ.update(values)


def let_waiting_threads_sleep() -> None:
    """Let OpenMP's waiting threads sleep, unless the user chose: on busy cores spinning costs ten times the work."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def user_threads() -> int | None:
    """Return the user's OMP_NUM_THREADS, or None: Ray sets this variable in its workers, but after they started."""
    try:
        variables = _STARTED_WITH.read_bytes().split(b"\0")
    except OSError:  # not on Linux
        return None
    given = dict(variable.partition(b"=")[::2] for variable in variables).get(b"OMP_NUM_THREADS", b"")
    return int(given) if given.isdigit() and int(given) else None


def decoder_environment() -> dict[str, str]:
    """Return the environment for a process that decodes untrusted files: enough to start Python, no secrets."""
    return {
        name: value for name, value in os.environ.items() if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)
    }


def _read(name: str) -> str | None:
    """Return a variable's value; an empty one counts as unset, as compose files and pods blank variables so."""
    return os.environ.get(name, "").strip() or None

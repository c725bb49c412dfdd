# ruff: noqa: TID251 - the one module of the product that reads the environment, for endpoints and secrets only
"""Endpoints and secrets from the environment. Nothing else in the product reads it, and no behaviour hangs on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import SecretStr

from models.errors import MissingSecretError

SEALED = "VLMSWEEP_SEALED"
"""Variable of a job that holds its other variables, sealed."""

_KEPT = frozenset({"PATH", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR", "TZ", "OMP_NUM_THREADS"})
_KEPT_BEGINNINGS = ("LC_", "PYTHON")

Secret: TypeAlias = SecretStr
"""A value that shows itself as stars; `get_secret_value()` tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How an object store is reached; None leaves a field to the client library's own search."""

    endpoint_url: str | None
    """Such as `http://127.0.0.1:8333`; None is AWS itself."""
    key: str | None
    secret: Secret | None
    token: Secret | None
    region: str | None


def secret(name: str, *, model: str = "") -> Secret:
    """The key held by a variable, blanks around it dropped.

    Args:
        name: the variable, such as `OPENAI_API_KEY`.
        model: for whom the key is, for the message only.

    Raises:
        MissingSecretError: the variable is unset or empty, or its value cannot stand in an HTTP header.
    """
    wanted = f"model {model!r} needs a key: " if model else ""
    value = _read(name)
    if value is None:
        raise MissingSecretError(
            f"{wanted}variable {name} is not set; `export {name}=...` before the run, and on a cluster also where "
            f"Ray is started, or let `vlmsweep submit --env {name}` send it"
        )
    if not (value.isascii() and value.isprintable()) or " " in value:
        # The value stays out of the message: a key with a stray character is still a key.
        raise MissingSecretError(
            f"{wanted}variable {name} holds blanks, control or non-ASCII characters, which no key has; set it again"
        )
    return Secret(value)


def s3_settings() -> S3Settings:
    """Endpoint, credentials and region of the object store, by the names that AWS tools use.

    Raises:
        MissingSecretError: only one half of a key pair is set.
    """
    key = _read("AWS_ACCESS_KEY_ID")
    value = _read("AWS_SECRET_ACCESS_KEY")
    token = _read("AWS_SESSION_TOKEN")
    if (key is None) != (value is None):
        missing = "AWS_ACCESS_KEY_ID" if key is None else "AWS_SECRET_ACCESS_KEY"
        raise MissingSecretError(f"half a key pair for the object store: {missing} is not set; set or unset both")
    return S3Settings(
        endpoint_url=_read("AWS_ENDPOINT_URL_S3") or _read("AWS_ENDPOINT_URL"),
        key=key,
        secret=Secret(value) if value else None,
        token=Secret(token) if token else None,
        region=_read("AWS_REGION") or _read("AWS_DEFAULT_REGION"),
    )


def ray_address() -> str | None:
    """The running Ray cluster to join, or None."""
    return _read("RAY_ADDRESS")


def read_variables(names: Iterable[str]) -> dict[str, str]:
    """The values of variables that the user named one by one, for a job on another machine.

    Raises:
        MissingSecretError: one is not set, or a value was given where a name belongs.
    """
    values = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise MissingSecretError(
                f"--env {name.partition('=')[0]}: give the name of a variable alone; its value is taken from this shell"
            )
        value = _read(name)
        if value is None:
            raise MissingSecretError(f"--env {name}: the variable is not set here; `export {name}=...` first")
        values[name] = value
    return values


def sealed() -> str | None:
    """The variables that a job was sent, sealed; None where there are none."""
    return _read(SEALED)


def set_variables(values: Mapping[str, str]) -> None:
    """Set variables of this process and of those that it starts: botocore and others read keys there alone."""
    os.environ.update(values)


def decoder_environment() -> dict[str, str]:
    """The environment of a process that decodes files of strangers: what Python needs to start there, and no secret."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}


def _read(name: str) -> str | None:
    """An empty variable is an unset one: that is how compose files and pods blank them."""
    return os.environ.get(name, "").strip() or None

"""`--config`: a YAML file of flags, which the command line overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from models.errors import suggest
from pipelines.errors import UsageError


def _load_config(ctx: typer.Context, value: Path | None) -> Path | None:
    """Read the file as defaults of the command line; UsageError for an unreadable file or an unknown flag."""
    if value is None:
        return None
    from models.errors import YamlFileError
    from models.strict_yaml import read_yaml

    try:
        raw, _ = read_yaml(value, "file", verbatim=True)
    except YamlFileError as error:
        raise UsageError(f"--config {error}") from error
    if raw is not None and not isinstance(raw, dict):
        raise UsageError(f"--config {value}: expected a mapping of flags, such as `models: random`")
    own_params = [parameter for parameter in ctx.command.params if parameter.name not in (None, "config")]
    flags = {_flag_of(parameter): parameter for parameter in own_params}
    known_names = {str(parameter.name).replace("_", "-"): parameter for parameter in own_params} | flags
    settings: dict[str, Any] = {}
    for key, setting in (raw or {}).items():
        flag = str(key).replace("_", "-")
        if flag not in known_names:
            raise UsageError(f"--config {value}: unknown key {str(key)!r}{suggest(flag, flags)}")
        name = str(known_names[flag].name)
        if name in settings:
            raise UsageError(f"--config {value}: {_flag_of(known_names[flag])!r} is given twice, once as {str(key)!r}")
        try:
            settings[name] = _as_flag(setting, multiple=known_names[flag].multiple)
        except ValueError as error:
            raise UsageError(f"--config {value}: {key}: {error}") from error
    ctx.default_map = {**(ctx.default_map or {}), **settings}
    return value


def _flag_of(parameter: Any) -> str:
    """Return the flag without dashes; parameters may have other names than their flags."""
    long = [option for option in parameter.opts if option.startswith("--")]
    return long[0][2:] if long else str(parameter.name).replace("_", "-")


def _as_flag(value: Any, *, multiple: bool) -> Any:
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, (dict, list)) for item in values):
        raise ValueError("expected a value or a list of values")
    if value is None or (isinstance(value, bool) and not multiple):
        return value
    return [str(item) for item in values] if multiple else ",".join(str(item) for item in values)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file of these flags; the command line overrides it.",
        callback=_load_config,
        is_eager=True,
    ),
]

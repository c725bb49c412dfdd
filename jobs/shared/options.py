"""Command lines: flags as dataclasses or in a YAML file, lists, and arguments in their normal form."""

import csv
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from jobs.shared.output import prepare
from models.errors import suggest
from pipelines.errors import UsageError

Flags = TypeVar("Flags")

LOCATIONS = (
    *("baseline", "column_map", "columns", "data", "eee", "evil", "folder", "fresh", "history", "like", "models_file"),
    *("out", "out_a", "out_b", "output", "policy", "predictions", "prompts", "source", "summary", "suspects", "to"),
    "uri",
)
"""Parameters that are files, folders or addresses; in a file of flags their relative paths begin beside it."""
PAIRS = ("human", "scorers")  # parameters `NAME=LOCATION`
_MODELS = ("captioner", "eyes", "judge", "model", "models", "text_models", "trust_remote_code")  # some may be folders
_ON_THE_CLUSTER = ("data", "out", "scorers", *_MODELS)
"""Parameters of `submit` that stay relative, and are refused: the job runs on another machine."""
_NO_PATH = re.compile(r"published(:.*)?|~.*|", re.DOTALL)
GLOBAL_FLAG = "--log-format"  # a flag of the program and not of a command, accepted after the command as well


def takes(flags_class: type[Flags], without: Collection[str] = ()) -> Callable[..., Callable[..., int]]:
    """Decorate a command: its flags are the fields of a dataclass, except `without`."""
    hints = get_type_hints(flags_class)
    parameters = [
        _parameter(
            field.name, hints[field.name], inspect.Parameter.empty if field.default is MISSING else field.default
        )
        for field in dataclasses.fields(flags_class)  # type: ignore[arg-type]
        if field.name not in without
    ]

    def decorate(command: Callable[[Flags], int]) -> Callable[..., int]:
        def parse(**values: Any) -> int:
            return command(flags_class(**values))

        return _with_signature(parse, command, parameters)

    return decorate


def with_common_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes `--config` and `--verbose` too, and that sets the log level before it runs."""
    signature = inspect.signature(command, eval_str=True).parameters
    parameters = {name: _parameter(name, given.annotation, given.default) for name, given in signature.items()}
    parameters["config"] = _parameter("config", ConfigFile, None)  # read by its callback before the other flags
    parameters.setdefault("verbose", _parameter("verbose", bool, default=False))
    name = command.__name__.strip("_").replace("_", "-")
    is_ours = command.__module__.startswith("jobs.")  # options of other packages' commands are as Typer reads them

    def run(*, config: Any, **values: Any) -> Any:
        prepare(verbose=values["verbose"])
        if is_ours:
            _check_local(name, values)
        return command(**{name: value for name, value in values.items() if name in signature})

    described = (
        _with_help(name, parameter) if is_ours or parameter.name == "verbose" else parameter
        for parameter in parameters.values()
    )
    return _with_signature(run, command, [*described])


def _check_local(command: str, values: Mapping[str, Any]) -> None:
    """Raise a UsageError for an address in an object store where a local path is read or written."""
    for name, value in values.items():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                _refuse_address(row_of(name, command)["flag"], path)


def _refuse_address(flag: str, path: Path) -> None:
    if path.parts[:1] == ("s3:",):
        address = str(path).replace("/", "//", 1)  # which a path has lost
        raise UsageError(f"{flag} {address}: only local paths are supported")


@functools.cache
def _rows() -> dict[tuple[str, str], dict[str, str]]:
    rows = csv.DictReader((files("jobs.shared") / "flags.csv").read_text(encoding="utf-8").splitlines())
    return {(row["parameter"], command): row for row in rows for command in row["commands"].split() or [""]}


def row_of(parameter: str, command: str) -> dict[str, str]:
    """Return the row of `flags.csv` about a parameter of a command: the one that names it, else that of all others."""
    return _rows().get((parameter, command)) or _rows()[parameter, ""]


def group_of(parameter: str) -> str:
    """Return the group of a parameter in the help of commands; '' for none."""
    return next((row["group"] for (name, _), row in _rows().items() if name == parameter), "")


def _with_help(command: str, parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with its flag, its limits and its help; an argument has no flag."""
    if get_origin(parameter.annotation) is Annotated:
        return parameter
    row = row_of(parameter.name, command)
    low, high = (float(row[end]) if "." in row[end] else int(row[end]) if row[end] else None for end in ("min", "max"))
    form: Callable[..., Any] = typer.Option if row["flag"] else typer.Argument
    option = form(*row["flag"].split(), min=low, max=high, metavar=row["metavar"] or None, help=row["help"])
    return parameter.replace(annotation=Annotated[parameter.annotation, option])


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_signature(
    function: Callable[..., Any], command: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Return a function with the name and docstring of a command, and with these parameters."""
    function = functools.update_wrapper(function, command)
    del function.__wrapped__
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def normalize_arguments(arguments: list[str]) -> list[str]:
    """Return arguments with `_` in flags written as `-`, and the global flag first."""
    normal: list[str] = []
    front: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*front, *normal, argument, *rest]
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-") if flag.startswith("--") else flag
        if flag == GLOBAL_FLAG:
            front += [flag + equals + value, *([rest.pop(0)] if not equals and rest else [])]
        else:
            normal.append(flag + equals + value)
    return [*front, *normal]


def names(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    """Split a comma-separated list, or those of a repeated flag; drop blanks and repeats."""
    text = texts if isinstance(texts, str) else ",".join(texts or ())
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def refuse(flags: Mapping[str, object], reason: str) -> None:
    """Raise a UsageError for those of these flags that were given, which would do nothing."""
    if given := [f"--{flag}" for flag, value in flags.items() if value]:
        raise UsageError(f"{', '.join(given)}: {reason}")


def _load_config(ctx: typer.Context, value: Path | None) -> Path | None:
    """Read the file as defaults of the command line; UsageError for an unreadable file or an unknown flag."""
    if value is None:
        return None
    _refuse_address("--config", value)
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
        parameter = known_names[flag]
        try:
            given = _as_flag(setting, multiple=parameter.multiple or parameter.nargs == -1)
            is_here = ctx.command.name != "submit" or name not in _ON_THE_CLUSTER
            settings[name] = _beside(value.absolute().parent, name, given) if is_here else given
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


def _beside(folder: Path, parameter: str, value: Any) -> Any:
    """Return a value of a file of flags, its relative paths made absolute: they begin in the file's folder."""
    if isinstance(value, list):
        return [_beside(folder, parameter, item) for item in value]
    if not isinstance(value, str):
        return value
    if parameter in LOCATIONS:
        return _absolute(folder, value)
    if parameter in PAIRS:
        name, _, location = value.partition("=")
        is_there = parameter != "scorers" or (folder / location.partition(":")[0]).exists()  # else it is a hub id
        return f"{name}={_absolute(folder, location)}" if location and is_there else value
    if parameter not in _MODELS:
        return value
    words = (word.strip() for word in value.split(","))
    return ",".join(_absolute(folder, word) if word.startswith(".") else word for word in words)


def _absolute(folder: Path, location: str) -> str:
    from pipelines.storage.backend import is_remote, location_problem

    is_address = "://" in location or is_remote(location) or bool(location_problem(location))
    return location if is_address or _NO_PATH.fullmatch(location) else str(folder / location)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file of these flags, whose paths begin beside it; the command line overrides it.",
        callback=_load_config,
        is_eager=True,
    ),
]

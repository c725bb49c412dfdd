"""Command lines: options from annotated fields or a YAML file, lists, and arguments in their normal form."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

import typer

from jobs.shared.output import prepare
from models.errors import suggest
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag, flag, flag_of
from pipelines.plan.options import SweepOptions

_NO_PATH = re.compile(r"published(:.*)?|~.*|", re.DOTALL)
GLOBAL_FLAG = "--log-format"  # a flag of the program and not of a command, accepted after the command as well

Address = Annotated[str | None, Flag("A Ray cluster; default: RAY_ADDRESS, else a local embedded one.", "Cluster")]
DataOfRun = Annotated[
    str, Flag("Location of the ingested data, if it has moved since the run.", "Data", kind="location")
]
Json = Annotated[bool, Flag("Print one JSON object on standard output.", "Output")]
ModelsFiles = Annotated[list[Path] | None, Flag("YAML of models, added to the catalog; may be repeated.", "Models")]
Out = Annotated[str, Argument("The --out of a run.", kind="location")]
Outs = Annotated[
    list[str], Argument("The --out of one run or of several: folders or s3://bucket/key.", kind="location")
]
Verbose = Annotated[bool, Flag("Enable verbose logging.", "Output", "--verbose -v")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(SweepOptions):
    """Options of `run`, its stages, and other commands that run a sweep in this process."""

    dry_run: bool = flag("Print the plan and run nothing.", "Output", default=False)
    verbose: Verbose = False
    json: Json = False


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command: what Typer reads, and how the command gets its value."""

    name: str
    type: Any
    default: Any
    flag: Flag | None  # None: a parameter of another package's command, as Typer itself reads it
    convert: Callable[[Any], Any] = lambda value: value
    is_hidden: bool = False

    @classmethod
    def read(cls, name: str, hint: Any, default: Any, flag: Flag | None = None) -> Self:
        """Return a parameter from its annotation, or a field with its flag."""
        if get_origin(hint) is Annotated and (declared := flag_of(hint)):
            hint, flag = get_args(hint)[0], declared
        return cls(name, hint, default, replace(flag, kind="location") if flag and "Path" in str(hint) else flag)

    def signature(self) -> inspect.Parameter:
        """Return the parameter with its names, limits and help."""
        flag, annotation = self.flag, self.type
        if flag:
            info: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar, "min": flag.low, "max": flag.high}
            info |= {"parser": flag.parse, "hidden": self.is_hidden, "rich_help_panel": flag.group or None}
            is_argument = isinstance(flag, Argument)
            option = typer.Argument(**info) if is_argument else typer.Option(*flag.names(self.name), **info)
            annotation = Annotated[self.type, option]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=annotation)


def as_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return what Typer runs: a command whose parameters, or fields of its only one, are options with help.

    `--config` and `--verbose` are added, and the log level is set before the command runs.
    """
    declared = inspect.signature(command, eval_str=True).parameters.values()
    options: Any = next((each.annotation for each in declared if is_dataclass(each.annotation)), None)
    own = [_Parameter.read(each.name, each.annotation, each.default) for each in declared if not options]
    own += _fields(options) if options else ()
    flags = {each.name: each.flag for each in own} | {"verbose": flag_of(Verbose)}
    as_text = getattr(options, "kept_relative", ())
    kinds = {name: flag.kind if flag and name not in as_text else "text" for name, flag in flags.items()}

    def run(*, config: Any, **values: Any) -> Any:
        prepare(verbose=values["verbose"])
        for name, value in values.items():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path) and (flag := flags[name]):
                    _refuse_address(flag.names(name)[0], path)
        given = {each.name: each.convert(values[each.name]) for each in own}
        return command(options(**given)) if options else command(**given)

    def load(ctx: typer.Context, value: Path | None) -> Path | None:
        if value is not None:
            ctx.default_map = {**(ctx.default_map or {}), **_read_config(ctx, value, kinds)}
        return value

    text = "YAML file of these options, whose relative paths begin in its folder; the command line overrides it."
    option = typer.Option("--config", help=text, callback=load, is_eager=True)
    config = _Parameter("config", Annotated[Path | None, option], None, None)
    verbose = [] if any(each.name == "verbose" for each in own) else [_Parameter.read("verbose", Verbose, False)]
    signature = [each.signature() for each in (*verbose, *own, config)]
    function = functools.update_wrapper(run, command)
    del function.__wrapped__
    function.__annotations__ = {each.name: each.annotation for each in signature}
    function.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return function


def _fields(options: Any) -> Iterator[_Parameter]:
    """Yield the fields that are options; lists are given with commas, or by a repeated option."""
    hints, optional = get_type_hints(options, include_extras=True), getattr(options, "optional", ())
    for field in fields(options):
        given = _Parameter.read(field.name, hints[field.name], field.default, field.metadata.get("flag"))
        if not (flag := given.flag):
            continue
        is_list = get_origin(given.type) is tuple
        if flag.is_repeatable:
            element = get_args(given.type)[0] if is_list else str
            convert = (lambda values: tuple(values or ())) if is_list else (lambda values: ",".join(values or ()))
            given = replace(given, type=list[element] | None, default=None, convert=convert)  # type: ignore[valid-type]
        elif is_list:
            given = replace(given, type=str | None, default=",".join(given.default) or None, convert=names)
        if field.default is MISSING or (flag.is_required and field.name not in optional):
            given = replace(given, default=inspect.Parameter.empty)
        yield replace(given, is_hidden=field.name in getattr(options, "ignored", ()))


def _refuse_address(flag: str, path: Path) -> None:
    if path.parts[:1] == ("s3:",):
        address = str(path).replace("/", "//", 1)  # which a path has lost
        raise UsageError(f"{flag} {address}: only local paths are supported")


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


def _read_config(ctx: typer.Context, path: Path, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Read a file as defaults of the command line; UsageError for an unreadable file or an unknown key."""
    _refuse_address("--config", path)
    from models.errors import YamlFileError
    from models.strict_yaml import read_yaml

    try:
        raw, _ = read_yaml(path, "file", verbatim=True)
    except YamlFileError as error:
        raise UsageError(f"--config {error}") from error
    if raw is not None and not isinstance(raw, dict):
        raise UsageError(f"--config {path}: expected a mapping of flags, such as `models: random`")
    own_params = [parameter for parameter in ctx.command.params if parameter.name in kinds]
    flags = {_option_name(parameter): parameter for parameter in own_params}
    known_names = {str(parameter.name).replace("_", "-"): parameter for parameter in own_params} | flags
    settings: dict[str, Any] = {}
    for key, setting in (raw or {}).items():
        flag = str(key).replace("_", "-")
        if flag not in known_names:
            raise UsageError(f"--config {path}: unknown key {str(key)!r}{suggest(flag, flags)}")
        parameter = known_names[flag]
        name = str(parameter.name)
        if name in settings:
            raise UsageError(f"--config {path}: {_option_name(parameter)!r} is given twice, once as {str(key)!r}")
        try:
            given = _as_flag(setting, multiple=parameter.multiple or parameter.nargs == -1)
        except ValueError as error:
            raise UsageError(f"--config {path}: {key}: {error}") from error
        settings[name] = _relative_to(path.absolute().parent, kinds[name], given)
    return settings


def _option_name(parameter: Any) -> str:
    """Return an option without dashes; parameters may have other names."""
    long = [option for option in parameter.opts if option.startswith("--")]
    return long[0][2:] if long else str(parameter.name).replace("_", "-")


def _as_flag(value: Any, *, multiple: bool) -> Any:
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, (dict, list)) for item in values):
        raise ValueError("expected a value or a list of values")
    if value is None or (isinstance(value, bool) and not multiple):
        return value
    return [str(item) for item in values] if multiple else ",".join(str(item) for item in values)


def _relative_to(folder: Path, kind: str, value: Any) -> Any:
    """Return a value of a configuration file, its relative paths made absolute: they begin in the file's folder."""
    if isinstance(value, list):
        return [_relative_to(folder, kind, item) for item in value]
    if not isinstance(value, str):
        return value
    if kind == "location":
        return _absolute(folder, value)
    if kind in ("pair", "scorer"):
        name, _, location = value.partition("=")
        is_there = kind == "pair" or (folder / location.partition(":")[0]).exists()  # else it is a hub id
        return f"{name}={_absolute(folder, location)}" if location and is_there else value
    if kind != "models":
        return value
    words = (word.strip() for word in value.split(","))
    return ",".join(_absolute(folder, word) if word.startswith(".") else word for word in words)


def _absolute(folder: Path, location: str) -> str:
    from pipelines.storage.backend import is_remote, location_problem

    is_address = "://" in location or is_remote(location) or bool(location_problem(location))
    return location if is_address or _NO_PATH.fullmatch(location) else str(folder / location)

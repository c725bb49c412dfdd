"""Command lines: options from annotated fields or a YAML file, lists, and arguments in their normal form."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from jobs.shared.output import prepare
from models.errors import suggest
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag, flag_of
from pipelines.plan.options import SweepOptions

_NO_PATH = re.compile(r"published(:.*)?|~.*|", re.DOTALL)
GLOBAL_FLAG = "--log-format"  # a flag of the program and not of a command, accepted after the command as well

Address = Annotated[str | None, Flag("A Ray cluster; default: RAY_ADDRESS, else a local embedded one.", "Cluster")]
DataOfRun = Annotated[
    str, Flag("Location of the ingested data, if it is not where the run read it.", "Data", kind="location")
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

    dry_run: Annotated[bool, Flag("Print the plan and run nothing.", "Output")] = False
    verbose: Verbose = False
    json: Json = False


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command: what Typer reads, and how the command gets its value."""

    name: str
    type: Any
    default: Any
    flag: Flag
    convert: Callable[[Any], Any] = lambda value: value
    is_hidden: bool = False

    def signature(self) -> inspect.Parameter:
        """Return the parameter with its names, limits and help."""
        flag = self.flag
        info: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar, "min": flag.low, "max": flag.high}
        if isinstance(flag, Argument):
            option = typer.Argument(**info)
        else:
            option = typer.Option(
                *flag.names(self.name),
                **info,
                parser=flag.parse,
                hidden=self.is_hidden,
                rich_help_panel=flag.group or None,
            )
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, kind, default=self.default, annotation=Annotated[self.type, option])


def as_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return what Typer runs: a command whose parameters, or fields of its only one, are options with help.

    `--config` and `--verbose` are added, and the log level is set before the command runs. Parameters without a `Flag`,
    as commands of other packages have them, are as Typer reads them.
    """
    declared = dict(inspect.signature(command, eval_str=True).parameters)
    plain = [declared.pop(name) for name, each in [*declared.items()] if _is_plain(each.annotation)]
    options: Any = next((each.annotation for each in declared.values() if is_dataclass(each.annotation)), None)
    own = (
        [*_fields(options)]
        if options
        else [_declared(each.name, each.annotation, each.default) for each in declared.values()]
    )
    parameters = {each.name: each for each in (_declared("verbose", Verbose, False), *own)}
    as_text = getattr(options, "kept_relative", ())
    kinds = {name: "text" if name in as_text else each.flag.kind for name, each in parameters.items()}
    kinds |= {each.name: "text" for each in plain}

    def run(*, config: Any, **values: Any) -> Any:
        prepare(verbose=values["verbose"])
        for name, each in parameters.items():
            for path in values[name] if isinstance(values[name], list) else [values[name]]:
                if isinstance(path, Path):
                    _refuse_address(each.flag.names(name)[0], path)
        given = {each.name: each.convert(values[each.name]) for each in own} | {p.name: values[p.name] for p in plain}
        return command(options(**given)) if options else command(**given)

    def load(ctx: typer.Context, value: Path | None) -> Path | None:
        if value is not None:
            ctx.default_map = {**(ctx.default_map or {}), **_read_config(ctx, value, kinds)}
        return value

    text = "YAML file of these options, whose relative paths begin in its folder; the command line overrides it."
    option = typer.Option("--config", help=text, callback=load, is_eager=True)
    config = inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )
    as_keywords = (each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in plain)
    signature = [*(each.signature() for each in parameters.values()), *as_keywords, config]
    function = functools.update_wrapper(run, command)
    del function.__wrapped__
    function.__annotations__ = {each.name: each.annotation for each in signature}
    function.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return function


def _is_plain(hint: Any) -> bool:
    return not flag_of(hint) and not is_dataclass(hint)


def _declared(name: str, hint: Any, default: Any) -> _Parameter:
    flag = flag_of(hint)
    if flag is None:
        raise TypeError(f"{name} has no Flag")
    kind = get_args(hint)[0]
    return _Parameter(name, kind, default, replace(flag, kind="location") if "Path" in str(kind) else flag)


def _fields(options: Any) -> Iterator[_Parameter]:
    """Yield the fields that are options; lists are given with commas, or by a repeated option."""
    hints, optional = get_type_hints(options, include_extras=True), getattr(options, "optional", ())
    for field in fields(options):
        hint = hints[field.name]
        if not (flag := flag_of(hint)):
            continue
        given = _declared(field.name, hint, field.default)
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
        settings[name] = _beside(path.absolute().parent, kinds[name], given)
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


def _beside(folder: Path, kind: str, value: Any) -> Any:
    """Return a value of a configuration file, its relative paths made absolute: they begin in the file's folder."""
    if isinstance(value, list):
        return [_beside(folder, kind, item) for item in value]
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

"""Flags that commands share, and `--config`: a file of the same flags, over which the command line wins."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

import typer

ANYWHERE = "--log-format"
"""Belongs to the program and not to a command, yet may stand behind one."""


def normalised(arguments: list[str]) -> list[str]:
    """Flags with `_` written as `-`: both are accepted. What may stand anywhere is put in front."""
    made: list[str] = []
    front: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument == "--":
            return [*front, *made, argument, *left]
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-") if flag.startswith("--") else flag
        if flag == ANYWHERE:
            front += [flag + equals + value, *([left.pop(0)] if not equals and left else [])]
        else:
            made.append(flag + equals + value)
    return [*front, *made]


def names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list, blanks dropped, repeats dropped."""
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _load_config(ctx: typer.Context, value: Path | None) -> Path | None:
    """Read the file and let its values stand where the command line says nothing.

    Raises:
        ValueError: it cannot be read, or holds a key that is no flag of this command.
    """
    if value is None:
        return None
    from models.strict_yaml import YamlFileError, read_yaml

    try:
        raw, _ = read_yaml(value, "file", as_written=True)
    except YamlFileError as error:
        raise ValueError(f"--config {error}") from error
    if raw is not None and not isinstance(raw, dict):
        raise ValueError(f"--config {value}: a mapping of flags was expected, such as `models: random`")
    own = [parameter for parameter in ctx.command.params if parameter.name not in (None, "config")]
    flags = {_flag_of(parameter): parameter for parameter in own}
    known = {str(parameter.name).replace("_", "-"): parameter for parameter in own} | flags
    settings: dict[str, Any] = {}
    for key, setting in (raw or {}).items():
        flag = str(key).replace("_", "-")
        if flag not in known:
            raise ValueError(f"--config {value}: unknown key {str(key)!r}{_nearest(flag, list(flags))}")
        name = str(known[flag].name)
        if name in settings:
            raise ValueError(f"--config {value}: {_flag_of(known[flag])!r} is given twice, once as {str(key)!r}")
        try:
            settings[name] = _as_flag(setting, multiple=known[flag].multiple)
        except ValueError as error:
            raise ValueError(f"--config {value}: {key}: {error}") from error
    ctx.default_map = {**(ctx.default_map or {}), **settings}
    return value


def _flag_of(parameter: Any) -> str:
    """What people write for it, without the dashes; parameters may have other names than their flags."""
    long = [option for option in parameter.opts if option.startswith("--")]
    return long[0][2:] if long else str(parameter.name).replace("_", "-")


def _nearest(flag: str, known: list[str]) -> str:
    near = difflib.get_close_matches(flag, known, n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"


def _as_flag(value: Any, *, multiple: bool) -> Any:
    several = value if isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) for one in several):
        raise ValueError("a value or a list of values was expected")
    if value is None or (isinstance(value, bool) and not multiple):
        return value
    return [str(one) for one in several] if multiple else ",".join(str(one) for one in several)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="YAML file of these flags; flags given here win.", callback=_load_config, is_eager=True
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Models = Annotated[str, typer.Option("--models", help="Models by name, comma-separated.")]
Benchmarks = Annotated[str, typer.Option("--benchmarks", help="Benchmarks, comma-separated.")]
Tasks = Annotated[str | None, typer.Option("--tasks", help="Only these tasks.")]
Settings = Annotated[str | None, typer.Option("--settings", help="Only these settings.")]
LimitText = Annotated[str | None, typer.Option("--limit", help="First N samples, a share (0.1), or a range (11-20).")]
SampleIds = Annotated[list[str] | None, typer.Option("--sample-id", help="Only this sample; may be repeated.")]
Data = Annotated[str, typer.Option("--data", help="Where the canonical data is: a folder or s3://bucket/key.")]
Out = Annotated[str, typer.Option("--out", help="Where results go: a folder or s3://bucket/key.")]
ModelsFile = Annotated[
    list[Path] | None, typer.Option("--models-file", help="YAML of models, laid over the catalog; may be repeated.")
]
JudgeName = Annotated[str | None, typer.Option("--judge", help="The model that judges open answers.")]
Captioner = Annotated[
    str | None,
    typer.Option("--captioner", help="The model that captions for text-only models; self: each model for itself."),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option("--scorer", help="bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID; may be repeated."),
]
Address = Annotated[
    str | None, typer.Option("--address", help="A Ray cluster; RAY_ADDRESS or an embedded one otherwise.")
]
FailOnError = Annotated[
    str,
    typer.Option("--fail-on-error", help="End with 1 when rows failed: true, false, a fraction, or a count allowed."),
]
CostLimit = Annotated[
    str | None,
    typer.Option("--cost-limit", help="Dollars that this run may spend, by the prices of the models file."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of draws such as the order of options.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="Folder of own wording: DIR/BENCHMARK/VERSION.txt.")]
Instead = Annotated[
    list[str] | None,
    typer.Option("--prompt-version", help="OLD=NEW: use another version of a prompt; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")]
Human = Annotated[
    list[str] | None,
    typer.Option(
        "--human",
        help="BENCHMARK=FILE.csv or BENCHMARK=FOLDER of people's answers, labels or judgements, local or s3://; may be "
        "repeated. Forms: docs/human-files.md.",
    ),
]

"""Command lines: flags as dataclasses, lists, and arguments in their normal form."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, get_type_hints

from jobs.config_file import ConfigFile

Flags = TypeVar("Flags")

GLOBAL_FLAG = "--log-format"
"""A flag of the program and not of a command, accepted after the command as well."""


def takes(flags_class: type[Flags], without: Collection[str] = ()) -> Callable[..., Callable[..., int]]:
    """Decorate a command: its flags are `--config` and the fields of a dataclass, except `without`."""
    fields = [field for field in dataclasses.fields(flags_class) if field.name not in without]  # type: ignore[arg-type]
    hints = get_type_hints(flags_class, include_extras=True) | {"config": ConfigFile}
    parameters = [_parameter(field, hints[field.name]) for field in fields]
    parameters.append(inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigFile))

    def decorate(command: Callable[[Flags], int]) -> Callable[..., int]:
        @functools.wraps(command)
        def parse(*, config: Any = None, **values: Any) -> int:
            return command(flags_class(**values))

        del parse.__wrapped__
        parse.__annotations__ = {parameter.name: hints[parameter.name] for parameter in parameters}
        parse.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return parse

    return decorate


def _parameter(field: dataclasses.Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


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

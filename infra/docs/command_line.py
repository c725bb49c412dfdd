"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import typer.main

import cluster
import models
import pipelines
from infra.docs.markdown import code, page, table
from jobs.cli.main import app
from jobs.shared.failures import DONE, INTERNAL, INTERRUPTED, UNREACHABLE, USAGE

_CODES = {
    DONE: "Done.",
    1: "Done, but more rows failed than `--fail-on-error` allows; `nightly`: somebody should look; `gate`: NO-GO.",
    USAGE: "A flag, a file or the configuration cannot be used. The message says what and how to fix it.",
    UNREACHABLE: "The cluster, the store or a model could not be reached or died. The same command resumes.",
    4: "`gate` cannot decide: its numbers neither keep the policy nor break it.",
    INTERNAL: "A bug, with its traceback. Finished work is kept.",
    INTERRUPTED: "Interrupted. The same command resumes.",
}
_NOT_EVERYWHERE = "models.engines.vllm"  # imports what is installed on GPU machines only


def commands_page() -> str:
    """Return the page of all commands with their arguments and flags."""
    group: Any = typer.main.get_command(app)
    about = (
        "Every command takes `--config FILE.yaml` with the same flags as keys, which the command line overrides, and "
        "`--log-format json`, which writes log lines as JSON objects. Relative paths in such a file begin in its "
        "folder. Flags may be written with `-` or `_`. "
        "Exit codes: [exit codes](exit-codes.md)."
    )
    return page("Commands", about, *(_command(name, command) for name, command in all_commands(group)))


def all_commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group by name, those of groups in it as `export inspect`."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _command(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join(["vlmsweep", name, *(_placeholder(item) for item in arguments), "[FLAGS]"])
    rows = [(code(_placeholder(item)), _help(item), "") for item in arguments]
    rows += [(code(", ".join((*item.opts, *item.secondary_opts))), _help(item), _default(item)) for item in options]
    text = inspect.cleandoc(command.help or "")
    return "\n\n".join((f"## {name}", text, code(usage), table(("", "meaning", "default"), rows)))


def _placeholder(argument: Any) -> str:
    name = f"{argument.name.upper()}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def _help(parameter: Any) -> str:
    required = " Required." if parameter.required else ""
    return f"{parameter.help or ''}{required}"


def _default(parameter: Any) -> str:
    is_shown = parameter.show_default and not parameter.required and parameter.default not in (None, "", False)
    return code(str(parameter.default).lower() if parameter.default is True else parameter.default) if is_shown else ""


def exit_codes_page() -> str:
    """Return the page of exit codes, with the errors behind each."""
    rows = [(number, meaning) for number, meaning in sorted(_CODES.items())]
    errors = sorted((error.exit_code, error.__name__, _first_line(error)) for error in _errors())
    return page(
        "Exit codes",
        table(("code", "meaning"), rows),
        "## Errors",
        "Errors that a user can fix derive from `PipelineError`, `ModelError` or `ClusterError` and carry their code.",
        table(("code", "error", "meaning"), [(number, code(name), text) for number, name, text in errors]),
    )


def _errors() -> Iterator[Any]:
    for package in (cluster, models, pipelines):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.startswith(_NOT_EVERYWHERE):
                continue
            for name, value in vars(import_module(info.name)).items():
                is_here = inspect.isclass(value) and value.__module__ == info.name and not name.startswith("_")
                if is_here and issubclass(value, Exception) and hasattr(value, "exit_code"):
                    yield value


def python_page() -> str:
    """Return the page of the public names of the packages."""
    sections = []
    for package in (pipelines, models, cluster):
        names: Sequence[str] = sorted(package.__all__)
        sections.append(f"## {package.__name__}\n\n{inspect.cleandoc(package.__doc__ or '')}")
        sections += [_public(getattr(package, name), name) for name in names if not name.startswith("__")]
    return page("Python", "Names that may be built on. All others may change.", *sections)


def _public(value: Any, name: str) -> str:
    doc = inspect.cleandoc(value.__doc__ or "")
    signature = ""
    if inspect.isfunction(value) or dataclasses.is_dataclass(value):
        signature = f"```python\n{name}{_signature(value)}\n```"
    paragraphs = "\n\n".join(part.replace("\n    ", "\n- ") for part in doc.split("\n\n"))
    return "\n\n".join(filter(None, (f"### {name}", signature, paragraphs)))


def _signature(value: Any) -> str:
    """Return parameters, one a line where they are many; defaults that are objects are shortened."""
    parameters = []
    for parameter in inspect.signature(value).parameters.values():
        hint = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {_short(parameter.default)}"
        parameters.append(f"{parameter.name}{hint}{default}")
    line = f"({', '.join(parameters)})"
    return line if len(line) < 80 else "(\n    " + ",\n    ".join(parameters) + ",\n)"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 30 and "<" not in text else "..."


def _first_line(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]

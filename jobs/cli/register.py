"""The commands of the program: those of the core, and those that installed packages register."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from jobs.cli.compare import compare
from jobs.cli.demo import demo
from jobs.cli.doctor import doctor
from jobs.cli.ingest import ingest
from jobs.cli.list import list_
from jobs.cli.run import predict, report, run, score
from jobs.cli.status import status
from jobs.cli.submit import submit
from jobs.shared.commands import GROUP, OTHER, SECTIONS, example_of, section_of
from jobs.shared.options import as_command
from pipelines.errors import UsageError
from pipelines.registry import load, registered

_CORE: Final[Mapping[str, Any]] = {
    "run": run,
    "predict": predict,
    "score": score,
    "report": report,
    "status": status,
    "submit": submit,
    "compare": compare,
    "demo": demo,
    "list": list_,
    "ingest": ingest,
    "doctor": doctor,
}
_GROUPS: Final = ("Models", "Data", "Judging", "Limits", "Cluster", "Output")


class GroupedCommand(TyperCommand):
    """A command whose help lists arguments first, then options by group, then the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group that has options."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *_GROUPS, "Options")}
        arguments = [each for each in self.get_params(ctx) if isinstance(each, TyperArgument)]
        options = [each for each in self.get_params(ctx) if not isinstance(each, TyperArgument)]
        for parameter in [*arguments, *sorted(options, key=lambda each: (not each.required, each.opts[0]))]:
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = getattr(parameter, "rich_help_panel", None)  # `--help` has none
                sections["Arguments" if parameter in arguments else group or "Options"].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class CommandSections(TyperGroup):
    """The program, whose help lists the commands by section, each with its whole first sentence."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("Any", _Commands())

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  as click calls it
        """Write a section for each kind of command."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, OTHER)}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", OTHER)
            sections[title if title in sections else OTHER].append((name, command.get_short_help_str(limit=200)))
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


class _Commands(Mapping[str, Any]):
    """The commands by name; that of an installed package is imported when it is asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter((*_CORE, *(name for name in registered(GROUP) if name not in _CORE)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        if name not in _CORE and name not in registered(GROUP):
            raise KeyError(name)
        return _build(name)


@cache
def _build(name: str) -> Any:
    try:
        command = _CORE[name] if name in _CORE else load(GROUP, name)
    except UsageError as error:
        return _unusable(name, error)
    section, example = section_of(command), example_of(command, name)
    program = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        for form in (each for each in command.registered_commands if each.cls is not GroupedCommand):
            form.cls, form.epilog = GroupedCommand, _epilog(f"{name} {form.name}{example.removeprefix(name)}")
            form.callback = as_command(form.callback) if form.callback else None
        program.add_typer(command, name=name, rich_help_panel=section)
    else:
        add = program.command(name, cls=GroupedCommand, epilog=_epilog(example), rich_help_panel=section)
        add(as_command(command))
    return typer.main.get_group(program).commands[name]


def _epilog(arguments: str) -> str:
    return f"\b\nExample:\n  vlmsweep {arguments}"  # the first character keeps the lines as they are


def _unusable(name: str, error: UsageError) -> TyperCommand:
    """Return a command in place of one that cannot be imported: it says why, and others are as they were."""

    def fail() -> None:
        raise error

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(
        name, callback=fail, help=str(error), short_help=str(error), context_settings=anything, rich_markup_mode=None
    )

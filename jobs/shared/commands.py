"""Commands of installed packages: the entry points `vlmsweep.commands`, and where the help lists a command."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

GROUP: Final = "vlmsweep.commands"
SECTIONS: Final = ("Evaluate", "Understand", "Share", "Set up")
OTHER: Final = "Other"  # of commands that name no section
C = TypeVar("C")


def listed(section: str, example: str) -> Callable[[C], C]:
    """Decorate a command, or a Typer app of commands: its section of `vlmsweep --help`, and arguments as an example."""

    def mark(command: C) -> C:
        command.__dict__.update(section=section, example=example)
        return command

    return mark


def section_of(command: Any) -> str:
    """Return the section of a command."""
    section: str = getattr(command, "section", OTHER)
    return section


def example_of(command: Any, name: str) -> str:
    """Return arguments that show a command at work."""
    example: str = getattr(command, "example", name)
    return example

"""How an option is declared once: `Annotated[str, Flag("help", "group")]` at its field or parameter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, eq=False)
class Flag:
    """An option as the command line, its help and configuration files show it."""

    help: str
    group: str = ""  # heading in the help
    name: str = ""  # such as `--sample-id` or `--verbose -v`; '' for the field's name
    kind: Literal["text", "location", "pair", "scorer", "models"] = "text"
    """What a relative path in a configuration file is a part of: it begins in the file's folder."""
    parse: Callable[[str], object] | None = None
    low: float | None = None
    high: float | None = None
    metavar: str | None = None
    is_required: bool = False
    is_repeatable: bool = False
    is_recorded: bool = True  # whether `run.json` holds the value

    def names(self, field: str) -> list[str]:
        """Return how the option of a field is written, the usual spelling first."""
        return self.name.split() or [f"--{field.replace('_', '-')}"]


class Argument(Flag):
    """A positional argument."""


def flag_of(hint: Any) -> Flag | None:
    """Return the flag of a field's or parameter's annotation; None if it is no option."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Flag)), None)

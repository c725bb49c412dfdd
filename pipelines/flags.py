"""How an option is declared once: `flag("help", "group")` as a field, `Annotated[str, Flag(...)]` as a parameter."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
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


def flag(help: str, group: str = "", name: str = "", *, default: Any = None, **settings: Any) -> Any:  # noqa: A002
    """Return a field of a dataclass that is an option; `settings` are those of `Flag`."""
    return field(default=default, metadata={"flag": Flag(help, group, name, **settings)})


def argument(help: str, *, default: Any = MISSING, **settings: Any) -> Any:  # noqa: A002
    """Return a field of a dataclass that is a positional argument."""
    return field(default=default, metadata={"flag": Argument(help, **settings)})


def flag_of(hint: Any) -> Flag | None:
    """Return the flag of a field's or parameter's annotation; None if it is no option."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Flag)), None)

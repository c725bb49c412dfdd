"""What installed distributions add by entry points: commands, readers of logs, sections of reports, extensions.

Ours are registered in pyproject.toml as those of others are. `vlmsweep submit` sends them along with the code.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from pipelines.errors import UsageError

OURS: Final = "vlmsweep"  # the distribution
_EXTENSIONS: Final = "vlmsweep.extensions"


@cache
def _entries(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def registered(group: str) -> Sequence[str]:
    """Return the names in a group, sorted; nothing is imported."""
    return sorted({entry.name for entry in _entries(group)})


def load(group: str, name: str) -> Any:
    """Return what is registered under a name.

    UsageError where no distribution registers it, or several do, or where that of somebody else cannot be imported.
    """
    entries = [entry for entry in _entries(group) if entry.name == name]
    owners = [entry.dist.name if entry.dist else "?" for entry in entries]
    if not entries:
        raise UsageError(f"no installed package provides {name!r} of {group}; install vlmsweep again")
    if len(entries) > 1:
        raise UsageError(f"{' and '.join(owners)} both register {name!r} in {group}; uninstall one of them")
    try:
        return entries[0].load()
    except Exception as error:
        if owners == [OURS]:
            raise
        problem = f"{entries[0].value} cannot be imported ({type(error).__name__}: {error})"
        raise UsageError(f"{name!r} of {owners[0]}: {problem}; update or uninstall {owners[0]}") from error


def load_all(group: str) -> dict[str, Any]:
    """Return everything that is registered in a group, by name; UsageError as `load`."""
    return {name: load(group, name) for name in registered(group)}


def extension(name: str) -> Any:
    """Return a function of a side command that the core calls, such as `explain_comparison`; UsageError as `load`."""
    return load(_EXTENSIONS, name)

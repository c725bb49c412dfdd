"""The gallery: ready-made definitions of widely used benchmarks, each a file with the keys of a columns file.

No definition was read against the data themselves where it says `checked: false`; layouts are those of the readers of
other harnesses.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import yaml

from pipelines.benchmarks.table.columns_file import ColumnsFile, parse_columns


@cache
def _entries() -> dict[str, Traversable]:
    folders = (folder for folder in files(__package__).iterdir() if folder.is_dir())
    entries = (entry for folder in folders for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return dict(sorted((entry.name.removesuffix(".yaml"), entry) for entry in entries))


def gallery_names() -> list[str]:
    """Return the names of the gallery's benchmarks."""
    return [*_entries()]


@cache
def gallery_definition(name: str) -> ColumnsFile:
    """Return the definition of a benchmark of the gallery; KeyError for another name."""
    entry = _entries()[name]
    return parse_columns(yaml.safe_load(entry.read_text("utf-8")), f"gallery/{entry.name}")

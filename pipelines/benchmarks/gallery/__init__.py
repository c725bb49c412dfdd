"""The gallery: ready-made definitions of widely used benchmarks, each a file with the keys of a columns file.

No definition was read against the data themselves where it says `checked: false`; layouts are those of the readers of
other harnesses.
"""

from functools import cache
from importlib.resources import files

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.benchmarks.table.columns_file import ColumnsFile, parse_columns


@cache
def _entries() -> dict[str, str]:
    folders = (folder for folder in files(__package__).iterdir() if folder.is_dir())
    paths = ((entry.name, folder.name) for folder in folders for entry in folder.iterdir())
    return dict(sorted((name[:-5], f"{folder}/{name}") for name, folder in paths if name.endswith(".yaml")))


def gallery_names() -> list[str]:
    """Return the names of the gallery's benchmarks."""
    return [*_entries()]


@cache
def gallery_definition(name: str) -> ColumnsFile:
    """Return the definition of a benchmark of the gallery; KeyError for another name."""
    path = _entries()[name]
    return parse_columns(load_yaml(__package__, path), f"gallery/{path}")

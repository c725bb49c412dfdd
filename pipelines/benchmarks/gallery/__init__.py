"""The gallery: ready-made definitions of widely used benchmarks, each a file with the keys of a columns file.

No definition was read against the data themselves where it says `checked: false`; layouts are those of the readers of
other harnesses.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.benchmarks.table.columns_file import ColumnsFile, parse_columns, read_keys


@cache
def _entries() -> dict[str, str]:
    folders = (folder for folder in files(__package__).iterdir() if folder.is_dir())
    paths = ((entry.name, folder.name) for folder in folders for entry in folder.iterdir())
    return dict(sorted((name[:-5], f"{folder}/{name}") for name, folder in paths if name.endswith(".yaml")))


def gallery_names() -> list[str]:
    """Return the names of the gallery's benchmarks."""
    return [*_entries()]


def gallery_definition(name: str, own: Path | None = None) -> ColumnsFile:
    """Return the definition of a benchmark of the gallery, with the keys of a columns file in place of its own.

    KeyError for a name that is not in the gallery; SourceError and YamlFileError as `read_columns_file`.
    """
    path = _entries()[name]
    keys = read_keys(own) if own else {}
    return parse_columns({**load_yaml(__package__, path), **keys}, str(own or f"gallery/{path}"))

"""Texts of a report without the folders of the machine that wrote it."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

_ABSOLUTE: Final = re.compile(r"(?<![\w/.~-])(?!(?<=:)//)/[^\s/'\"`,;:()\[\]{}]+(?:/[^\s/'\"`,;:()\[\]{}]+)+/?")
_FILE_URL: Final = re.compile(r"\bfile:/+")
_WHOLE: Final = re.compile(r"(--[\w-]+=)?(/[^\n,:]+/[^\n,:]+)")
"""A value or argument that is one path, which may have spaces."""
_HOME: Final = re.compile(r"/(?:home|Users)/[^/]+")


def portable_text(text: str, out: str) -> str:
    """Return a text with local paths relative to the output, or by their last name where they lie elsewhere."""
    return _ABSOLUTE.sub(lambda match: _shortened(match[0], out), _FILE_URL.sub("/", text))


def portable(value: Any, out: str) -> Any:
    """Return a value of `run.json` with the local paths in its texts so shortened."""
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        return f"{whole[1] or ''}{_shortened(whole[2], out)}" if whole else portable_text(value, out)
    if isinstance(value, Mapping):
        return {key: portable(entry, out) for key, entry in value.items()}
    return [portable(entry, out) for entry in value] if isinstance(value, list | tuple) else value


def _shortened(text: str, out: str) -> str:
    path, folder = PurePosixPath(text), PurePosixPath(out)
    if path.is_relative_to(folder):
        return str(path.relative_to(folder))
    if path.is_relative_to(folder.parent) and len(folder.parts) > 2:
        return str(PurePosixPath("..", path.relative_to(folder.parent)))
    return "\N{HORIZONTAL ELLIPSIS}" + ("" if _HOME.fullmatch(str(path)) else f"/{path.name}")

"""Texts of a report without the folders of the machine that wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

_ABSOLUTE: Final = re.compile(r"(?<![\w:/.~-])/[^\s/'\"`,;:()\[\]{}]+(?:/[^\s/'\"`,;:()\[\]{}]+)+/?")


def portable_text(text: str, out: str) -> str:
    """Return a text with local paths relative to the output, or by their last name where they lie elsewhere."""
    folder = PurePosixPath(out)

    def shortened(match: re.Match[str]) -> str:
        path = PurePosixPath(match[0])
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
        if path.is_relative_to(folder.parent) and len(folder.parts) > 2:
            return str(PurePosixPath("..", path.relative_to(folder.parent)))
        return f"\N{HORIZONTAL ELLIPSIS}/{path.name}"

    return _ABSOLUTE.sub(shortened, text)


def portable(value: Any, out: str) -> Any:
    """Return a value of `run.json` with the local paths in its texts so shortened."""
    if isinstance(value, str):
        return portable_text(value, out)
    if isinstance(value, Mapping):
        return {key: portable(entry, out) for key, entry in value.items()}
    return [portable(entry, out) for entry in value] if isinstance(value, list | tuple) else value

"""Markdown of generated pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent


def explanations(name: str) -> dict[str, Any]:
    """Return one of the YAML files beside this module."""
    data: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; bars and line breaks inside cells stay inside."""
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def code(value: object) -> str:
    """Return text as code; nothing for none."""
    text = "" if value is None else str(value)
    return f"`{text}`" if text else ""


def fence(text: str, language: str = "text") -> str:
    """Return text as a block of code, also where it holds such blocks."""
    ticks = "`" * max(3, max((len(run) for run in _ticks(text)), default=0) + 1)
    return f"{ticks}{language}\n{text.strip()}\n{ticks}"


def page(title: str, *parts: str) -> str:
    """Return a page of a heading and its parts."""
    return "\n\n".join((f"# {title}", *filter(None, parts))) + "\n"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _ticks(text: str) -> list[str]:
    """Return the runs of backticks in a text."""
    marked = "".join(letter if letter == "`" else " " for letter in text)
    return marked.split()

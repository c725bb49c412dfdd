"""Columns that are made of others: `{category}/{question_id}`, `metadata.task`, `@folder`; and texts with such names.

`@file` and `@folder` are the name of a row's file without its ending and of the folder that holds it, `@row` the number
of a row in its file, `@number` in all files, `@n` of an exploded value, `@key` the name of a row in an object of JSON.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any

from pipelines.benchmarks.table.media import is_empty

_PLACEHOLDER = re.compile(r"\{([^{}?\n]{1,100})(?:\?([^{}]*))?\}")
_PLAIN_NAME = re.compile(r"[\w@.%-]+")
_MODULO = re.compile(r"(.+)%(\d+)")
_OPTIONAL_LINE = re.compile(r"^(?:\{[^{}?\n]{1,100}\?[^{}]*\})+\n", re.MULTILINE)


def placeholders(text: str) -> list[str]:
    """Return the names in the placeholders of a text."""
    return [match[1] for match in _PLACEHOLDER.finditer(text)]


def column_names(text: str) -> list[str]:
    """Return the columns that the placeholders of a text name, without what follows a `%`."""
    return [_column(name) for name in placeholders(text)]


def _column(name: str) -> str:
    match = _MODULO.fullmatch(name)
    return match[1] if match else name


def is_plain_name(name: str) -> bool:
    """Return whether a placeholder can only be meant as one; `{"a": 1}` may be a part of a text."""
    return bool(_PLAIN_NAME.fullmatch(name))


def is_derived(name: str) -> bool:
    """Return whether a name is no column of a source but made of some."""
    return "{" in name or name.startswith("@") or "." in name


def sources(name: str) -> list[str]:
    """Return the columns of a source that a name is made of."""
    parts = column_names(name) if "{" in name else [name]
    return [column for part in parts if not part.startswith("@") for column in _paths(part)]


def _paths(name: str) -> set[str]:
    return {name, name.partition(".")[0]}


def filled(text: str, value: Callable[[str], str | None]) -> str:
    """Fill the placeholders of a text; those without a value stay as they are.

    `{hint?Hint: }` is the value with a text before it, or nothing; a line that holds only such ones and would be empty
    is left out.
    """

    def fill(match: re.Match[str]) -> str:
        content = value(match[1])
        if content is None:
            return match[0]
        if match[2] is None:
            return content
        return f"{match[2]}{content}".rstrip("\n") if content else ""

    def line(match: re.Match[str]) -> str:
        return match[0] if any(value(name) != "" for name in placeholders(match[0])) else ""

    return _PLACEHOLDER.sub(fill, _OPTIONAL_LINE.sub(line, text))


def derived_value(name: str, row: Mapping[str, Any]) -> Any:
    """Return the value of a name in a row: of a template a text, None if one of its parts is empty."""
    if name in row:
        return row[name]
    if "{" in name:
        parts = {part: _part(part, row) for part in placeholders(name)}
        return None if None in parts.values() else filled(name, parts.get)
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _part(name: str, row: Mapping[str, Any]) -> str | None:
    """Return a part of a template as text; `{index%100}` is the rest of a number."""
    value = derived_value(_column(name), row)
    if is_empty(value):
        return None
    text = as_text(value, name)
    modulo = _MODULO.fullmatch(name)
    if modulo and not text.isdecimal():
        raise ValueError(f"{{{name}}}: {text[:40]!r} is no whole number")
    return str(int(text) % int(modulo[2])) if modulo else text


def as_text(value: Any, what: str) -> str:
    """Return a value as text; ValueError for a list or an object, or for half a surrogate pair or a damaged byte."""
    if isinstance(value, float | Decimal):
        return str(int(value)) if isfinite(value) and int(value) == value else str(value)
    if isinstance(value, bool | int | date | time):
        return str(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise ValueError(f"{what}: must be text, not {type(value).__name__}")  # noqa: TRY004 - callers catch one class
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ValueError(f"{what}: bytes that are no text in the file's encoding")
    return value.strip()

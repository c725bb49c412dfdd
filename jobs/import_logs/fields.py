"""Fields of logged answers: names of a question, its text and options, and texts in nested replies."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipelines.benchmarks.table.columns import OPTION_LETTERS, USUAL

_CELL: Final = ("task", "setting", "variant")


def text(value: Any) -> str:
    """Return a value of a table or of JSON as text; '' for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def ids_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a question under the usual columns."""
    return tuple(dict.fromkeys(filter(None, (text(row.get(name)).strip() for name in USUAL["id"]))))


def question_of(row: Mapping[str, Any]) -> str:
    """Return the question under the usual columns."""
    return next((row[name] for name in USUAL["question"] if isinstance(row.get(name), str)), "")


def options_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options under the usual columns: a list, or columns `A`, `B` and so on."""
    for name in USUAL["options"]:
        values = row.get(name)
        if isinstance(values, list) and values and all(isinstance(value, str | int | float) for value in values):
            return tuple(map(text, values))
    options = [text(row.get(letter)) for letter in OPTION_LETTERS]
    return tuple(options[: options.index("")] if "" in options else options)


def group_fields(row: Mapping[str, Any]) -> dict[str, str] | None:
    """Return task, setting and variant of a question that an export of ours names; None for any other."""
    return {name: text(row[name]) for name in _CELL if name in row} if "sample_id" in row else None


def message_text(content: Any) -> str:
    """Return the text of a chat message; pictures are left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def first_text(value: Any) -> str | None:
    """Return the first text in lists of lists, as harnesses keep replies."""
    for _ in range(8):
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            break
        value = value[0]
    return value if isinstance(value, str) else None


def walk(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and the mappings that are its values."""
    if isinstance(value, Mapping):
        yield value
        yield from (child for child in value.values() if isinstance(child, Mapping))

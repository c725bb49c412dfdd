"""Messages of validation errors, worded for the author of the file rather than of the reader."""

import json
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import ValidationError

from pipelines.benchmarks.records import Source
from pipelines.errors import SourceError

MAX_ERRORS = 3  # errors named of one row
MAX_NAMED: Final = 5  # items that a notice names


def read_json(source: Source, path: str, *, lines: bool = False) -> Any:
    """Read a JSON file, or one of JSON lines as a list; SourceError if it is none."""
    try:
        text = source.read_bytes(path).decode("utf-8-sig")
        return [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: not readable as JSON ({error}); fetch the file again") from error


def reason_of(error: ValueError) -> str:
    """Return why a row cannot be used."""
    return format_validation_error(error) if isinstance(error, ValidationError) else str(error)


def format_validation_error(error: ValidationError) -> str:
    """Return the first errors of a row as `field: what is wrong`, joined by semicolons."""
    messages = []
    for item in error.errors(include_url=False)[:MAX_ERRORS]:
        describe = _MESSAGES.get(item["type"])
        text = describe(item["input"], item.get("ctx", {})) if describe else item["msg"].removeprefix("Value error, ")
        messages.append(f"{'.'.join(map(str, item['loc'])) or 'row'}: {text}")
    return "; ".join(messages)


def first_names(names: Sequence[str]) -> str:
    """Return the first of some names for a notice, and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _expected(kind: str) -> Callable[[Any, dict[str, Any]], str]:
    return lambda value, _: f"must be {kind}, not {'nothing' if value is None else reprlib.repr(value)}"


def _length(value: Any, context: dict[str, Any]) -> str:
    bounds = (("at least", "min_length"), ("at most", "max_length"))
    bound = next(f"{text} {context[name]}" for text, name in bounds if name in context)
    return f"must have {bound} entries, not {len(value)}"


_OBJECT: Final = _expected("an object of named fields")
_MESSAGES: Final[dict[str, Callable[[Any, dict[str, Any]], str]]] = {
    "missing": lambda *_: "is missing",
    "string_pattern_mismatch": lambda *_: "is empty",  # the one pattern here asks for anything but blanks
    "string_too_short": lambda *_: "is empty",  # and the one length for a character
    "string_type": _expected("text"),
    "list_type": _expected("a list"),
    "float_type": _expected("a number"),
    "int_type": _expected("a whole number"),
    "bool_type": _expected("true or false"),
    "finite_number": _expected("a finite number"),
    "greater_than": lambda value, context: f"must be greater than {context['gt']:g}, not {value:g}",
    "too_short": _length,
    "too_long": _length,
    "literal_error": lambda value, context: _expected(context["expected"])(value, context),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _OBJECT),
}
"""By pydantic's error types: from the value and pydantic's context to a message."""

"""What is wrong with a row of foreign data, in words for who made the file rather than for who wrote the reader."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError

MOST = 3
"""Faults named of one row."""


def format_validation_error(error: ValidationError) -> str:
    """The first faults of a row as `field: what is wrong`, a semicolon between them."""
    told = []
    for fault in error.errors(include_url=False)[:MOST]:
        words = _WORDS.get(fault["type"])
        about = words(fault["input"], fault.get("ctx", {})) if words else fault["msg"].removeprefix("Value error, ")
        told.append(f"{'.'.join(map(str, fault['loc'])) or 'row'}: {about}")
    return "; ".join(told)


def _wanted(what: str) -> Callable[[Any, dict[str, Any]], str]:
    return lambda given, _: f"must be {what}, not {'nothing' if given is None else reprlib.repr(given)}"


def _number_of(given: Any, context: dict[str, Any]) -> str:
    bounds = (("at least", "min_length"), ("at most", "max_length"))
    wanted = next(f"{word} {context[name]}" for word, name in bounds if name in context)
    return f"must have {wanted} entries, not {len(given)}"


_OBJECT: Final = _wanted("an object of named fields")
_WORDS: Final[dict[str, Callable[[Any, dict[str, Any]], str]]] = {
    "missing": lambda *_: "is missing",
    "string_pattern_mismatch": lambda *_: "is empty",  # the one pattern here asks for anything but blanks
    "string_too_short": lambda *_: "is empty",  # and the one length for a character
    "string_type": _wanted("text"),
    "list_type": _wanted("a list"),
    "float_type": _wanted("a number"),
    "int_type": _wanted("a whole number"),
    "bool_type": _wanted("true or false"),
    "finite_number": _wanted("a finite number"),
    "greater_than": lambda given, context: f"must be greater than {context['gt']:g}, not {given:g}",
    "too_short": _number_of,
    "too_long": _number_of,
    "literal_error": lambda given, context: _wanted(context["expected"])(given, context),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _OBJECT),
}
"""By pydantic's names of faults, given the value and what pydantic says of the bound."""

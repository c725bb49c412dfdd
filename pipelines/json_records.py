"""Dataclasses and checksums in JSON files of the product, read so strictly that damage is distinguished from bugs."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from hashlib import sha256
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_CHECKSUM: Final = "checksum"
_NOT_SHOWN: Final = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control and bidi characters, ends of lines and lone surrogates, which JSON need not escape."""


class MalformedError(ValueError):
    """The content of a file is not what its record declares. The message names the place."""


def dump_json(value: object, *, indent: int | None = None, allow_nan: bool = False) -> str:
    """Return JSON that is text for whatever prints it or splits it into lines."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=allow_nan)
    return _NOT_SHOWN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def dump_checked(content: Mapping[str, Any]) -> bytes:
    """Return a JSON file that ends with the checksum of its values."""
    content = {**content, _CHECKSUM: _checksum(content)}
    return dump_json(content, indent=2, allow_nan=True).encode()


def load_checked(content: bytes | str) -> dict[str, Any]:
    """Return what `dump_checked` wrote; MalformedError for anything else."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error)) from error
    if not isinstance(raw, dict):
        raise MalformedError("not an object")
    if raw.pop(_CHECKSUM, None) != _checksum(raw):
        raise MalformedError("its checksum does not match")
    return raw


def _checksum(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_record(record: type[T], raw: object, where: str = "") -> T:
    """Return a dataclass from an object of JSON, or from an array of its fields in order; absent ones take defaults.

    Dataclasses among the values are taken as they are: their class reads a form of its own.
    Raises MalformedError for a value of another type, and for a key that is missing or unknown.
    """
    hints, prefix = get_type_hints(record), f"{where}." if where else ""
    declared = {field.name: field for field in fields(record) if field.init}  # type: ignore[arg-type]
    if isinstance(raw, list) and len(raw) <= len(declared):
        raw = dict(zip(declared, raw, strict=False))
    if not isinstance(raw, dict):
        raise MalformedError(f"{where or record.__name__}: not an object")
    unknown = raw.keys() - declared.keys()
    missing = [name for name, field in declared.items() if name not in raw and _is_required(field)]
    if unknown or missing:
        problem = f"unknown key {min(unknown)!r}" if unknown else f"no key {missing[0]!r}"
        raise MalformedError(f"{where}: {problem}" if where else problem)
    return record(**{name: read_value(hints[name], value, f"{prefix}{name}") for name, value in raw.items()})


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def read_value(hint: Any, value: Any, where: str) -> Any:
    """Return a value of JSON as a field's type, one of those that records have; MalformedError for another value."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return None if value is None else read_value(inner, value, where)
    if is_dataclass(hint):
        return value if isinstance(value, hint) else read_record(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list):
        return tuple(read_value(arguments[0], entry, f"{where}[{index}]") for index, entry in enumerate(value))
    if origin in (Mapping, dict) and isinstance(value, dict):
        return {name: read_value(arguments[1], entry, f"{where}.{name}") for name, entry in value.items()}
    is_literal = origin is Literal and value in arguments
    if not is_literal and type(value) not in ((float, int) if hint is float else (hint,)):
        raise MalformedError(f"{where}: {json.dumps(value)[:40]} is no {getattr(hint, '__name__', hint)}")
    return value

"""Replies of endpoints: bytes to objects, counts and texts, all read leniently, and the failures that they tell."""

import codecs
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from models.messages import Answer

FAILED_REASONS: Final = frozenset(
    {"error", "abort", "aborted", "network_error", "insufficient_system_resource", "cancelled", "model_error"}
)
"""Finish reasons with which a provider ends a reply that it could not complete."""
_MOST_TOKENS = 2**53
_MOST_LEVELS = 100
_LONGEST_NAME = 200


class NoCompletionError(ValueError):
    """A reply that is not a valid completion."""


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """A failure that a reply with status 200 tells."""

    error: object
    """The error object, or the finish reason."""
    reason: str = ""
    """The finish reason, where that alone tells it."""


ReplyReader: TypeAlias = Callable[[bytes], Answer | ReportedFailure]
"""Returns the answer or failure in the body of a reply, or raises `NoCompletionError`."""


def decoded(content: bytes) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the reply as an object, and what had to be repaired in its bytes."""
    try:
        text, is_utf8 = content.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        text, is_utf8 = content.decode("utf-8-sig", "replace"), False
    try:
        reply = parsed(text)
    except ValueError as error:
        raise NoCompletionError(f"JSON: {str(error).partition(':')[0]}") from error
    if not isinstance(reply, Mapping):
        raise NoCompletionError("it is no JSON object")
    return reply, with_repairs((), byte_order_mark=content.startswith(codecs.BOM_UTF8), bytes=not is_utf8)


def name_in(reply: Mapping[str, Any], field: str) -> str | None:
    """Return a short text of a reply's field; None for anything else."""
    value = reply.get(field)
    return value[:_LONGEST_NAME] if isinstance(value, str) and value else None


def parsed(text: str) -> Any:
    """Return the value of a JSON text; ValueError where it is none, or so deep that no reader could walk it."""
    try:
        value = json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError(str(error)) from error
    level = [value]
    for _ in range(_MOST_LEVELS):
        parts = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for part in parts for item in part]
    if level:
        raise ValueError("nested too deeply")
    return value


def ended_failure(reason: object, words: object, reasons: Collection[str] = ()) -> ReportedFailure | None:
    """Return the failure that a finish reason tells, or None; `reasons` are a provider's own, in lower case."""
    if not isinstance(reason, str) or reason.lower() not in {*FAILED_REASONS, *reasons}:
        return None
    return ReportedFailure(words or f"the reply ended with {reason!r}", reason.lower())


def texts(content: object) -> Iterator[str | None]:
    """Yield the texts of a content, which is one text, or parts; None for a part without text."""
    if isinstance(content, list):
        for part in content:
            yield from (None,) if part is None else texts(part)
    elif isinstance(content, Mapping):
        yield from texts(content.get("text"))
    elif content is not None:
        yield content if isinstance(content, str) else None


def first_item(items: object, name: str) -> Mapping[str, Any]:
    """Return the first item of a list of a reply, which is an object; `NoCompletionError` where there is none."""
    item = items[0] if isinstance(items, list) and items else None
    if not isinstance(item, Mapping):
        raise NoCompletionError(f"it holds no {name}")
    return item


def token_counts(usage: object, names: Sequence[str]) -> tuple[list[int], bool]:
    """Return the counts of these names, 0 for what is none, and whether all that is there could be read."""
    fields = usage if isinstance(usage, Mapping) else {}
    counts = [token_count(fields.get(name)) for name in names]
    return [count or 0 for count in counts], None not in counts and isinstance(usage, Mapping | None)


def with_repairs(repairs: Sequence[str], reason: object = None, **is_repaired: bool) -> tuple[str, ...]:
    """Return what was repaired in the bytes of a reply, and the names of its repaired fields; `reason` ended it."""
    is_repaired["finish_reason"] = not isinstance(reason, str | None)
    return (*repairs, *(name for name, is_so in is_repaired.items() if is_so))


def token_count(value: object) -> int | None:
    """Return a count of tokens, 0 where there is none; None for what is no count, such as NaN, 10^20 or a list."""
    if value is None:
        return 0
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return int(number) if 0 <= number < _MOST_TOKENS else None

"""Requests and actions of a scripted endpoint, and rules that choose an action."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "Action",
    "Drop",
    "EndpointRequest",
    "Half",
    "Hang",
    "Raw",
    "Say",
    "Script",
    "Status",
    "always",
    "by_rules",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRequest:
    """One chat request as received."""

    number: int
    """Chat requests that came before it."""
    body: dict[str, Any]
    """Of chat completions, into which other protocols are translated."""
    raw: dict[str, Any]
    """As received."""
    headers: dict[str, str]
    """Names in lower case."""
    at: float
    """Monotonic seconds."""

    def _parts(self) -> list[dict[str, Any]]:
        contents = [message.get("content") or "" for message in self.body["messages"]]
        return [
            part
            for content in contents
            for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        ]

    @property
    def text(self) -> str:
        """All words of all messages."""
        return "\n".join(part["text"] for part in self._parts() if part["type"] == "text")

    @property
    def pictures(self) -> list[str]:
        """Data URIs in order."""
        return [part["image_url"]["url"] for part in self._parts() if part["type"] == "image_url"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Answer; words past the request's token limit are cut off."""

    text: str | None
    finish_reason: str = "stop"
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    model: str | None = None
    """Named by the reply; None: that of the request."""
    prompt_tokens: int | None = None
    """None: the words, and 100 for each picture."""
    delay_s: float = 0.0
    on_end: Callable[[], object] = lambda: None
    """Called when the reply ends, before its bytes are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Refuse with an HTTP status."""

    status: int
    message: str = "scripted"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Say nothing until the time is over or the endpoint stops, then close the connection."""

    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection at once."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Send these bytes as the JSON body of a 200."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Half:
    """Begin a 200 of some length, send a part of it, and close."""


Action: TypeAlias = Say | Status | Hang | Drop | Raw | Half
Script: TypeAlias = Callable[[EndpointRequest], "Action | str"]


def always(text: str) -> Script:
    """Return the same reply to all requests."""
    return lambda _: text


def by_rules(rules: Sequence[Mapping[str, Any]]) -> Script:
    """Follow the first rule that fits; an unforeseen request is a 404 that says so.

    A rule may have `when`, text that the prompt holds, and `times`, after which it is passed over. Its action is one of
    `say` (with `finish_reason`), `empty` (null content), `status` (with `message`, `code` and `retry_after`), `hang_s`,
    `drop` and `raw`.
    """
    used: Counter[int] = Counter()
    lock = threading.Lock()

    def script(request: EndpointRequest) -> Action:
        for index, rule in enumerate(rules):
            with lock:
                if rule.get("when", "") not in request.text or used[index] >= rule.get("times", math.inf):
                    continue
                used[index] += 1
            return _action(**{name: value for name, value in rule.items() if name not in ("when", "times")})
        return Status(status=404, message="no rule fits this prompt")

    return script


def _action(*, retry_after: str | None = None, **fields: Any) -> Action:
    if "status" in fields:
        return Status(**fields, headers={} if retry_after is None else {"Retry-After": retry_after})
    if "hang_s" in fields:
        return Hang(seconds=fields["hang_s"])
    if "raw" in fields:
        return Raw(fields["raw"].encode())
    return (
        Drop()
        if fields.pop("drop", False)
        else Say(text=fields.pop("say", None), finish_reason=fields.get("finish_reason", "stop"))
    )

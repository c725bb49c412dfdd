"""Requests and actions of a scripted endpoint, and rules that choose an action."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, TypeAdapter

__all__ = [
    "Action",
    "Drop",
    "EndpointRequest",
    "Half",
    "Hang",
    "Raw",
    "Rule",
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


class Rule(BaseModel, extra="forbid"):
    """The action for a matching request; exactly one is set."""

    when: str = ""
    """Text that the prompt holds; '' fits all."""
    times: int | None = None
    """Followed so often, then passed over."""
    each: bool = False
    """Count `times` for every distinct prompt by itself."""
    delay_s: float = 0.0

    say: str | None = None
    finish_reason: str = "stop"
    random: list[str] | None = None
    """One of these, by a hash of the prompt."""
    lookup: dict[str, str] | None = None
    """Text of the prompt -> answer: the first key that the prompt holds; none: `otherwise`."""
    verdict: dict[str, bool] | None = None
    """Text of the prompt -> a judge's verdict, looked up in the same way."""
    form: Literal["json", "yes_no"] = "json"
    """How a verdict is written."""
    otherwise: str | bool = ""
    empty: bool = False
    """Null content."""
    status: int | None = None
    message: str = "scripted"
    code: str | None = None
    retry_after: str | None = None
    hang_s: float | None = None
    drop: bool = False
    raw: str | None = None

    def act(self, request: EndpointRequest) -> Action:
        if self.status is not None:
            headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return Status(status=self.status, message=self.message, code=self.code, headers=headers)
        if self.hang_s is not None:
            return Hang(seconds=self.hang_s)
        if self.drop:
            return Drop()
        if self.raw is not None:
            return Raw(self.raw.encode())
        return Say(text=self._words(request.text), finish_reason=self.finish_reason, delay_s=self.delay_s)

    def _words(self, prompt: str) -> str | None:
        if self.empty:
            return None
        if self.random is not None:
            digest = hashlib.sha256(prompt.encode("utf-8", "replace")).digest()
            return self.random[int.from_bytes(digest[:8], "big") % len(self.random)]
        if self.lookup is not None:
            return next((say for key, say in self.lookup.items() if key in prompt), str(self.otherwise))
        if self.verdict is not None:
            right = next((is_right for key, is_right in self.verdict.items() if key in prompt), self.otherwise)
            return json.dumps({"correct": bool(right)}) if self.form == "json" else "Yes" if right else "No"
        return self.say


def by_rules(rules: Sequence[Rule | Mapping[str, Any]]) -> Script:
    """Follow the first rule that fits; an unforeseen request is a 404 that says so."""
    validated_rules = TypeAdapter(list[Rule]).validate_python(rules)
    used: Counter[tuple[int, str]] = Counter()
    lock = threading.Lock()

    def script(request: EndpointRequest) -> Action:
        for index, rule in enumerate(validated_rules):
            if rule.when not in request.text:
                continue
            with lock:
                key = (index, request.text if rule.each else "")
                if rule.times is not None and used[key] >= rule.times:
                    continue
                used[key] += 1
            return rule.act(request)
        return Status(status=404, message="no rule fits this prompt")

    return script

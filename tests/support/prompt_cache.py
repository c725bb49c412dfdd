"""A provider that keeps prefixes of prompts: 1,024 tokens or more in steps of 128, once the first reply ended."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.support.endpoint_script import Action, EndpointRequest, Say, Script

__all__ = ["CachingProvider", "Usage", "tokens_of"]

LEAST, STEP, LIFE_S, PICTURE_TOKENS = 1024, 128, 300.0, 100


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answered request."""

    prompt: int
    cached: int
    shared: str
    """What names its first picture; '' without one."""
    pictures: int


class CachingProvider:
    """A script that answers as another one, and reports how many tokens of a prompt it had kept."""

    def __init__(self, script: Script, clock: Callable[[], float] = time.monotonic) -> None:
        self._script, self._clock = script, clock
        self._kept: dict[bytes, float] = {}
        self._lock = threading.Lock()
        self.usage: list[Usage] = []

    def __call__(self, request: EndpointRequest) -> Action:
        action = self._script(request)
        say = Say(text=action) if isinstance(action, str) else action
        if not isinstance(say, Say):
            return say
        tokens = tokens_of(request.body["messages"])
        prefixes = list(_prefixes(tokens))
        with self._lock:
            now = self._clock()
            cached = max((size for size, name in prefixes if self._kept.get(name, 0.0) > now), default=0)
            pictures = request.pictures
            shared = hashlib.sha256("".join(pictures).encode()).hexdigest() if pictures else ""
            self.usage.append(Usage(len(tokens), cached, shared, len(pictures)))
        keep = partial(self._keep, [name for _, name in prefixes])
        return replace(say, prompt_tokens=len(tokens), cached_tokens=cached, on_end=keep)

    def _keep(self, names: Sequence[bytes]) -> None:
        with self._lock:
            self._kept.update(dict.fromkeys(names, self._clock() + LIFE_S))

    @property
    def cached(self) -> int:
        """Tokens read from the cache."""
        return sum(usage.cached for usage in self.usage)

    @property
    def shareable(self) -> int:
        """Tokens of pictures that another request had before, in steps of 128, where they are enough."""
        total, seen = 0, set[str]()
        for usage in self.usage:
            size = usage.pictures * PICTURE_TOKENS // STEP * STEP
            total += size if usage.shared in seen and size >= LEAST else 0
            seen.add(usage.shared)
        return total

    def bill(self, cached_share: float) -> float:
        """Prompt tokens that are paid, where a cached one costs this share of another."""
        return sum(usage.prompt - usage.cached * (1 - cached_share) for usage in self.usage)


def tokens_of(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return 100 tokens for a picture, and one for a word, in the order of the messages."""
    tokens = []
    for message in messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                tokens += part["text"].split()
            else:
                name = hashlib.sha256(part["image_url"]["url"].encode()).hexdigest()
                tokens += [f"{name} {number}" for number in range(PICTURE_TOKENS)]
    return tokens


def _prefixes(tokens: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yield size and hash of each prefix that may be kept."""
    digest = hashlib.sha256()
    for number, token in enumerate(tokens, 1):
        digest.update(token.encode("utf-8", "replace") + b"\0")
        if number >= LEAST and number % STEP == 0:
            yield number, digest.digest()

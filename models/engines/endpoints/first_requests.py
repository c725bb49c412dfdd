"""Leaders of media groups: one call is answered, so that the provider keeps its prefix, before the others are sent."""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from models.engines.endpoints.budget import TOKENS_PER_PICTURE
from models.entry_fields import EndpointSettings
from models.messages import Answer, Call, Failure, Media

_KEPT_S: Final = 240.0  # providers keep a prefix for five minutes after its last use, or longer
_MOST_DELAY: Final = 0.1  # of the run's time, where no provider is known to keep prefixes
_MOST_MISSES: Final = 2  # groups of a size without a cached token, after which a first request must be affordable
_MAX_FIRST_REQUESTS: Final = 3  # calls of a group that fail one after another; then the others wait no longer
_PREFIXES: Final = 10_000  # prefixes whose last use is remembered


@dataclass(frozen=True, slots=True)
class Prefix:
    """What the calls of a media group begin with: the turns before the first medium, and that medium."""

    content: Hashable
    pictures: int

    @property
    def key(self) -> str:
        """The hash of the group: of `prompt_cache_key`."""
        return hashlib.sha256(repr(self.content).encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @property
    def size(self) -> int:
        """The size class of the prefix: providers keep only long ones."""
        return (self.pictures * TOKENS_PER_PICTURE).bit_length()


def shared_prefix(call: Call, pictures: Callable[[Media], int]) -> Prefix | None:
    """Return what a call shares with its media group; None without media, or with text before them in their turn."""
    for number, turn in enumerate(call.turns):
        medium = next((part for part in turn.parts if isinstance(part, Media)), None)
        if medium is not None:
            if turn.parts[0] != medium:
                return None
            return Prefix((call.turns[:number], turn.role, medium), pictures(medium))
    return None


class PrefixCache:
    """What is known of a provider's cache: which prefixes it may hold, and whether waiting for a first request pays.

    A first request always pays if it delays nothing, and if tokens of a prefix of this size were cached before. Other
    sizes are tried twice if the provider `caches`, or if the entry has a price for cached tokens. Else all waits for
    first requests may take at most a tenth of the run, in rounds of `concurrency` calls: a provider that caches nothing
    must not slow a run down.
    """

    def __init__(self, settings: EndpointSettings, clock: Callable[[], float], *, caches: bool = False) -> None:
        self._is_on = settings.prompt_cache == "auto"
        self._is_known = caches or settings.reads_cache
        self._concurrency, self._clock = settings.concurrency, clock
        self._used: dict[Hashable, float] = {}
        self._caching: set[int] = set()
        self._misses: Counter[int] = Counter()
        self._answers = self._waits = 0

    def queue(self, calls: Sequence[Call], prefixes: Sequence[Prefix | None]) -> "PrefixQueue":
        """Return the calls in the order in which they may be sent."""
        groups: dict[Prefix, list[Call]] = {}
        for call, prefix in zip(calls, prefixes, strict=True):
            if prefix is not None:
                groups.setdefault(prefix, []).append(call)
        cold = {prefix for prefix, members in groups.items() if len(members) > 1 and not self._is_warm(prefix)}
        at_once = len(calls) - sum(len(groups[prefix]) - 1 for prefix in cold)
        delays = at_once < min(self._concurrency, len(calls))
        led = {prefix for prefix in cold if self._is_on and (not delays or self._may_lead(prefix, len(calls)))}
        self._waits += delays and bool(led)
        shared = {prefix for prefix, members in groups.items() if len(members) > 1 or self._is_warm(prefix)}
        return PrefixQueue(zip(calls, prefixes, strict=True), led, shared, self.record_group)

    def record(self, prefix: Prefix | None, answer: Answer) -> None:
        """Note an answer: the provider may hold its prefix from now on."""
        self._answers += 1
        if prefix is None:
            return
        if answer.cached_tokens:
            self._caching.add(prefix.size)
        self._used.pop(prefix.content, None)
        self._used[prefix.content] = self._clock()
        if len(self._used) > _PREFIXES:
            del self._used[next(iter(self._used))]

    def record_group(self, prefix: Prefix) -> None:
        """Note the answer to a call after its first request: a miss if no token of its size was cached so far."""
        if prefix.size not in self._caching:
            self._misses[prefix.size] += 1

    def _is_warm(self, prefix: Prefix) -> bool:
        used = self._used.get(prefix.content)
        return used is not None and self._clock() - used < _KEPT_S

    def _may_lead(self, prefix: Prefix, calls: int) -> bool:
        if prefix.size in self._caching or (self._is_known and self._misses[prefix.size] < _MOST_MISSES):
            return True
        rounds = (self._answers + calls) / self._concurrency
        return self._waits + 1 <= _MOST_DELAY * rounds


@dataclass(slots=True)
class _Group:
    waiting: deque[Call] = field(default_factory=deque)
    first_request: str = ""
    first_requests: int = 0
    is_open: bool = False
    has_follower: bool = False


class PrefixQueue:
    """Hands out calls: first requests and ungrouped calls at once, the rest of a group after its first request.

    If a first request fails, the next call of its group takes its place. After three failures, or one that took longer
    than any other call, the rest of the group is sent without waiting.
    """

    def __init__(
        self,
        calls: Iterable[tuple[Call, Prefix | None]],
        led: set[Prefix],
        shared: set[Prefix],
        on_follower: Callable[[Prefix], None],
    ) -> None:
        self.shared = frozenset(shared)  # prefixes of several calls: one that nobody reads again is not worth keeping
        self._groups = {prefix: _Group() for prefix in led}
        self._on_follower = on_follower
        self._ready: deque[tuple[Call, Prefix | None]] = deque()
        self._changed = asyncio.Event()
        others: list[tuple[Call, Prefix | None]] = []
        for call, prefix in calls:
            if prefix not in self._groups or prefix is None:
                others.append((call, prefix))
            elif not self._groups[prefix].first_request:
                self._lead(prefix, call)
            else:
                self._groups[prefix].waiting.append(call)
        self._ready.extend(others)

    async def take(self) -> tuple[Call, Prefix | None] | None:
        """Return a call that may be sent, once there is one; None when all were taken."""
        while not self._ready:
            if not any(group.waiting for group in self._groups.values()):
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._ready.popleft()

    def end_attempt(self, call: Call, prefix: Prefix | None, outcome: Answer | Failure | None = None) -> None:
        """Let the others of a group follow its first request's answer, or one of them lead in place of a failed one.

        Without an outcome the call was not sent.
        """
        is_answered = isinstance(outcome, Answer)
        group = self._groups.get(prefix) if prefix is not None else None
        if group is None or prefix is None:
            return
        if group.first_request != call.call_id:
            if group.is_open and is_answered and not group.has_follower:
                group.has_follower = True
                self._on_follower(prefix)
            return
        group.first_request = ""
        has_hung = isinstance(outcome, Failure) and outcome.type == "timeout"
        if is_answered or has_hung or group.first_requests >= _MAX_FIRST_REQUESTS or not group.waiting:
            group.is_open = is_answered
            self._ready.extendleft((follower, prefix) for follower in reversed(group.waiting))
            group.waiting.clear()
        else:
            self._lead(prefix, group.waiting.popleft(), at_once=True)
        self._changed.set()

    def _lead(self, prefix: Prefix, call: Call, *, at_once: bool = False) -> None:
        group = self._groups[prefix]
        group.first_request, group.first_requests = call.call_id, group.first_requests + 1
        if at_once:
            self._ready.appendleft((call, prefix))
        else:
            self._ready.append((call, prefix))

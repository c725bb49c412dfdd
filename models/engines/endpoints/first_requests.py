"""Leaders of media groups: one call is answered, so that the provider keeps its prefix, before the others are sent."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
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
    """Return what a call shares with its media group; None without media. In a turn media come before the text."""
    for number, turn in enumerate(call.turns):
        medium = next((part for part in turn.parts if isinstance(part, Media)), None)
        if medium is not None:
            return Prefix((call.turns[:number], turn.role, medium), pictures(medium))
    return None


class Group:
    """The open calls of one prefix that nobody has answered yet: one at a time has its turn, until one is answered.

    If it fails, the next call takes its place. After three failures, or one that took longer than any other call, all
    are sent.
    """

    def __init__(self, on_follower: Callable[[], None]) -> None:
        self._on_follower = on_follower
        self._turn = asyncio.Lock()
        self._failures = 0
        self._is_open = self._is_answered = self._has_follower = False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until an attempt may be sent, and hold the others back during it if it is a first one."""
        await self._turn.acquire()
        if self._is_open:
            self._turn.release()
            yield
            return
        try:
            yield
        finally:
            self._turn.release()

    def record(self, outcome: Answer | Failure) -> None:
        """Note the outcome of an attempt, during its turn."""
        is_answer = isinstance(outcome, Answer)
        if self._is_open:
            if is_answer and self._is_answered and not self._has_follower:
                self._has_follower = True
                self._on_follower()
            return
        self._failures += not is_answer
        has_hung = isinstance(outcome, Failure) and outcome.type == "timeout"
        self._is_answered = is_answer
        self._is_open = is_answer or has_hung or self._failures >= _MAX_FIRST_REQUESTS


class PrefixCache:
    """What is known of a provider's cache: which prefixes it may hold, and whether waiting for a first request pays.

    A first request always pays if it delays nothing, and if tokens of a prefix of this size were cached before. Other
    sizes are tried twice if the provider `caches`, or if the entry has a price for cached tokens. Else all waits for
    first requests may take at most a tenth of the run, in rounds of as many calls as are in flight: a provider that
    caches nothing must not slow a run down.
    """

    def __init__(self, settings: EndpointSettings, clock: Callable[[], float], *, caches: bool = False) -> None:
        self._is_on = settings.prompt_cache == "auto"
        self._is_known = caches or settings.reads_cache
        self._clock = clock
        self._used: dict[Hashable, float] = {}
        self._caching: set[int] = set()
        self._misses: Counter[int] = Counter()
        self._answers = self._waits = 0
        self._open: Counter[Prefix] = Counter()  # calls that are not answered yet
        self._groups: dict[Prefix, Group] = {}

    def add(self, prefixes: Sequence[Prefix | None], *, waiting: int = 0, width: int = 1) -> list[int]:
        """Add calls by their prefixes; return the order in which they are to be sent: first requests in front.

        Args:
            prefixes: of the calls; None for a call without media.
            waiting: calls of other units that could be sent now.
            width: calls that may be in flight.
        """
        counts = Counter(prefix for prefix in prefixes if prefix is not None)
        self._open.update(counts)
        cold = {
            prefix
            for prefix in counts
            if self._open[prefix] > 1 and prefix not in self._groups and not self._is_warm(prefix)
        }
        at_once = waiting + len(prefixes) - sum(counts[prefix] - 1 for prefix in cold)
        delays = at_once < min(width, len(prefixes))
        led = {
            prefix for prefix in cold if self._is_on and (not delays or self._may_lead(prefix, len(prefixes), width))
        }
        self._waits += delays and bool(led)
        firsts: dict[Prefix, int] = {}
        for number, prefix in enumerate(prefixes):
            if prefix in led and prefix is not None:
                firsts.setdefault(prefix, number)
        for prefix in led:
            self._groups[prefix] = Group(partial(self._record_group, prefix))
        return [*firsts.values(), *(number for number in range(len(prefixes)) if number not in {*firsts.values()})]

    def group(self, prefix: Prefix | None) -> Group | None:
        """Return the group that a call waits for; None where it need not wait."""
        return self._groups.get(prefix) if prefix is not None else None

    def is_shared(self, prefix: Prefix | None) -> bool:
        """Return whether others read the prefix too: one that nobody reads again is not worth keeping."""
        return prefix is not None and (self._open[prefix] > 1 or prefix in self._groups or self._is_warm(prefix))

    def remove(self, prefixes: Iterable[Prefix | None]) -> None:
        """Remove calls that have ended."""
        for prefix in prefixes:
            if prefix is None:
                continue
            self._open[prefix] -= 1
            if self._open[prefix] <= 0:
                del self._open[prefix]
                self._groups.pop(prefix, None)

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

    def _record_group(self, prefix: Prefix) -> None:
        """Note the answer to a call after its first request: a miss if no token of its size was cached so far."""
        if prefix.size not in self._caching:
            self._misses[prefix.size] += 1

    def _is_warm(self, prefix: Prefix) -> bool:
        used = self._used.get(prefix.content)
        return used is not None and self._clock() - used < _KEPT_S

    def _may_lead(self, prefix: Prefix, calls: int, width: int) -> bool:
        if prefix.size in self._caching or (self._is_known and self._misses[prefix.size] < _MOST_MISSES):
            return True
        rounds = (self._answers + calls) / width
        return self._waits + 1 <= _MOST_DELAY * rounds

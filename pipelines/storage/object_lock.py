"""The lock of an output in an object store: written on conditions, beaten by its holder, watched by who finds one."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from pipelines.storage.errors import StoreError
from pipelines.storage.lock_owner import LOCK, FencedError, LockedError, LockOwner, check_lock, locked
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

SETTLE_S = 5.0
"""Where conditions are not heeded: how long a new lock must stand, so that of several writers the last one is seen."""
WRITES = 3
"""Tries at a beat whose answer was lost, so that the version known is not the one that is there."""
_NO_VERSION = '"00000000000000000000000000000000"'


@contextlib.contextmanager
def held_in_store(out: Store, me: LockOwner, silent_s: float, beat_s: float) -> Iterator[None]:
    """Hold an output in an object store; see `lock.held`."""
    _take(out, me, silent_s)
    beats = Heartbeat(out, me, beat_s)
    beats.start()
    try:
        yield
    except KeyboardInterrupt:
        if beats.lost:
            raise LockedError(f"{out.uri} was taken over by another run while this one stood still") from None
        raise
    finally:
        beats.stop.set()
        beats.join()
        with contextlib.suppress(StoreError, FencedError):  # an absent store keeps a lock that falls silent
            check_lock(out, me.run)
            out.delete(LOCK)


def _take(out: Store, me: LockOwner, silent_s: float) -> None:
    """Write the lock, over a dead one where there is one."""
    version = None
    while version is None:
        try:
            content, seen = out.get_version(LOCK)
        except FileNotFoundError:
            version = out.put_if(LOCK, me.to_json(), None)
            continue
        holder = LockOwner.from_json(content)
        if holder and holder.run == me.run:
            break  # a write of ours whose answer was lost
        if not (holder and holder.dead_here()):
            _watch(out, holder, seen, silent_s)
        version = out.put_if(LOCK, me.to_json(), seen)
        if version:
            log.warning("%s: took over the lock of a dead %s", out.uri, holder.told() if holder else "run")
    _verify_conditional_writes(out, me)


def _verify_conditional_writes(out: Store, me: LockOwner) -> None:
    """Return once a lock that was just written counts; where the store heeds no conditions it must stand for a while.

    Raises:
        LockedError: another run wrote over it.
    """
    if all(out.put_if(LOCK, me.to_json(), wrong) is None for wrong in (None, _NO_VERSION)):
        return
    log.warning(
        "%s: this store heeds no conditions on writes (If-None-Match, If-Match); whether another run writes there is "
        "looked for, which two that start within the same seconds may both pass",
        out.uri,
    )
    time.sleep(SETTLE_S)
    holder = LockOwner.from_json(out.get(LOCK))
    if holder is None or holder.run != me.run:
        raise locked(out, holder)


def _watch(out: Store, holder: LockOwner | None, seen: str, silent_s: float) -> None:
    """Return when a lock did not change for so long.

    Raises:
        LockedError: it beats.
    """
    who = holder.told() if holder else "a run that cannot be read"
    log.warning("%s is locked by %s; looking for %.0f s whether it lives", out.uri, who, silent_s)
    until = time.monotonic() + silent_s
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        try:
            content, now = out.get_version(LOCK)
        except FileNotFoundError:
            return
        if now != seen:
            raise locked(out, LockOwner.from_json(content))


class Heartbeat(threading.Thread):
    """Renews a lock until it is told to stop, or until the lock is another run's; then the run is interrupted."""

    def __init__(self, out: Store, me: LockOwner, every_s: float) -> None:
        super().__init__(daemon=True, name="vlmsweep-lock")
        self._out, self._me, self._every_s = out, me, every_s
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.stop = threading.Event()
        self.lost = False

    def run(self) -> None:
        """Beat."""
        beat, told = 0, False
        while not self.stop.wait(self._every_s):
            beat += 1
            try:
                held = self._renewed(replace(self._me, beat=beat))
            except Exception as error:  # noqa: BLE001  whatever it is: who stops beating is taken for dead
                if not told:
                    log.warning("the lock could not be renewed (%s); trying again", error)
                told = True
                continue
            told = False
            if not held:
                log.error("%s was taken over by another run; this one ends", self._out.uri)
                self.lost = True
                if self._interrupts:
                    _interrupt_main_thread()
                return

    def _renewed(self, me: LockOwner) -> bool:
        """Whether the lock is ours and was written again; looked at first, for stores that heed no conditions."""
        for _ in range(WRITES):
            content, seen = self._out.get_version(LOCK)
            holder = LockOwner.from_json(content)
            if holder is None or holder.run != me.run:
                return False
            if self._out.put_if(LOCK, me.to_json(), seen):
                return True
        raise StoreError(f"{self._out.uri}/{LOCK}: nobody else writes it, and it cannot be written")


def _interrupt_main_thread() -> None:
    """As Ctrl-C would; by SIGTERM where that is handled, since a shell's background processes ignore the other."""
    number = signal.SIGTERM if callable(signal.getsignal(signal.SIGTERM)) else signal.SIGINT
    signal.pthread_kill(threading.main_thread().ident or 0, number)

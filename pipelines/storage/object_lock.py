"""The lock of an output in an object store: written conditionally and renewed by a heartbeat."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from pipelines.errors import FencedError, LockedError, StoreError
from pipelines.storage.lock_owner import LOCK, LockOwner, check_is_lock, check_lock, locked_error
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

SETTLE_S = 5.0  # how long a new lock must stay unchanged in a store without conditional writes
RENEWAL_ATTEMPTS = 3  # a heartbeat whose response was lost leaves the known version outdated
_NO_VERSION = '"00000000000000000000000000000000"'


@contextlib.contextmanager
def object_lock(out: Store, owner: LockOwner, stale_after_s: float, heartbeat_s: float, flag: str) -> Iterator[None]:
    """Lock an output in an object store; see `lock.run_lock`."""
    try:
        version = _acquire(out, owner, stale_after_s, flag)
    except LockedError:
        raise
    except StoreError as error:  # the first write of a run: what is refused here is refused in the whole output
        raise StoreError(str(error).replace(f"/{LOCK}:", ":"), is_transient=error.is_transient) from error
    heartbeat = Heartbeat(out, owner, heartbeat_s, version)
    heartbeat.start()
    try:
        yield
    except KeyboardInterrupt:
        if heartbeat.lost:
            raise LockedError(f"{out.uri} was taken over by another run while this one was suspended") from None
        raise
    finally:
        heartbeat.stop.set()
        heartbeat.join()
        with contextlib.suppress(StoreError, FencedError):  # an unreachable store keeps a lock that goes stale
            check_lock(out, owner.run)
            out.delete(LOCK)


def _acquire(out: Store, owner: LockOwner, stale_after_s: float, flag: str) -> str:
    """Write the lock; return its version, or '' in a store that ignores conditions on writes."""
    version = None
    while version is None:
        try:
            content, current_version = out.get_version(LOCK)
        except FileNotFoundError:
            version = out.put_if(LOCK, owner.to_json(), None)
            continue
        current = LockOwner.from_json(content)
        if current and current.run == owner.run:
            version = current_version  # our own write, whose response was lost
            break
        check_is_lock(out, content, flag)
        if not (current and current.is_dead_local_process()):
            _wait_until_stale(out, current, current_version, stale_after_s, flag)
        version = out.put_if(LOCK, owner.to_json(), current_version)
        if version:
            log.warning("%s: took over the lock of a dead %s", out.uri, current.describe() if current else "run")
    return version if _supports_conditions(out, owner, flag) else ""


def _supports_conditions(out: Store, owner: LockOwner, flag: str) -> bool:
    """Return whether the store does, once a new lock counts: at once, or after some seconds in one that does not."""
    if all(out.put_if(LOCK, owner.to_json(), wrong) is None for wrong in (None, _NO_VERSION)):
        return True
    log.warning(
        "%s: this store ignores conditions on writes (If-None-Match, If-Match); a concurrent run is detected, but two "
        "runs that start within the same seconds may both continue",
        out.uri,
    )
    time.sleep(SETTLE_S)
    current = LockOwner.from_json(out.get(LOCK))
    if current is None or current.run != owner.run:
        raise locked_error(out, current, flag)
    return False


def _wait_until_stale(out: Store, owner: LockOwner | None, version: str, stale_after_s: float, flag: str) -> None:
    """Return when a lock did not change for `stale_after_s`; raise LockedError on a heartbeat."""
    run = owner.describe() if owner else "an unreadable run"
    log.warning("%s is locked by %s; checking for %.0f s whether it is alive", out.uri, run, stale_after_s)
    deadline = time.monotonic() + stale_after_s
    while (remaining := deadline - time.monotonic()) > 0:
        time.sleep(min(remaining, 1.0))
        try:
            content, current_version = out.get_version(LOCK)
        except FileNotFoundError:
            return
        if current_version != version:
            raise locked_error(out, LockOwner.from_json(content), flag)


class Heartbeat(threading.Thread):
    """Renews a lock until it is stopped or the lock is lost; a lost lock interrupts the run."""

    def __init__(self, out: Store, owner: LockOwner, interval_s: float, version: str = "") -> None:
        """Renew from a `version`, or read the lock before each write if the store ignores conditions: ''."""
        super().__init__(daemon=True, name="vlmsweep-lock")
        self._out, self._owner, self._interval_s = out, owner, interval_s
        self._supports_conditions, self._version = bool(version), version
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.stop = threading.Event()
        self.lost = False

    def run(self) -> None:
        """Renew the lock at each interval."""
        beat, warned = 0, False
        while not self.stop.wait(self._interval_s):
            beat += 1
            try:
                renewed = self._renew(replace(self._owner, beat=beat))
            except Exception as error:  # noqa: BLE001  whatever it is: without heartbeats the run counts as dead
                if not warned:
                    log.warning("the lock could not be renewed (%s); trying again", error)
                warned = True
                continue
            warned = False
            if not renewed:
                log.error("%s was taken over by another run; this run ends", self._out.uri)
                self.lost = True
                if self._interrupts:
                    _interrupt_main_thread()
                return

    def _renew(self, owner: LockOwner) -> bool:
        """Write the lock again if it is ours; it is read where its version is not known to be our last write's."""
        for _ in range(RENEWAL_ATTEMPTS):
            if not self._version:
                content, self._version = self._out.get_version(LOCK)
                current = LockOwner.from_json(content)
                if current is None or current.run != owner.run:
                    return False
            version, self._version = self._version, ""  # unknown until the response
            written = self._out.put_if(LOCK, owner.to_json(), version)
            if written:
                self._version = written if self._supports_conditions else ""
                return True
        raise StoreError(f"{self._out.uri}/{LOCK}: it is not writable, though no other run writes it")


def _interrupt_main_thread() -> None:
    """Act like Ctrl-C, by SIGTERM where that is handled: a shell's background processes ignore SIGINT."""
    number = signal.SIGTERM if callable(signal.getsignal(signal.SIGTERM)) else signal.SIGINT
    signal.pthread_kill(threading.main_thread().ident or 0, number)

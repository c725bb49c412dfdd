"""One run at a time writes an output: a lock that a dead run cannot keep, and that fences its late workers.

On a disk the lock is the kernel's (`flock` on `lock.json`), gone with the process that held it. In an object store it
is an object written only on conditions, and beaten by its holder; who finds one watches whether it still beats, so that
no clock has to agree with another. Workers name the run they work for when they commit, and are refused once it is not
the holder any more (`check_fence`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pipelines.store import Store, StoreError, is_remote

__all__ = ["LOCK", "FencedError", "LockedError", "check_fence", "held"]

log = logging.getLogger(__name__)

LOCK = "lock.json"
BEAT_S = 10.0
SILENT_S = 35.0
"""A holder that has not beaten for so long, by the watcher's own clock, is dead."""


class LockedError(ValueError):
    """Another run writes this output. The message names it."""


class FencedError(RuntimeError):
    """A worker of a run that does not hold the output any more; what it made is not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """Who holds the lock."""

    run: str
    """Random, so that no two runs are taken for one another."""
    host: str
    pid: int
    process_start: str
    """Start of the process in clock ticks since boot, with the boot's id: tells a reused process id."""
    since: str
    beat: int = 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode()

    @classmethod
    def from_json(cls, content: bytes) -> _Holder | None:
        """None for what is no lock of ours, such as a half-written one of another version."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def told(self) -> str:
        return f"run {self.run[:8]} (process {self.pid} on {self.host}, since {self.since})"

    def dead_here(self) -> bool:
        """Whether it was a process of this machine that is no more."""
        return self.host == socket.gethostname() and _process_start(self.pid) != self.process_start


@contextlib.contextmanager
def held(out: Store, *, silent_s: float = SILENT_S, beat_s: float = BEAT_S) -> Iterator[str]:
    """Hold an output; the value is the run's name for `check_fence`.

    Args:
        out: the output.
        silent_s: seconds after which a lock in an object store that does not beat is taken over.
        beat_s: seconds between beats.

    Raises:
        LockedError: another run holds it.
        StoreError: the store failed.
    """
    me = _Holder(
        run=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with _held_remotely(out, me, silent_s, beat_s) if is_remote(out.uri) else _held_locally(out, me):
        yield me.run


def check_fence(out: Store, run: str) -> None:
    """Refuse a worker whose run does not hold the output any more.

    Args:
        out: the output.
        run: the value of `held`; '' when nothing was locked.

    Raises:
        FencedError: another run has taken it over, or the lock was removed.
    """
    if not run:
        return
    try:
        holder = _Holder.from_json(out.get(LOCK))
    except FileNotFoundError:
        holder = None
    if holder is None or holder.run != run:
        now = holder.told() if holder else "nobody"
        raise FencedError(f"{out.uri} is held by {now} and not by run {run[:8]} any more; nothing is written")


@contextlib.contextmanager
def _held_locally(out: Store, me: _Holder) -> Iterator[None]:
    path = Path(out.uri, LOCK)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _flocked(path, out)
    try:
        file.write(me.to_json())
        file.flush()
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: nobody can have taken it
        file.close()


def _flocked(path: Path, out: Store) -> IO[bytes]:
    """The open, locked, empty lock file; its name and its content are one file for all who look."""
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = _Holder.from_json(file.read())
            file.close()
            raise _locked(out, holder) from None
        except OSError as error:  # a network disk without locks
            log.warning("%s: no lock can be had (%s); see that no other run writes it", path, error)
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            file.truncate(0)
            return file
        file.close()  # its holder removed it between our opening and our locking


@contextlib.contextmanager
def _held_remotely(out: Store, me: _Holder, silent_s: float, beat_s: float) -> Iterator[None]:
    version = _taken(out, me, silent_s)
    stop = threading.Event()
    beats = threading.Thread(target=_beat, args=(out, me, version, stop, beat_s), daemon=True, name="vlmsweep-lock")
    beats.start()
    try:
        yield
    finally:
        stop.set()
        beats.join()
        with contextlib.suppress(StoreError, FencedError):  # an absent store keeps a lock that falls silent
            check_fence(out, me.run)
            out.delete(LOCK)


def _taken(out: Store, me: _Holder, silent_s: float) -> str:
    """Write the lock, over a dead one where there is one; its version."""
    version = out.put_if(LOCK, me.to_json(), None)
    while version is None:
        try:
            content, seen = out.get_version(LOCK)
        except FileNotFoundError:
            version = out.put_if(LOCK, me.to_json(), None)
            continue
        holder = _Holder.from_json(content)
        if holder and holder.run == me.run:
            return seen  # a write of ours whose answer was lost
        if not (holder and holder.dead_here()):
            _watch(out, holder, seen, silent_s)
        version = out.put_if(LOCK, me.to_json(), seen)
        if version:
            log.warning("%s: took over the lock of a dead %s", out.uri, holder.told() if holder else "run")
    return version


def _watch(out: Store, holder: _Holder | None, seen: str, silent_s: float) -> None:
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
            raise _locked(out, _Holder.from_json(content))


def _beat(out: Store, me: _Holder, version: str, stop: threading.Event, beat_s: float) -> None:
    beat, told = 0, False
    while not stop.wait(beat_s):
        beat += 1
        try:
            renewed = out.put_if(LOCK, _Holder(**{**asdict(me), "beat": beat}).to_json(), version)
            if renewed is None:
                content, seen = out.get_version(LOCK)
                holder = _Holder.from_json(content)
                renewed = seen if holder and holder.run == me.run else None
        except Exception as error:  # noqa: BLE001  whatever it is: who stops beating is taken for dead
            if not told:
                log.warning("the lock could not be renewed (%s); trying again", error)
            told = True
            continue
        told = False
        if renewed is None:
            log.error("%s was taken over by another run; this one writes nothing more", out.uri)
            return
        version = renewed


def _locked(out: Store, holder: _Holder | None) -> LockedError:
    who = holder.told() if holder else "another run"
    return LockedError(
        f"{out.uri} is being written by {who}; wait for it (`vlmsweep status {out.uri}` shows how far it is), stop it, "
        "or name another --out"
    )


def _process_start(pid: int) -> str:
    """When a process of this machine began; '' when there is none, or where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{boot}:{stat.rpartition(')')[2].split()[19]}"

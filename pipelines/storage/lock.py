"""The run lock: one run at a time writes an output, and workers of a dead run are refused.

On a disk the lock is the kernel's (`flock` on `lock.json`) and ends with its process. In an object store it is an
object written conditionally and renewed by its owner's heartbeat; a second run watches for heartbeats, so that clocks
need not agree. In a store without conditional writes a lock counts once it has stayed unchanged for some seconds.
Workers commit with the lock's token and are refused when it is outdated (`check_lock`); a run that loses its lock ends.
"""

import contextlib
import fcntl
import json
import logging
import os
import re
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Self

from models.guards.regular_files import NotRegularError, open_regular
from models.scratch import boot_id, process_start
from pipelines.errors import FencedError, LockedError, StoreError
from pipelines.storage.backend import is_remote
from pipelines.storage.errors import describe
from pipelines.storage.local_store import open_locked
from pipelines.storage.store import Store

LOCK = "lock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """The process that holds the lock, as written into `lock.json`."""

    run: str  # random id of the run, the token
    host: str
    pid: int
    process_start: str  # boot id and start in clock ticks since boot: reveals a reused process id
    since: str
    pids: str = ""  # namespace of `pid`: containers of one machine have their own
    beat: int = 0  # number of the heartbeat

    @classmethod
    def new(cls) -> Self:
        """Describe a new run in this process."""
        return cls(
            run=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=os.getpid(),
            process_start=_process_start(os.getpid()),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            pids=_pid_namespace(),
        )

    def to_json(self) -> bytes:
        """Return the content of the lock file."""
        return json.dumps(asdict(self), indent=2).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self | None:
        """Parse the content of a lock file; return None if it is none, such as a half-written one."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def describe(self) -> str:
        """Return run, process, host and time for a message."""
        return f"run {self.run[:8]} (process {self.pid} on {self.host}, since {self.since})"

    def is_dead_local_process(self) -> bool:
        """Return whether it was a process of this machine that has ended; several machines may share a name."""
        boot = self.process_start.partition(":")[0]
        is_local = (self.host, boot, self.pids) == (socket.gethostname(), boot_id(), _pid_namespace())
        return is_local and bool(boot) and _process_start(self.pid) != self.process_start


def check_lock(out: Store, token: str) -> None:
    """Raise FencedError if the run of a token ('' for an unlocked output) no longer owns the lock of its output."""
    if not token:
        return
    try:
        owner = LockOwner.from_json(out.get(LOCK))
    except FileNotFoundError:
        owner = None
    if owner is None or owner.run != token:
        current = f"locked by {owner.describe()}" if owner else "unlocked"
        raise FencedError(f"{out.uri} is {current}; run {token[:8]} no longer owns it and writes nothing")


def check_is_lock(out: Store, content: bytes, flag: str) -> None:
    """Raise LockedError for a file of that name that no run wrote, wholly or in part: it is a user's."""
    if LockOwner.from_json(content) is None and not _CUT_OFF.fullmatch(content):
        raise not_a_lock(out, flag)


_CUT_OFF = re.compile(rb'\{\n  "run": "[0-9a-f]*(?:",\n  "host": .*)?', re.DOTALL)


def not_a_lock(out: Store, flag: str) -> LockedError:
    """Return the error for a file, link or folder of the user under the lock's name."""
    return LockedError(f"{out.uri}/{LOCK} is not a lock of vlmsweep; move it away, or choose another {flag}")


def locked_error(out: Store, owner: LockOwner | None, flag: str) -> LockedError:
    """Return the error for a place that another run writes."""
    run = owner.describe() if owner else "another run"
    progress = f" (`vlmsweep status {out.uri}` shows its progress)" if flag == "--out" else ""
    return LockedError(f"{out.uri} is being written by {run}; wait for it{progress}, stop it, or choose another {flag}")


def _process_start(pid: int) -> str:
    """Return boot id and start time of a local process; '' if it does not exist or /proc is unavailable."""
    start = process_start(pid)
    return start and f"{boot_id()}:{start}"


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


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


HEARTBEAT_S = 10.0
STALE_AFTER_S = 35.0  # an owner without a heartbeat for so long is dead, by the observer's clock


@contextlib.contextmanager
def run_lock(
    out: Store, *, flag: str = "--out", stale_after_s: float = STALE_AFTER_S, heartbeat_s: float = HEARTBEAT_S
) -> Iterator[str]:
    """Lock a place that a `flag` names; yield the token for `check_lock`.

    LockedError: another run holds it, or took it over, or a file of the user has the lock's name.
    """
    owner = LockOwner.new()
    with (
        object_lock(out, owner, stale_after_s, heartbeat_s, flag)
        if is_remote(out.uri)
        else _file_lock(out, owner, flag)
    ):
        yield owner.run


@contextlib.contextmanager
def exclusive(place: Store, flag: str, *, below: bool = True) -> Iterator[None]:
    """Lock a place that one command writes; unfinished files of killed writers there, and `below`, are removed."""
    is_new = not is_remote(place.uri) and not Path(place.uri).exists()
    try:
        with run_lock(place, flag=flag):
            place.remove_temporary(below=below)
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it holds something, or was never made
                Path(place.uri).rmdir()


def owns_lock(out: Store, token: str) -> bool:
    """Return whether a run still owns the lock of its output."""
    try:
        check_lock(out, token)
    except FencedError:
        return False
    return True


@contextlib.contextmanager
def _file_lock(out: Store, owner: LockOwner, flag: str) -> Iterator[None]:
    path = Path(out.uri, LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file: IO[bytes] | None = None
        while file is None:
            _remove_ended(path, out, flag)  # before: it names the run, also in a folder that is not writable
            file = _new_lock(path, owner)
    except OSError as error:
        raise StoreError(f"{path}: {describe(error)}") from error
    with file:
        try:
            yield
        finally:
            if _is_named(path, file):  # still locked: no other run can have taken it
                path.unlink()


def _new_lock(path: Path, owner: LockOwner) -> IO[bytes] | None:
    """Return the open lock file of a new run, written and locked before it has its name; None if the name is taken."""
    temporary = path.parent / f".vlmsweep-{uuid.uuid4().hex}.tmp"
    file = open_locked(temporary)
    try:
        file.write(owner.to_json())
        file.flush()
        try:
            os.link(temporary, path)
        except FileExistsError:
            file.close()
            return None
        except OSError:  # a disk without hard links
            if os.path.lexists(path):
                file.close()
                return None
            temporary.replace(path)
    except BaseException:
        file.close()
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return file


def _remove_ended(path: Path, out: Store, flag: str) -> None:
    """Remove the lock file of a run that has ended; LockedError for one that runs, and for a file of the user."""
    try:
        file = open_regular(path, follow_links=False)
    except FileNotFoundError:
        return
    except NotRegularError as error:
        raise not_a_lock(out, flag) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise locked_error(out, LockOwner.from_json(file.read()), flag) from None
        except OSError as error:  # a network disk without locks
            log.warning("%s: locking is unavailable (%s); make sure that no other run writes there", path, error)
        if _is_named(path, file):  # else its run removed it between open and flock
            check_is_lock(out, file.read(), flag)
            os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW))  # another user's may be read, and stays
            path.unlink()


def _is_named(path: Path, file: IO[bytes]) -> bool:
    """Return whether an open file still has this name."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    opened = os.fstat(file.fileno())
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

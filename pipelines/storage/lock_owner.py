"""The owner of an output: the content of its lock, and whether the owner is still alive."""

import json
import os
import re
import socket
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from models.scratch import boot_id, process_start
from pipelines.errors import FencedError, LockedError
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

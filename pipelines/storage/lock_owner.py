"""Who holds an output: what stands in its lock, and how a holder that is no more is told from one that lives."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipelines.storage.store import Store

LOCK = "lock.json"


class LockedError(ValueError):
    """Another run writes this output. The message names it."""


class FencedError(RuntimeError):
    """A worker of a run that does not hold the output any more; what it made is not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """Who holds the lock."""

    run: str
    """Random, so that no two runs are taken for one another."""
    host: str
    pid: int
    process_start: str
    """Start of the process in clock ticks since boot, with the boot's id: tells a reused process id."""
    since: str
    pids: str = ""
    """The namespace in which `pid` is counted: containers of one machine count each for themselves."""
    beat: int = 0

    @classmethod
    def here(cls) -> LockOwner:
        """A new run in this process."""
        return cls(
            run=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=os.getpid(),
            process_start=_process_start(os.getpid()),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            pids=_pids(),
        )

    def to_json(self) -> bytes:
        """What stands in the lock."""
        return json.dumps(asdict(self), indent=2).encode()

    @classmethod
    def from_json(cls, content: bytes) -> LockOwner | None:
        """None for what is no lock of ours, such as a half-written one of another version."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def told(self) -> str:
        """Who it is, for people."""
        return f"run {self.run[:8]} (process {self.pid} on {self.host}, since {self.since})"

    def dead_here(self) -> bool:
        """Whether it was a process of this machine that is no more; several machines may bear one name."""
        boot = self.process_start.partition(":")[0]
        here = (self.host, boot, self.pids) == (socket.gethostname(), _boot(), _pids())
        return here and bool(boot) and _process_start(self.pid) != self.process_start


def check_lock(out: Store, run: str) -> None:
    """Refuse a worker whose run does not hold the output any more.

    Args:
        out: the output.
        run: the value of `lock.held`; '' when nothing was locked.

    Raises:
        FencedError: another run has taken it over, or the lock was removed.
    """
    if not run:
        return
    try:
        holder = LockOwner.from_json(out.get(LOCK))
    except FileNotFoundError:
        holder = None
    if holder is None or holder.run != run:
        now = holder.told() if holder else "nobody"
        raise FencedError(f"{out.uri} is held by {now} and not by run {run[:8]} any more; nothing is written")


def locked(out: Store, holder: LockOwner | None) -> LockedError:
    """That somebody else holds an output, and what to do."""
    who = holder.told() if holder else "another run"
    return LockedError(
        f"{out.uri} is being written by {who}; wait for it (`vlmsweep status {out.uri}` shows how far it is), stop it, "
        "or name another --out"
    )


def _process_start(pid: int) -> str:
    """When a process of this machine began; '' when there is none, or where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return f"{_boot()}:{stat.rpartition(')')[2].split()[19]}"


def _boot() -> str:
    """This boot of this machine; '' where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pids() -> str:
    """The namespace of this process's ids; '' where the system does not tell."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""

"""The run lock: one run at a time writes an output, and workers of a dead run are refused.

On a disk the lock is the kernel's (`flock` on `lock.json`) and ends with its process. In an object store it is an
object written conditionally and renewed by its owner's heartbeat; a second run watches for heartbeats, so that clocks
need not agree. In a store without conditional writes a lock counts once it has stayed unchanged for some seconds.
Workers commit with the lock's token and are refused when it is outdated (`check_lock`); a run that loses its lock ends.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipelines.errors import FencedError, StoreError
from pipelines.storage.backend import is_remote
from pipelines.storage.errors import describe
from pipelines.storage.lock_owner import LOCK, LockOwner, check_is_lock, check_lock, locked_error
from pipelines.storage.object_lock import object_lock
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

HEARTBEAT_S = 10.0
STALE_AFTER_S = 35.0  # an owner without a heartbeat for so long is dead, by the observer's clock


@contextlib.contextmanager
def run_lock(out: Store, *, stale_after_s: float = STALE_AFTER_S, heartbeat_s: float = HEARTBEAT_S) -> Iterator[str]:
    """Lock an output; yield the token for `check_lock`. LockedError: another run holds it, or took it over."""
    owner = LockOwner.new()
    with object_lock(out, owner, stale_after_s, heartbeat_s) if is_remote(out.uri) else _file_lock(out, owner):
        yield owner.run


def owns_lock(out: Store, token: str) -> bool:
    """Return whether a run still owns the lock of its output."""
    try:
        check_lock(out, token)
    except FencedError:
        return False
    return True


@contextlib.contextmanager
def _file_lock(out: Store, owner: LockOwner) -> Iterator[None]:
    path = Path(out.uri, LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        locked = _open_locked_file(path, out)
    except PermissionError as error:
        raise StoreError(f"{path}: {describe(error)}") from error
    with locked as file:
        file.seek(0)
        check_is_lock(out, file.read())
        file.truncate(0)
        try:
            file.write(owner.to_json())
            file.flush()
            yield
        finally:
            path.unlink(missing_ok=True)  # still locked: no other run can have taken it


def _open_locked_file(path: Path, out: Store) -> IO[bytes]:
    """Return the open, locked lock file, which is still the file of that name."""
    while True:
        refusal: PermissionError | None = None
        try:
            file: IO[bytes] = path.open("a+b")
        except PermissionError as error:  # another user's: it is read to name the run that holds it
            if not path.exists():  # a folder of another user, without a lock
                raise
            file, refusal = path.open("rb"), error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            current = LockOwner.from_json(file.read())
            file.close()
            raise locked_error(out, current) from None
        except OSError as error:  # a network disk without locks
            log.warning("%s: locking is unavailable (%s); make sure that no other run writes there", path, error)
        if refusal:
            file.close()
            raise refusal
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()  # its owner removed it between open and flock

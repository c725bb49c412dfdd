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
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from models.guards.regular_files import NotRegularError, open_regular
from pipelines.errors import FencedError, StoreError
from pipelines.storage.backend import is_remote
from pipelines.storage.errors import describe
from pipelines.storage.local_store import open_locked
from pipelines.storage.lock_owner import LOCK, LockOwner, check_is_lock, check_lock, locked_error, not_a_lock
from pipelines.storage.object_lock import object_lock
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

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

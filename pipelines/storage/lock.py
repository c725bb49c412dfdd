"""One run at a time writes an output: a lock that a dead run cannot keep, and that fences its late workers.

On a disk the lock is the kernel's (`flock` on `lock.json`), gone with the process that held it. In an object store it
is an object written only on conditions, and beaten by its holder; who finds one watches whether it still beats, so that
no clock has to agree with another. A store that heeds no conditions is seen to do so; there a lock is written, and
counts once it has stood for a while. Workers name the run they work for when they commit, and are refused once it is
not the holder any more (`check_lock`); a run that finds itself replaced ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipelines.storage.lock_owner import LOCK, FencedError, LockOwner, check_lock, locked
from pipelines.storage.object_lock import held_in_store
from pipelines.storage.store import Store, is_remote

log = logging.getLogger(__name__)

BEAT_S = 10.0
SILENT_S = 35.0
"""A holder that has not beaten for so long, by the watcher's own clock, is dead."""


@contextlib.contextmanager
def run_lock(out: Store, *, silent_s: float = SILENT_S, beat_s: float = BEAT_S) -> Iterator[str]:
    """Hold an output; the value is the run's name for `check_lock`.

    Args:
        out: the output.
        silent_s: seconds after which a lock in an object store that does not beat is taken over.
        beat_s: seconds between beats.

    Raises:
        LockedError: another run holds it, or has taken it over meanwhile.
        StoreError: the store failed.
    """
    me = LockOwner.here()
    with held_in_store(out, me, silent_s, beat_s) if is_remote(out.uri) else _held_locally(out, me):
        yield me.run


def owns_lock(out: Store, run: str) -> bool:
    """Whether a run may still write its output; see `check_lock`."""
    try:
        check_lock(out, run)
    except FencedError:
        return False
    return True


@contextlib.contextmanager
def _held_locally(out: Store, me: LockOwner) -> Iterator[None]:
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
            holder = LockOwner.from_json(file.read())
            file.close()
            raise locked(out, holder) from None
        except OSError as error:  # a network disk without locks
            log.warning("%s: no lock can be had (%s); see that no other run writes it", path, error)
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            file.truncate(0)
            return file
        file.close()  # its holder removed it between our opening and our locking

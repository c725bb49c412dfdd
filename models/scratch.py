"""Temporary folders of this product, and the proof by which what a killed process left is removed.

All lie in one folder that only this user can enter. Each has a random name, and a file for each process that uses it,
which names the process and which the process keeps locked until it ends, however it ends. A folder is removed by its
user, or once the kernel of the same machine says that nobody holds such a lock. Anything else is left alone.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from models.errors import ScratchError

_OWNER = "owner-*.json"
_LOCKS: dict[tuple[str, int], int] = {}
"""The locked files of this process by folder and process id, which a fork changes."""


def private_folder(path: Path) -> Path:
    """Make a folder that this user alone can enter, or check that it is one (ScratchError)."""
    try:
        with contextlib.suppress(FileExistsError):  # whatever has this name is judged by what it is
            path.mkdir(mode=0o700)
        status = path.lstat()
        is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if is_private:
            path.chmod(0o700)
    except OSError as error:
        raise ScratchError(f"{path}: no folder can be made there ({error.strerror}); set TMPDIR to one") from error
    if not is_private:
        problem = "a file" if stat.S_ISREG(status.st_mode) else "a link or another user's"
        raise ScratchError(f"{path} is {problem}; set TMPDIR to a folder of your own")
    return path


def scratch_base(parent: str = "") -> Path:
    """Return the folder of all scratch folders of this user, in the system's temporary folder or in `parent`."""
    try:
        return private_folder(Path(parent or tempfile.gettempdir(), f"vlmsweep-{os.getuid()}"))
    except FileNotFoundError as error:
        raise ScratchError(f"{error.strerror}; set TMPDIR to a folder of your own") from error


def make_scratch(parent: str = "") -> Path:
    """Make a scratch folder, which `remove_scratch` removes; ScratchError if another user is in the way."""
    base = scratch_base(parent)
    try:
        folder = Path(tempfile.mkdtemp(prefix="", dir=base))
        hold_scratch(folder)
    except OSError as error:
        problem = error.strerror or error
        raise ScratchError(f"{base}: no folder can be made there ({problem}); free space, or set TMPDIR") from error
    return folder


def hold_scratch(folder: Path) -> None:
    """Make a scratch folder of this name, or join its users, until this process ends."""
    key = (str(folder), os.getpid())
    if key in _LOCKS:
        if folder.is_dir():
            return
        os.close(_LOCKS.pop(key))
    folder.mkdir(mode=0o700, exist_ok=True)
    name = folder / _OWNER.replace("*", f"{os.getpid()}-{secrets.token_hex(4)}")
    file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with contextlib.suppress(OSError):  # a disk without locks, where nothing proves that an owner has ended
        fcntl.flock(file, fcntl.LOCK_EX)
    process = {"host": socket.gethostname(), "boot": boot_id(), "pid": os.getpid(), "start": process_start("self")}
    os.write(file, json.dumps(process).encode())  # after the lock: an empty file proves nothing
    _LOCKS[key] = file


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a scratch folder and remove it after the block."""
    folder = make_scratch()
    try:
        yield folder
    finally:
        remove_scratch(folder)


def remove_scratch(folder: Path) -> None:
    """Remove a scratch folder of this run; nothing that is not one is touched."""
    with contextlib.suppress(OSError):
        if folder.parent == scratch_base(str(folder.parent.parent)) and any(folder.glob(_OWNER)):
            _remove(folder)
    if (file := _LOCKS.pop((str(folder), os.getpid()), None)) is not None:
        os.close(file)


def remove_locked() -> None:
    """Remove all scratch folders that this process made or joined: for one that ends at once, without its blocks."""
    for folder, pid in [*_LOCKS]:
        if pid == os.getpid():
            remove_scratch(Path(folder))


def remove_abandoned(parent: str = "") -> None:
    """Remove the scratch folders whose owners have all ended on this machine since it started."""
    for folder in scratch_base(parent).iterdir():
        owners = [*folder.glob(_OWNER)] if folder.is_dir() and not folder.is_symlink() else []
        if owners and all(_has_ended(owner) for owner in owners):
            with contextlib.suppress(OSError):  # another process removed it
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, the proof of its owners last: what a dying process still writes there goes with a later run."""
    rest = [entry for entry in folder.iterdir() if not entry.match(_OWNER)]
    for entry in rest:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()
    if not any(os.path.lexists(entry) for entry in rest):
        shutil.rmtree(folder, ignore_errors=True)


def _has_ended(owner: Path) -> bool:
    try:
        process = json.loads(owner.read_bytes())
        is_local = isinstance(process, dict) and process["boot"] == boot_id() != ""
    except (OSError, ValueError, KeyError):
        return False
    return is_local and is_unlocked(owner)


def is_unlocked(path: Path) -> bool:
    """Return whether no process has locked a regular file; False where locks are unavailable."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return stat.S_ISREG(os.fstat(file).st_mode)
    except OSError:
        return False
    finally:
        os.close(file)


def process_start(pid: int | str) -> str:
    """Return when a local process started, in clock ticks since boot; '' if there is none or no /proc."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]


def boot_id() -> str:
    """Return the id of this machine's present start, '' where it has none; containers of one machine share it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""

"""Open files that a user or a foreign program put there. Anything but a regular file is refused: a pipe never ends."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


class NotRegularError(OSError):
    """A path names a folder, a pipe, a socket or a device in place of a file."""

    def __init__(self, path: str, mode: int) -> None:
        kind = next((name for matches, name in _KINDS if matches(mode)), "a device")
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file; move it away, or give a file", path)

    def __str__(self) -> str:
        return str(self.strerror)


def open_regular(path: Path | str, *, follow_links: bool = True) -> BufferedReader:
    """Open a regular file for reading, without waiting; raise `NotRegularError` for anything else."""
    check_regular(path, follow_links=follow_links)  # before: opening a device may act on it
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow_links else os.O_NOFOLLOW)
    handle = os.open(path, flags)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):  # it was exchanged meanwhile
        os.close(handle)
        raise NotRegularError(str(path), mode)
    return os.fdopen(handle, "rb")


def read_regular(path: Path | str) -> bytes:
    """Return the content of a regular file; raise as `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def check_regular(path: Path | str, *, follow_links: bool = True) -> None:
    """Raise `NotRegularError` for anything but a regular file, `FileNotFoundError` for nothing."""
    mode = (Path(path).stat() if follow_links else Path(path).lstat()).st_mode
    if not stat.S_ISREG(mode):
        raise NotRegularError(str(path), mode)


def check_replaceable(path: Path, *, in_place: bool = False) -> None:
    """Raise `NotRegularError` where a write or a deletion would hit neither a file nor, unless `in_place`, a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and (in_place or not stat.S_ISLNK(mode)):
        raise NotRegularError(str(path), mode)

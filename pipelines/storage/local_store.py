"""Files on a local or network disk."""

import contextlib
import fcntl
import os
import posixpath
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from models.guards.regular_files import check_replaceable, open_regular
from models.scratch import is_unlocked
from pipelines.storage.backend import FileInfo, check_size, resolve

_PART = r"(?:[0-9a-f]{24}|external-\d{5})\.parquet"
_MODEL_FOLDER = r"benchmark=[^/]+/model=[^/]+"
_NIGHT = r"\d{8}T\d{6}\.\d{6}Z"
_NAMES = (
    rf"(?:captions|judgements|predictions|scores)/{_MODEL_FOLDER}/{_PART}",
    r"plan/benchmark=[^/]+/(?:plan-[0-9a-f]{32}\.json|(?:part|judge)-[0-9a-f]{24}\.parquet)",
    r"batches/model=[^/]+/[0-9a-f]{32}(?:\.json|\.results\.gz)",
    rf"pairs/{_MODEL_FOLDER}/fingerprint",
    rf"(?:items|pairs)/{_NIGHT}\.parquet",
    r"samples/[0-9a-f]{12}-\d{5}\.parquet",
    r"checkpoints/(?:(?:best|step)-\d{7,}\.safetensors|examples\.sha256)",
    r"examples/(?:complete\.json|(?:train|validation)\.parquet|pictures/[0-9a-f]{64})",
    r"(?:lock|run|status)\.json|plan/obsolete\.json|\.vlmsweep-probe-[0-9a-f]{32}",
)
_OWNED = re.compile(rf"(?:staging/[0-9a-f]{{16}}/)?(?:{'|'.join(_NAMES)})")
_IS_PART = re.compile(_PART)
TEMPORARY = re.compile(r"\.vlmsweep-[0-9a-f]{32}\.tmp")
"""A file that is being written; it is locked until it has its final name."""


def is_owned(path: str) -> bool:
    """Return whether a file, by its path in a store, has a name of this product."""
    return _OWNED.fullmatch(path) is not None


def is_part(path: str) -> bool:
    """Return whether a file is named as a part of predictions, scores, judgements or captions."""
    return _IS_PART.fullmatch(posixpath.basename(path)) is not None


class LocalStore:
    """Files below a folder. A write goes to a temporary file that is renamed when it is complete."""

    missing_parent_remedy = "no folder can be created there"

    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, path: str, content: bytes) -> str:
        """Write a file and replace an older one atomically; return '', for its version is unknown."""
        target = self._path(path)
        check_replaceable(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".vlmsweep-{uuid.uuid4().hex}.tmp"
        try:
            with open_locked(temporary) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(target)
        except BaseException:  # a signal must leave nothing behind either
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
        return ""

    def get(self, path: str, max_bytes: int | None = None) -> bytes:
        """Return the content of a file."""
        with open_regular(self._path(path)) as file:
            check_size(path, os.fstat(file.fileno()).st_size, max_bytes)
            content = file.read(-1 if max_bytes is None else max_bytes + 1)  # it may grow, or be one of /proc
        check_size(path, len(content), max_bytes)
        return content

    def exists(self, path: str) -> bool:
        """Return whether there is a file at this path."""
        return self._path(path).is_file()

    def walk(self, folder: str) -> Iterator[FileInfo]:
        """Yield the files anywhere below a folder, without hidden and temporary ones."""
        for parent, names, files in os.walk(resolve(self._root, folder), onerror=_raise_unless_missing):
            names[:] = [name for name in names if not name.startswith(".")]
            for name in files:
                path = Path(parent, name)
                with contextlib.suppress(FileNotFoundError):  # a dangling link, or deleted since it was listed
                    if not name.startswith("."):
                        yield FileInfo(path.relative_to(self._root).as_posix(), path.stat().st_size)

    def folders(self) -> list[str]:
        """Return the names of the folders at the top, without hidden ones."""
        try:
            return [entry.name for entry in os.scandir(self._root) if entry.is_dir() and not entry.name.startswith(".")]
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""
        check_replaceable(self._path(path))
        self._path(path).unlink(missing_ok=True)

    def remove_temporary(self, *, below: bool = True) -> int:
        """Remove the temporary files of killed writers, which nobody has locked any more; return their number."""
        hidden = Path(self._root).glob(f"{'**/' if below else ''}.vlmsweep-*.tmp")
        paths = [path for path in hidden if TEMPORARY.fullmatch(path.name) and is_unlocked(path)]
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def _path(self, path: str) -> Path:
        return Path(resolve(self._root, path))


def open_locked(path: Path) -> IO[bytes]:
    """Open a new file that is locked while it is written: `remove_temporary` leaves it alone."""
    while True:
        file = path.open("xb")
        with contextlib.suppress(OSError):  # a disk without locks: nothing is removed there
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # it was removed between open and lock


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # deleted since it was listed, or never there
        raise error


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power loss, where the system can."""
    with contextlib.suppress(OSError):  # some network disks refuse
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

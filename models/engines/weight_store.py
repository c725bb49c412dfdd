"""The folder of weights that this product copies or converts: on the disk of the hub's cache, trimmed when full.

A process holds a lock on each copy that it uses. Files are deleted only where a marker proves that this store wrote
them, the longest unused copy first.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import shutil
import stat
from pathlib import Path

from models.engines.hub import hub_id
from models.engines.launch import LaunchedModel
from models.engines.weights import known_bytes
from models.errors import EngineUnreachableError
from models.gpu_memory import format_bytes
from models.scratch import private_folder
from models.spec import ModelSpec

log = logging.getLogger(__name__)

COMPLETE = ".complete"
"""Marker of a whole copy: the text whose hash names the folder. Its time is that of the last use, its lock a user's."""
_LOCKS: dict[Path, int] = {}  # the locked markers of this process


def weights_folder() -> Path:
    """Return a folder of this user alone, in the hub's own: weights that another user can write are not trusted."""
    from huggingface_hub import constants

    home = Path(constants.HF_HOME)
    try:
        home.mkdir(parents=True, exist_ok=True)
        return private_folder(home / f"vlmsweep-weights-{os.getuid()}")
    except OSError as error:
        raise EngineUnreachableError(
            f"weights cannot be kept in {home}: {error}; set HF_HOME to a folder on a large disk that may be written"
        ) from error


def check_disk(spec: ModelSpec) -> None:
    """Raise `EngineUnreachableError` where a model of the hub is not in the cache, and does not fit there."""
    from huggingface_hub import constants, try_to_load_from_cache

    if not hub_id(spec) or isinstance(try_to_load_from_cache(spec.model, "config.json", revision=spec.revision), str):
        return
    needed, cache = known_bytes(LaunchedModel.as_named(spec)), Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.is_dir())).free
    if needed > free:
        raise EngineUnreachableError(
            f"{spec.model} cannot be fetched: its weights take {format_bytes(needed)}, and {format_bytes(free)} of "
            f"{cache} are free; free some, or set HF_HOME to a folder on a larger disk"
        )


def folder_of(content: str) -> Path:
    """Return the folder for a copy of `content`: JSON of its source and of [name, bytes, version] of each file.

    Its name is the hash of that text, which the marker repeats: no folder of another origin has both.
    """
    return weights_folder() / _hash(content)


def is_complete(folder: Path, content: str) -> bool:
    """Return whether a folder has the marker of this product for a whole copy."""
    return _content(folder) == content


def complete(folder: Path, content: str) -> None:
    """Write the marker of a whole copy, as a new file: what lay or was linked under its name is not written to."""
    part = folder / f"{COMPLETE}-{secrets.token_hex(4)}"
    with part.open("x", encoding="utf-8") as file:
        file.write(content)
    part.replace(folder / COMPLETE)


def hold(folder: Path) -> None:
    """Keep a complete folder until this process ends, and count it as used now."""
    marker = folder / COMPLETE
    os.utime(marker)
    if marker not in _LOCKS:
        _LOCKS[marker] = os.open(marker, os.O_RDONLY | os.O_NOFOLLOW)
        fcntl.flock(_LOCKS[marker], fcntl.LOCK_SH)


def make_room(needed: int, folder: Path) -> None:
    """Delete least recently used copies of the store until `needed` bytes are free; OSError if they do not suffice."""
    copies = [path for path in folder.iterdir() if _content(path) is not None]
    copies.sort(key=lambda copy: (copy / COMPLETE).lstat().st_mtime)
    while (free := shutil.disk_usage(folder).free) < needed:
        if not copies:
            raise OSError(
                f"{format_bytes(needed)} are to be written, and {format_bytes(free)} of {folder} are free; free some, "
                "or set HF_HOME to a folder on a larger disk"
            )
        _delete_unused(copies.pop(0))


def _hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _content(folder: Path) -> str | None:
    """Return what the marker says that a folder holds; None for a folder that is not proved to be of this store."""
    marker = folder / COMPLETE
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode) or not stat.S_ISREG(marker.lstat().st_mode):
            return None
        content = marker.read_text(encoding="utf-8")
    except (OSError, ValueError):  # none, unreadable, or not text
        return None
    return content if _hash(content) == folder.name else None


def _delete_unused(folder: Path) -> None:
    """Delete the files of a copy as they were written; whatever else lies in its folder stays."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(f"{folder}.lock", timeout=0), (folder / COMPLETE).open("rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = _content(folder)
            if content is None:
                return
            (folder / COMPLETE).unlink()  # first: what is left of a folder without it is written again
            for name, size, _ in json.loads(content)[1]:
                _delete_copied(folder.resolve(), name, size)
    except (BlockingIOError, Timeout):
        log.info("the weights in %s are in use", folder)
    else:
        log.warning("disk full: deleted the least recently used weights in %s", folder)


def _delete_copied(folder: Path, name: str, size: int) -> None:
    """Delete a file of a copy, and the folders that it leaves empty; links and files of another size stay."""
    path = folder / name
    if path.resolve() != path or not path.is_file() or path.stat().st_size != size:
        return
    path.unlink()
    with contextlib.suppress(OSError):  # something else is in a folder
        for parent in path.parents[: len(Path(name).parts)]:
            parent.rmdir()

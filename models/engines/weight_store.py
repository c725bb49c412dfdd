"""The folder of weights that this product copies or converts: on the disk of the hub's cache, trimmed when full.

A process holds a lock on each folder that it uses. Only folders of this store are deleted, the longest unused first.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from pathlib import Path

from models.engines.hub import hub_id
from models.engines.launch import LaunchedModel
from models.engines.weights import known_bytes
from models.errors import EngineUnreachableError
from models.scratch import private_folder
from models.spec import ModelSpec

log = logging.getLogger(__name__)

COMPLETE = ".complete"
"""Marker of a folder that was copied completely; its time is that of the last use, its lock that of a user."""
_GB = 1e9
_HELD: dict[Path, int] = {}
"""The locked markers of this process."""


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
            f"{spec.model} cannot be fetched: its weights take {needed / _GB:.1f} GB, and {free / _GB:.1f} GB of "
            f"{cache} are free; free some, or set HF_HOME to a folder on a larger disk"
        )


def hold(folder: Path) -> None:
    """Keep a complete folder until this process ends, and count it as used now."""
    marker = folder / COMPLETE
    os.utime(marker)
    if marker not in _HELD:
        _HELD[marker] = os.open(marker, os.O_RDONLY)
        fcntl.flock(_HELD[marker], fcntl.LOCK_SH)


def make_room(needed: int, folder: Path) -> None:
    """Delete least recently used folders of the store until `needed` bytes are free; OSError if they do not suffice."""
    complete = sorted(folder.glob(f"*/{COMPLETE}"), key=lambda marker: marker.stat().st_mtime)
    while (free := shutil.disk_usage(folder).free) < needed:
        if not complete:
            raise OSError(
                f"{needed / _GB:.1f} GB are to be written, and {free / _GB:.1f} GB of {folder} are free; free some, or "
                "set HF_HOME to a folder on a larger disk"
            )
        _delete_unused(complete.pop(0))


def _delete_unused(marker: Path) -> None:
    lock = os.open(marker, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        marker.unlink()  # first: what is left of a folder without it is written again
        shutil.rmtree(marker.parent)
        log.warning("deleted the weights in %s, which were used longest ago: their disk is full", marker.parent)
    except BlockingIOError:
        log.info("the weights in %s are in use", marker.parent)
    finally:
        os.close(lock)

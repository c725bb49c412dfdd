"""A folder of decoded clips on each machine: a run's processes and models decode a clip once per machine.

Pictures stay out: decoding one takes no longer than reading its pixels back. The run deletes the folder at its end.
What a killed run leaves is deleted where the next embedded Ray starts (`cluster.connect`, by the process id in the
name), and by the next run that decodes clips there once it is `STALE_S` old.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from models.messages import Frames, Media
from pipelines.media.decoder import frames_from_header

log = logging.getLogger(__name__)

MAX_BYTES = 8 << 30
"""In one folder: 480 clips of 32 frames at 480 x 360. A full folder keeps what it holds: models pass the same clips in
the same order, and evicting the oldest would evict each just before it is read."""
MIN_FREE_SHARE = 0.1
"""Share of the disk that stays free."""
LOCK_S = 150.0
"""Longer than both decoders may take; then the process that decodes a clip counts as stuck."""
STALE_S = 24 * 3600
"""Age of the last new clip at which another run's folder counts as left behind."""
_NAME = "vlmsweep-{pid}-clips-{run}"


def clip_folder_name() -> str:
    """Return a new name of a run's folder, the same on all machines; this process's id is part of it."""
    return str(Path(tempfile.gettempdir(), _NAME.format(pid=os.getpid(), run=secrets.token_hex(4))))


def remove_clip_folder(folder: str) -> None:
    """Delete a run's folder on this machine, if there is one."""
    shutil.rmtree(folder, ignore_errors=True)


class ClipFolder:
    """Decoded clips of one run on this machine, shared by its processes."""

    def __init__(self, folder: str, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = Path(folder), max_bytes
        self._is_usable = True

    def fetch(self, clip: Media, max_pixels: int | None, decode: Callable[[], Frames]) -> Frames:
        """Return the frames of a clip within a limit, from the folder, or decode and store them (DecodeError).

        A clip that is smaller than the limit is stored without one: models whose limits it meets share it.
        """
        if not self._is_usable:
            return decode()
        name = f"{clip.source}-{clip.frames}"
        lock = FileLock(self._folder / f"{name}.lock")
        try:
            self._create()
            lock.acquire(timeout=LOCK_S)
        except Timeout:
            return decode()
        except OSError as error:
            self._give_up(error)
            return decode()
        try:
            frames = self._read(name, max_pixels)
            if frames is None:
                frames = decode()
                self._store(name, max_pixels, frames)
        finally:
            lock.release()
        return frames

    def _give_up(self, error: OSError) -> None:
        self._is_usable = False
        log.warning("cannot cache decoded clips in %s, so each model decodes them: %s", self._folder, error)

    def _create(self) -> None:
        if self._folder.is_dir():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in self._folder.parent.glob(_NAME.format(pid="*", run="*")):
            with contextlib.suppress(FileNotFoundError):  # its run, or another process, deletes it at the same time
                if time.time() - other.stat().st_mtime > STALE_S:
                    shutil.rmtree(other, ignore_errors=True)

    def _read(self, name: str, max_pixels: int | None) -> Frames | None:
        for path in (self._path(name, None), self._path(name, max_pixels)):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                header = json.loads(file.readline())
                _, height, width, _ = header["shape"]
                if path == self._path(name, max_pixels) or _is_within(width * height, max_pixels):
                    return frames_from_header(header, np.fromfile(file, np.uint8).reshape(header["shape"]))
        return None

    def _store(self, name: str, max_pixels: int | None, frames: Frames) -> None:
        _, height, width, _ = frames.pixels.shape
        path = self._path(name, None if _is_within(width * height, max_pixels) else max_pixels)
        header = {
            "shape": frames.pixels.shape,
            "seconds": frames.seconds,
            "fps": frames.fps,
            "total": frames.total_frames,
        }
        unfinished = path.with_suffix(".part")
        try:
            if not self._has_room(frames.pixels.nbytes):
                return
            with unfinished.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.write(np.ascontiguousarray(frames.pixels).data)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            self._give_up(error)

    def _has_room(self, size: int) -> bool:
        disk = shutil.disk_usage(self._folder)
        used = sum(entry.stat().st_size for entry in os.scandir(self._folder))
        return used + size <= self._max_bytes and disk.free - size >= disk.total * MIN_FREE_SHARE

    def _path(self, name: str, max_pixels: int | None) -> Path:
        return self._folder / f"{name}-{max_pixels}.frames"


def _is_within(pixels: int, max_pixels: int | None) -> bool:
    """Return whether a frame of so many pixels was not shrunk to a limit: a shrunk one may have exactly as many."""
    return max_pixels is None or pixels < max_pixels

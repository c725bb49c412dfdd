"""A folder of decoded clips on each machine: a run's processes and models decode a clip once per machine.

Pictures stay out: decoding one takes no longer than reading its pixels back. The run deletes the folder at its end.
What a killed run leaves is deleted where the next embedded Ray starts or the next run decodes clips (`models.scratch`).
"""

import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from models.messages import Frames, Media
from models.scratch import hold_scratch, make_scratch, remove_abandoned, remove_scratch, scratch_base
from pipelines.media.decoder import frames_from_header

log = logging.getLogger(__name__)

MAX_BYTES = 8 << 30
"""In one folder: 480 clips of 32 frames at 480 x 360. A full folder keeps what it holds: models pass the same clips in
the same order, and evicting the oldest would evict each just before it is read."""
MIN_FREE_SHARE = 0.1  # share of the disk that stays free
_CHECKSUM_BYTES = 4  # CRC-32 of a file's name, header and pixels: 20 ms of a clip that takes 300 ms to decode
LOCK_S = 150.0  # longer than both decoders may take; then the process that decodes a clip counts as stuck


def make_clip_folder() -> str:
    """Make a run's folder on this machine, which this process holds; return its name, the same on all machines."""
    return make_scratch().name


def remove_clip_folder(name: str) -> None:
    """Delete a run's folder on this machine, if there is one."""
    remove_scratch(scratch_base() / name)


class ClipFolder:
    """Decoded clips of one run on this machine, shared by its processes."""

    def __init__(self, name: str, max_bytes: int = MAX_BYTES) -> None:
        self._name, self._max_bytes = name, max_bytes
        self._is_usable = True

    def fetch(self, clip: Media, max_pixels: int | None, decode: Callable[[], Frames]) -> Frames:
        """Return the frames of a clip within a limit, from the folder, or decode and store them (DecodeError).

        A clip that is smaller than the limit is stored without one: models whose limits it meets share it.
        """
        if not self._is_usable:
            return decode()
        name = f"{clip.source}-{clip.frames}"
        try:
            self._create()
            lock = FileLock(self._folder / f"{name}.lock")
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

    @cached_property
    def _folder(self) -> Path:
        return scratch_base() / self._name

    def _give_up(self, error: OSError) -> None:
        self._is_usable = False
        log.warning("cannot cache decoded clips, so each model decodes them: %s", error)

    def _create(self) -> None:
        if not self._folder.is_dir():
            remove_abandoned()
        hold_scratch(self._folder)

    def _read(self, name: str, max_pixels: int | None) -> Frames | None:
        for path in (self._path(name, None), self._path(name, max_pixels)):
            if not path.is_file():
                continue
            try:
                header, pixels = _read_checked(path)
                _, height, width, _ = pixels.shape
                if path == self._path(name, max_pixels) or _is_within(width * height, max_pixels):
                    return frames_from_header(header, pixels)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("%s is damaged (%s); the clip is decoded again", path, error)
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
        pixels = np.ascontiguousarray(frames.pixels).data
        line = json.dumps(header).encode() + b"\n"
        checksum = zlib.crc32(pixels, zlib.crc32(line, zlib.crc32(path.name.encode())))
        unfinished = path.with_suffix(".part")
        try:
            if not self._has_room(frames.pixels.nbytes):
                return
            with unfinished.open("wb") as file:
                file.write(checksum.to_bytes(_CHECKSUM_BYTES, "big") + line)
                file.write(pixels)
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


def _read_checked(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Return header and pixels of a file; ValueError where they, or its name, are not what was written."""
    with path.open("rb") as file:
        checksum, line = int.from_bytes(file.read(_CHECKSUM_BYTES), "big"), file.readline()
        pixels = np.fromfile(file, np.uint8)
    if zlib.crc32(pixels.data, zlib.crc32(line, zlib.crc32(path.name.encode()))) != checksum:
        raise ValueError("its checksum does not match")
    header: dict[str, Any] = json.loads(line)
    return header, pixels.reshape(header["shape"])


def _is_within(pixels: int, max_pixels: int | None) -> bool:
    """Return whether a frame of so many pixels was not shrunk to a limit: a shrunk one may have exactly as many."""
    return max_pixels is None or pixels < max_pixels

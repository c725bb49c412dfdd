"""Decoding with time limits, in a child process that is replaced when it crashes or hangs."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from models.environment import decoder_environment
from models.messages import Frames, Media
from pipelines.errors import DecodeError
from pipelines.media.video_containers import container_of
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

MAX_IMAGE_PIXELS = 120_000_000
"""A picture of more pixels is a bomb or a mistake: 120 million are 360 MB of RGB."""

PASSED_ON = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
"""File beginnings of pictures that may go to an endpoint untouched."""


class Decoder:
    """Decodes media of one store. One child process, started when first needed; use as a context or call `close`."""

    def __init__(self, *, timeout_s: float = 60.0, most_pixels: int = MAX_IMAGE_PIXELS) -> None:
        self._timeout_s, self._most_pixels = timeout_s, most_pixels
        self._child: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Decoder] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def decode(self, store: Store, path: str, media: Media, max_pixels: int | None = None) -> Frames:
        """Decode a file of a dataset as `media` asks.

        Args:
            store: where the file lies.
            path: relative to the store.
            media: kind, frames wanted of a clip, and as `source` the hash that the content must have.
            max_pixels: pictures and frames are shrunk to so many pixels, aspect ratio kept.

        Raises:
            DecodeError: with the reason.
            StoreError: it could not be fetched.
        """
        if not is_remote(store.uri):
            local = Path(store.uri, path)
            if local.is_file():
                with local.open("rb") as opened:
                    _check_hash(hashlib.file_digest(opened, "sha256").hexdigest(), local.name, media)
            return self.decode_file(local, media, max_pixels)
        content = store.get(path)
        _check_hash(hashlib.sha256(content).hexdigest(), path, media)
        with tempfile.NamedTemporaryFile(suffix=Path(path).suffix, prefix=f"vlmsweep-{os.getpid()}-") as file:
            file.write(content)
            file.flush()
            return self.decode_file(Path(file.name), media, max_pixels)

    def decode_picture(self, content: bytes, max_pixels: int | None = None) -> Frames:
        """Decode the bytes of a picture.

        Raises:
            DecodeError: with the reason.
        """
        with tempfile.NamedTemporaryFile(prefix=f"vlmsweep-{os.getpid()}-") as file:
            file.write(content)
            file.flush()
            try:
                return self.decode_file(Path(file.name), Media("image", ""), max_pixels)
            except DecodeError as error:
                raise DecodeError(str(error).replace(file.name, "the picture")) from error

    def decode_file(self, path: Path, media: Media, max_pixels: int | None = None) -> Frames:
        """Decode a local file; decord first for clips, PyAV when decord fails, crashes or hangs."""
        if not path.is_file():
            raise DecodeError(f"{path.name}: no such file")
        request = {
            "kind": media.kind,
            "path": str(path),
            "container": _container(path) if media.kind == "video" else "",
            "frames": media.frames,
            "max_pixels": max_pixels,
            "most_pixels": self._most_pixels,
        }
        decoders = ["decord", "pyav"] if media.kind == "video" else ["pillow"]
        reasons = []
        for decoder in decoders:
            head, pixels = self._ask({**request, "decoder": decoder})
            if pixels is not None:
                return Frames(
                    pixels=pixels,
                    seconds=tuple(head["seconds"]),
                    fps=head["fps"],
                    total_frames=head["total"],
                    encoded=_untouched(path, pixels, media, max_pixels),
                )
            reasons.append(f"{decoder}: {_plain(head['error'])}")
        raise DecodeError("; ".join(reasons))

    def close(self) -> None:
        """End the child."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = _start()
            self._end = weakref.finalize(self, _ended, self._child)  # for who has no moment to call `close`
        return self._child

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray | None]:
        child = self._started()
        deadline = time.monotonic() + self._timeout_s
        if child.stdin is None or child.stdout is None:
            raise AssertionError("the child was started with pipes")
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            reader = _Reader(child.stdout.fileno(), deadline)
            head: dict[str, Any] = json.loads(reader.line())
            if not head["ok"]:
                return head, None
            pixels = np.frombuffer(reader.exactly(head["bytes"]), np.uint8).reshape(head["shape"])
        except TimeoutError:
            self.close()
            return {"error": f"nothing after {self._timeout_s:g} s"}, None
        except (BrokenPipeError, EOFError):
            code = child.wait()
            self.close()
            return {"error": f"the decoder crashed (exit {code})"}, None
        return head, pixels


def _check_hash(found: str, name: str, media: Media) -> None:
    if found != media.source:
        raise DecodeError(f"{name} is not the file that was ingested (its hash differs); ingest again")


class _Reader:
    """Reads from a pipe up to a deadline."""

    def __init__(self, fd: int, deadline: float) -> None:
        self._fd, self._deadline, self._left = fd, deadline, b""

    def _more(self, wanted: int) -> bytes:
        if not select.select([self._fd], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            raise TimeoutError
        chunk = os.read(self._fd, wanted)
        if not chunk:
            raise EOFError
        return chunk

    def line(self) -> bytes:
        while b"\n" not in self._left:
            self._left += self._more(65536)
        line, _, self._left = self._left.partition(b"\n")
        return line

    def exactly(self, size: int) -> bytearray:
        content = bytearray(self._left)
        while len(content) < size:
            content += self._more(min(1 << 20, size - len(content)))
        return content


def _plain(error: str) -> str:
    """A decoder's words without clock times and the paths of its own build, so that the same file reads the same."""
    return re.sub(r"\[\d\d:\d\d:\d\d\] \S+?:\d+: ?", "", error)


def _die_with_parent() -> None:
    """Ask Linux to end this child when its parent dies, so that a killed worker leaves no decoder behind."""
    with contextlib.suppress(OSError, AttributeError):  # no such call on other systems: the closed pipe ends it there
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _container(path: Path) -> str:
    try:
        return container_of(path)
    except (ValueError, OSError) as error:
        raise DecodeError(str(error)) from error


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.media.decode_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=decoder_environment(),  # no credentials where hostile files are decoded
        preexec_fn=_die_with_parent,  # noqa: PLW1509  one libc call, no locks taken
    )


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _untouched(path: Path, pixels: np.ndarray, media: Media, max_pixels: int | None) -> bytes | None:
    """A picture's own bytes, where nothing shrank it and any endpoint reads its format."""
    if media.kind == "video" or (max_pixels and pixels.shape[1] * pixels.shape[2] >= max_pixels):
        return None
    content = path.read_bytes()
    return content if any(content.startswith(magic) for magic in PASSED_ON) else None


def blank_frames(media: Media) -> Frames:
    """The pixels of a single-colour picture or clip (`models.messages.blank`)."""
    _, colour, size, frames, seconds = media.source.split(":")
    width, height = (int(n) for n in size.split("x"))
    count = media.frames or 1
    pixels = np.empty((count, height, width, 3), np.uint8)
    pixels[:] = [int(colour[i : i + 2], 16) for i in (0, 2, 4)]
    if media.kind == "image":
        return Frames(pixels=pixels)
    length = float(seconds)
    step = length / max(count - 1, 1)
    return Frames(
        pixels=pixels,
        seconds=tuple(round(i * step, 6) for i in range(count)),
        fps=int(frames) / length if length else 0.0,
        total_frames=int(frames),
    )

"""Decoding with time limits, in a child process that is replaced when it crashes or hangs."""

import contextlib
import functools
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from models.environment import decoder_environment
from models.guards.regular_files import open_regular
from models.messages import Frames, Media
from models.scratch import scratch
from pipelines.errors import DecodeError
from pipelines.media.video_containers import detect_container
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

MAX_IMAGE_PIXELS = 120_000_000  # 360 MB of RGB; more is a decompression bomb or a mistake


DECODERS = ("decord", "pyav")  # of videos, in the order in which they are tried
_TOO_LONG = "no result after"
_MOST_DIFFERENCE = 8  # of a colour value between the same frame by two decoders, which may round otherwise


class Decoder:
    """Decodes media in a child process that is started on first use. A context manager; or call `close`."""

    def __init__(self, *, timeout_s: float = 60.0, max_image_pixels: int = MAX_IMAGE_PIXELS) -> None:
        self._timeout_s, self._max_image_pixels = timeout_s, max_image_pixels
        self._child: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., Decoder] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def decode(
        self, store: Store, path: str, media: Media, max_pixels: int | None = None, decoders: Sequence[str] = DECODERS
    ) -> Frames:
        """Decode a file of a dataset whose hash is `media.file`, a video by the first decoder that can.

        Raises:
            DecodeError: it cannot be decoded, or is not what was ingested.
            StoreError: it cannot be read.
        """
        if not is_remote(store.uri):
            local = Path(store.uri, path)
            if local.is_file():
                with open_regular(local) as opened:
                    _check_hash(hashlib.file_digest(opened, "sha256").hexdigest(), local.name, media)
            return self.decode_file(local, media, max_pixels, decoders)
        content = store.get(path)
        _check_hash(hashlib.sha256(content).hexdigest(), path, media)
        with scratch() as folder:
            file = folder / f"medium{Path(path).suffix}"
            file.write_bytes(content)
            return self.decode_file(file, media, max_pixels, decoders)

    def decode_picture(self, content: bytes, max_pixels: int | None = None) -> Frames:
        """Decode the bytes of a picture; raise DecodeError with the reason."""
        with scratch() as folder:
            file = folder / "picture"
            file.write_bytes(content)
            try:
                return self.decode_file(file, Media("image", ""), max_pixels)
            except DecodeError as error:
                raise DecodeError(str(error).replace(str(file), "the picture")) from error

    def count_pixels(self, content: bytes) -> int:
        """Return the number of pixels that the header of a picture states; raise DecodeError with the reason."""
        with scratch() as folder:
            file = folder / "picture"
            file.write_bytes(content)
            request = {"kind": "image", "path": str(file), "max_image_pixels": self._max_image_pixels}
            header, _ = self._request({**request, "is_counted": True})
        if "error" in header:
            raise DecodeError(header["error"].replace(str(file), "the picture"))
        return int(header["pixels"])

    def checked_decoders(self, path: Path, media: Media) -> tuple[Frames, Sequence[str]]:
        """Decode a local video by both decoders; return its frames and the decoders to trust with it.

        decord, the faster one, returns other frames than asked for where it cannot seek exactly (edit lists, open
        groups of pictures, transport streams), without an error: it is trusted where both agree, else PyAV alone is,
        which decodes from the start. Of damaged files, which PyAV refuses, decord shows frames in any order; only where
        PyAV takes too long is decord what is left.
        """
        reference = self._frames_by(path, media, None, ["pyav"])
        fast = self._frames_by(path, media, None, ["decord"])
        if isinstance(reference, str):
            if isinstance(fast, str) or _TOO_LONG not in reference:
                raise DecodeError("; ".join(filter(None, (fast if isinstance(fast, str) else "", reference))))
            return fast, DECODERS
        return (fast, DECODERS) if isinstance(fast, Frames) and _agree(fast, reference) else (reference, DECODERS[-1:])

    def decode_file(
        self, path: Path, media: Media, max_pixels: int | None = None, decoders: Sequence[str] = DECODERS
    ) -> Frames:
        """Decode a local file; a video by the first decoder that does not fail, crash or hang.

        PyAV seeks in a long clip if decord is trusted with it, which seeks too; other clips need a whole pass.
        """
        if media.kind != "video":
            decoders = ["pillow"]
        elif "decord" in decoders:
            decoders = ["seek", *decoders]
        frames = self._frames_by(path, media, max_pixels, decoders)
        if isinstance(frames, str):
            raise DecodeError(frames)
        return frames

    def _frames_by(self, path: Path, media: Media, max_pixels: int | None, decoders: Sequence[str]) -> Frames | str:
        """Return the frames by the first decoder that succeeds, else the reasons."""
        if not path.is_file():
            raise DecodeError(f"{path.name}: no such file")
        request = {
            "kind": media.kind,
            "path": str(path),
            "container": _container(path) if media.kind == "video" else "",
            "frames": media.frames,
            "change": media.change,
            "max_pixels": max_pixels,
            "max_image_pixels": self._max_image_pixels,
        }
        reasons = []
        for decoder in decoders:
            header, pixels = self._request({**request, "decoder": decoder})
            if pixels is not None:
                # A picture's own bytes, if it was not changed and any endpoint reads it alike.
                return frames_from_header(header, pixels, path.read_bytes() if header.get("is_original") else None)
            if decoder != "seek":  # says only that another must decode the clip
                reasons.append(f"{decoder}: {_normalize_error(header['error'])}")
        return "; ".join(reasons)

    def close(self) -> None:
        """Stop the child process."""
        if self._finalizer is not None:
            self._finalizer()
        self._child = self._finalizer = None

    def _running_child(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = _starter(os.getpid()).submit(_start_child).result()
            self._finalizer = weakref.finalize(self, _stop_child, self._child)  # for owners that never call `close`
        return self._child

    def _request(self, request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray | None]:
        child = self._running_child()
        deadline = time.monotonic() + self._timeout_s
        if child.stdin is None or child.stdout is None:
            raise AssertionError("the child was started with pipes")
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            reader = _Reader(child.stdout.fileno(), deadline)
            header: dict[str, Any] = json.loads(reader.read_line())
            if not header["ok"]:
                return header, None
            pixels = np.frombuffer(reader.read_exactly(header["bytes"]), np.uint8).reshape(header["shape"])
        except TimeoutError:
            self.close()
            return {"error": f"{_TOO_LONG} {self._timeout_s:g} s"}, None
        except (BrokenPipeError, EOFError):
            code = child.wait()
            self.close()
            return {"error": f"the decoder crashed (exit {code})"}, None
        return header, pixels


def _check_hash(digest: str, name: str, media: Media) -> None:
    if digest != media.file:
        raise DecodeError(f"{name} is not the file that was ingested (its hash differs); ingest again")


class _Reader:
    def __init__(self, fd: int, deadline: float) -> None:
        self._fd, self._deadline, self._buffer = fd, deadline, b""

    def _read(self, size: int) -> bytes:
        if not select.select([self._fd], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            raise TimeoutError
        chunk = os.read(self._fd, size)
        if not chunk:
            raise EOFError
        return chunk

    def read_line(self) -> bytes:
        while b"\n" not in self._buffer:
            self._buffer += self._read(65536)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def read_exactly(self, size: int) -> bytearray:
        content = bytearray(self._buffer)
        while len(content) < size:
            content += self._read(min(1 << 20, size - len(content)))
        return content


def _normalize_error(error: str) -> str:
    """Drop times and build paths from a decoder's message, so that it is equal for equal files."""
    return re.sub(r"\[\d\d:\d\d:\d\d\] \S+?:\d+: ?", "", error)


def _container(path: Path) -> str:
    try:
        return detect_container(path)
    except (ValueError, OSError) as error:
        raise DecodeError(str(error)) from error


@functools.cache
def _starter(process: int) -> ThreadPoolExecutor:  # noqa: ARG001  a fork has none of its parent's threads
    """Return a thread that lasts as long as the process: Linux ends a child when the thread that started it ends."""
    return ThreadPoolExecutor(1, thread_name_prefix="decoders")


def _start_child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.media.decode_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=decoder_environment(),  # no credentials where hostile files are decoded
        # No `preexec_fn`: Python that runs in the fork may wait for a lock that a thread of this process holds.
    )


def _stop_child(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _agree(fast: Frames, reference: Frames) -> bool:
    """Return whether two decoders count, time and show the sampled frames alike."""
    if fast.total_frames != reference.total_frames or fast.pixels.shape != reference.pixels.shape:
        return False
    times, expected = np.asarray(fast.seconds), np.asarray(reference.seconds)
    half_a_frame = 0.5 / (reference.fps or 1000.0)
    if np.abs((times - times[0]) - (expected - expected[0])).max(initial=0.0) > half_a_frame:
        return False
    # Frames of a still camera differ at a few places only, so that no mean over the picture tells them apart.
    pairs = zip(fast.pixels, reference.pixels, strict=True)
    return all(int(np.abs(a.astype(np.int16) - b).max()) <= _MOST_DIFFERENCE for a, b in pairs)


def frames_from_header(header: Mapping[str, Any], pixels: np.ndarray, encoded: bytes | None = None) -> Frames:
    """Return frames whose times, `fps` and `total` came as JSON."""
    return Frames(
        pixels=pixels,
        seconds=tuple(header["seconds"]),
        fps=header["fps"],
        total_frames=header["total"],
        encoded=encoded,
    )


def blank_frames(media: Media) -> Frames:
    """Return the frames of a single-colour picture or video (`models.messages.blank`)."""
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

"""The process that decodes: run as `python -m pipelines.media.decode_worker`, one request a line on standard input.

Decoders crash and hang on hostile files, so they live here, where nothing is lost with them. Imports stay few: this
process starts in a quarter of a second. A request is one JSON line, a reply one JSON line and then `bytes` raw bytes.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from models.image_formats import PICTURE_FORMS, WANTED
from models.media_sampling import shrunk_size, uniform_indices

MAX_CLIP_BYTES = 2 << 30
"""Decoded frames of one request; more is refused."""
MAX_MEMORY_BYTES = 8 << 30
"""Address space of this process: a bomb that passes the other limits ends here, as one error."""
WHOLE = 0.95
"""Share of the frames that a container states which must be there; encoders miscount by a few."""

Shrink = Callable[[np.ndarray], np.ndarray]


def _shrinker(max_pixels: int | None) -> Shrink:
    def shrink(frame: np.ndarray) -> np.ndarray:
        height, width = frame.shape[:2]
        size = shrunk_size(width, height, max_pixels)
        if size == (width, height):
            return frame
        return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BICUBIC))

    return shrink


def _with_decord(
    path: str, container: str, wanted: int, shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    import decord

    del container  # decord finds it out again
    reader = decord.VideoReader(path, num_threads=1)
    total = len(reader)
    indices = uniform_indices(total, max(wanted, 1))
    if reader[0].shape[2] != 3:
        raise ValueError("decord misreads clips as narrow as this")
    frames = [shrink(reader[index].asnumpy()) for index in indices]
    seconds = [float(t[0]) for t in reader.get_frame_timestamp(indices)]
    return frames, seconds, float(reader.get_avg_fps()), total


def _with_pyav(
    path: str, container: str, wanted: int, shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    """Two passes in presentation order: count, then keep. Slower than decord and harder to upset."""
    import av

    options = {"protocol_whitelist": "file"}
    with av.open(path, format=container, options=options) as opened:
        stated = opened.streams.video[0].frames
        total = sum(1 for _ in opened.decode(video=0))
    if not total:
        raise ValueError("no frame could be decoded")
    if total < stated * WHOLE:
        raise ValueError(f"the file is cut off: {total} of {stated} frames are there")
    indices = set(uniform_indices(total, max(wanted, 1)))
    frames: list[np.ndarray] = []
    seconds: list[float] = []
    with av.open(path, format=container, options=options) as opened:
        fps = float(opened.streams.video[0].average_rate or 0)
        for index, frame in enumerate(opened.decode(video=0)):
            if index in indices:
                frames.append(shrink(frame.to_ndarray(format="rgb24")))
                seconds.append(float(frame.time or 0.0))
    return frames, seconds, fps, total


def _video(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    decoder = {"decord": _with_decord, "pyav": _with_pyav}[request["decoder"]]
    shrink = _shrinker(request["max_pixels"])
    frames, seconds, fps, total = decoder(request["path"], request["container"], request["frames"], shrink)
    if not frames:
        raise ValueError("no frame could be decoded")
    if sum(frame.nbytes for frame in frames) > MAX_CLIP_BYTES:
        raise ValueError(f"the frames need more than {MAX_CLIP_BYTES >> 30} GiB; set limits.max_pixels")
    return {"seconds": seconds, "fps": fps, "total": total}, np.stack(frames)


def _image(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    Image.MAX_IMAGE_PIXELS = request["most_pixels"] // 2  # Pillow raises at twice this number
    try:
        opened = Image.open(request["path"], formats=PICTURE_FORMS)
    except UnidentifiedImageError:
        reason = f"this is no {WANTED} picture, or damaged at its beginning; convert it to PNG or fetch it again"
        raise ValueError(reason) from None
    with opened:
        picture = np.asarray(_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB"))
    picture = _shrinker(request["max_pixels"])(picture)
    return {"seconds": [], "fps": 0.0, "total": 1}, picture[np.newaxis]


def _eight_bits(image: Image.Image) -> Image.Image:
    """Sixteen-bit grey scaled to eight: Pillow's own conversion cuts all above 255 to white."""
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((values >> 8 if values.max(initial=0) > 255 else values).astype(np.uint8))


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    """Decode as asked (`Decoder.decode_file` says what is). Returns the reply's head and uint8 [T, H, W, 3]."""
    head, pixels = (_video if request["kind"] == "video" else _image)(request)
    return {"ok": True, "shape": list(pixels.shape), "bytes": int(pixels.nbytes), **head}, pixels


def serve(lines: IO[str], out: IO[bytes]) -> None:
    """Answer requests until standard input closes."""
    for line in lines:
        try:
            head, pixels = answer(json.loads(line))
        except Exception as error:  # noqa: BLE001  decoders raise anything; the reason goes to the asker
            head, pixels = {"ok": False, "error": f"{type(error).__name__}: {error}"[:300], "bytes": 0}, None
        out.write(json.dumps(head).encode() + b"\n")
        if pixels is not None:
            out.write(np.ascontiguousarray(pixels).data)
        out.flush()


def main(arguments: Sequence[str] = ()) -> None:
    """Serve on standard streams; what decoders print goes to standard error."""
    del arguments
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    serve(sys.stdin, sys.stdout.buffer)


if __name__ == "__main__":
    main()

"""The decoding process: `python -m pipelines.media.decode_worker`, replaceable when a hostile file crashes or hangs it.

A request is one JSON line on standard input, a reply one JSON line followed by `bytes` raw bytes. Imports are few: it
starts in a quarter of a second.
"""

import contextlib
import ctypes
import io
import json
import resource
import signal
import struct
import sys
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from models.image_formats import FORMAT_NAMES, PICTURE_FORMATS
from models.media_sampling import shrunk_size, uniform_indices

MAX_CLIP_BYTES = 2 << 30  # limit of the decoded frames of one request
MAX_MEMORY_BYTES = 8 << 30  # address space: a decompression bomb that passes the other limits ends here as one error
_MATRIX = struct.Struct("<9i")
DECORD_BATCH = 8  # frames of full size held at once; one by one is slower, for decord decodes in a thread of its own
_PYAV_OPTIONS = {"protocol_whitelist": "file"}
LONG_CLIP = 1000  # frames, from which on `_by_seeking` is faster than decord
MIN_FRAME_SHARE = 0.95  # of a container's stated frames must be decodable; encoders miscount by a few
_ORIENTATION = 0x0112  # the tag of EXIF
_EIGHT_BITS = 8  # byte 24 of a PNG is its bit depth

Shrink = Callable[[np.ndarray], np.ndarray]
Pick = Callable[[int], list[int]]  # indices of the frames to show of a clip with so many


def _shrinker(max_pixels: int | None, change: dict[str, int]) -> Shrink:
    """Return what shrinks a frame to a limit, then to a percentage of its pixels, then stores it as JPEG and reads it.

    The latter two are changes of a stress test (`models.messages.Media.source`).
    """

    def shrink(frame: np.ndarray) -> np.ndarray:
        height, width = frame.shape[:2]
        size = shrunk_size(width, height, max_pixels)
        if "pixels" in change:
            size = shrunk_size(*size, max(1, size[0] * size[1] * change["pixels"] // 100))
        if size != (width, height):
            frame = np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BICUBIC))
        return _as_jpeg(frame, change["jpeg"]) if "jpeg" in change else frame

    return shrink


def _as_jpeg(frame: np.ndarray, quality: int) -> np.ndarray:
    stored = io.BytesIO()
    Image.fromarray(frame).save(stored, "JPEG", quality=quality)
    with Image.open(stored, formats=["JPEG"]) as opened:
        return np.asarray(opened.convert("RGB"))


def _changes(request: dict[str, Any]) -> dict[str, int]:
    """Return the numbers of each change by its name; of a span its first and last frame."""
    changes = dict[str, int]()
    for change in filter(None, request["change"].split("~")):
        kind, *numbers = change.split("-")
        changes |= {kind: int(numbers[0])} if len(numbers) == 1 else {kind: int(numbers[0]), "last": int(numbers[1])}
    return changes


def _pick(total: int, count: int, change: dict[str, int]) -> list[int]:
    """Return the indices of the frames to show of a clip, or of a span in it."""
    first = min(change.get("span", 0), max(total - 1, 0))
    end = min(change.get("last", total) + 1, total)
    return [first + index for index in uniform_indices(max(end - first, 0), count, change.get("frames", 0))]


def _with_decord(
    path: str, container: str, pick: Pick, shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    import decord

    del container  # decord detects it again
    reader = decord.VideoReader(path, num_threads=1)
    total = len(reader)
    indices = pick(total)
    frames: list[np.ndarray] = []
    for start in range(0, len(indices), DECORD_BATCH):
        # A video narrower than 32 pixels is an error of decord here.
        frames += [shrink(frame) for frame in reader.get_batch(indices[start : start + DECORD_BATCH]).asnumpy()]
    seconds = [float(t[0]) for t in reader.get_frame_timestamp(indices)]
    return frames, seconds, float(reader.get_avg_fps()), total


def _with_pyav(
    path: str, container: str, pick: Pick, shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    """Decode once in presentation order, or again if not all packets are frames; slower than decord, more robust."""
    import av

    with av.open(path, format=container, options=_PYAV_OPTIONS) as opened:
        stream = _video_stream(opened)
        stated, length = stream.frames, float((stream.duration or 0) * (stream.time_base or 0))
        if length:  # frames outside of an edit list are in the file, and not part of the clip
            stated = min(stated, round(length * float(stream.average_rate or 0)))
        total = sum(1 for packet in opened.demux(stream) if packet.size and not packet.is_discard)
    frames, seconds, fps, decoded = _decode_with_pyav(path, container, set(pick(total)) if total else set(), shrink)
    if not decoded:
        raise ValueError("no frame could be decoded")
    if decoded < stated * MIN_FRAME_SHARE:
        raise ValueError(f"the file is truncated: {decoded} of {stated} frames are present")
    if decoded != total:
        return _decode_with_pyav(path, container, set(pick(decoded)), shrink)
    return frames, seconds, fps, total


def _decode_with_pyav(
    path: str, container: str, indices: set[int], shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    import av

    frames: list[np.ndarray] = []
    seconds: list[float] = []
    total = 0
    with av.open(path, format=container, options=_PYAV_OPTIONS) as opened:
        stream = _video_stream(opened)
        fps = float(stream.average_rate or 0)
        for frame in opened.decode(stream):
            if total in indices:
                frames.append(shrink(np.ascontiguousarray(_displayed(frame))))
                seconds.append(float(frame.time or 0.0))
            total += 1
    return frames, seconds, fps, total


def _by_seeking(
    path: str, container: str, pick: Pick, shrink: Shrink
) -> tuple[list[np.ndarray], list[float], float, int]:
    """Decode a long clip from the key frames before the wanted frames. Return what `_with_pyav` does, or ValueError.

    Damage between those frames stays unseen: only for clips that were decoded wholly before.
    """
    import av

    if container != "mov":  # others do not state the number of frames, or when each is shown
        raise ValueError("its frames cannot be counted without decoding")
    frames: list[np.ndarray] = []
    seconds: list[float] = []
    with av.open(path, format=container, options=_PYAV_OPTIONS) as opened:
        stream = _video_stream(opened)
        packets, times, keys = 0, set[int](), list[int]()
        for packet in opened.demux(stream):
            if packet.size:
                packets += 1
                if packet.pts is not None and not packet.is_discard and not packet.is_corrupt:
                    times.add(packet.pts)
                    keys += [packet.pts] if packet.is_keyframe else []
        ordered, keys = sorted(times), sorted(keys)
        # Each packet is a frame with its own time, and none is missing.
        if not len(ordered) == packets == stream.frames or keys[:1] != ordered[:1]:
            raise ValueError("its frames cannot be counted without decoding")
        if packets < LONG_CLIP:
            raise ValueError(f"fewer than {LONG_CLIP} frames")
        wanted = [ordered[index] for index in sorted(set(pick(packets)))]
        for key, group in groupby(wanted, lambda time: keys[bisect(keys, time) - 1]):
            missing = set(group)
            opened.seek(key, stream=stream)
            for frame in opened.decode(stream):
                if frame.pts in missing and not frame.is_corrupt:
                    missing.remove(frame.pts)
                    frames.append(shrink(np.ascontiguousarray(_displayed(frame))))
                    seconds.append(float(frame.time or 0.0))
                if not missing or frame.pts is None or frame.pts > max(missing):
                    break
            if missing:
                raise ValueError("a frame cannot be decoded from the key frame before it")
        return frames, seconds, float(stream.average_rate or 0), packets


def _displayed(frame: Any) -> np.ndarray:
    """Return a frame's pixels as players show them: turned by quarters, and mirrored, as its display matrix says.

    The matrix (ISO/IEC 14496-12, 8.3.2) maps x to a * x + c * y, and y to b * x + d * y.
    """
    from av.sidedata.sidedata import Type

    pixels: np.ndarray = frame.to_ndarray(format="rgb24")
    matrix = next((bytes(data) for data in frame.side_data if data.type == Type.DISPLAYMATRIX), b"")
    if len(matrix) < _MATRIX.size:
        return pixels
    a, b, _, c, d, *_ = _MATRIX.unpack_from(matrix)
    if abs(a) + abs(d) < abs(b) + abs(c):
        pixels, a, d = pixels.swapaxes(0, 1), c, b
    return pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]


def _video_stream(opened: Any) -> Any:
    """Return the first stream that is a video, not a picture attached to sound."""
    from av.stream import Disposition

    streams = [stream for stream in opened.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise ValueError("no video: its only picture is the cover of a sound")
    return streams[0]


def _video(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    decoder = {"seek": _by_seeking, "decord": _with_decord, "pyav": _with_pyav}[request["decoder"]]
    change = _changes(request)
    shrink = _shrinker(request["max_pixels"], change)
    pick = partial(_pick, count=max(request["frames"], 1), change=change)
    frames, seconds, fps, total = decoder(request["path"], request["container"], pick, shrink)
    if not frames:
        raise ValueError("no frame could be decoded")
    if sum(frame.nbytes for frame in frames) > MAX_CLIP_BYTES:
        raise ValueError(f"the frames need more than {MAX_CLIP_BYTES >> 30} GiB; set limits.max_pixels")
    return {"seconds": seconds, "fps": fps, "total": total}, np.stack(frames)


def _image(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    Image.MAX_IMAGE_PIXELS = request["max_image_pixels"] // 2  # Pillow raises at twice this number
    try:
        opened = Image.open(request["path"], formats=PICTURE_FORMATS)
    except UnidentifiedImageError:
        reason = f"not a {FORMAT_NAMES} picture, or damaged at its beginning; convert it to PNG or fetch it again"
        raise ValueError(reason) from None
    with opened:
        if request.get("is_counted"):
            return {"pixels": opened.width * opened.height}, np.empty(0, np.uint8)
        is_plain = _is_plain(opened, request["path"])
        picture = np.asarray(_on_white(_to_eight_bits(ImageOps.exif_transpose(opened))))
    change = _changes(request)
    shown = _shrinker(request["max_pixels"], change)(picture)
    # Other pictures reach endpoints as these pixels, so that all models see the same.
    is_original = is_plain and not change and shown.shape == picture.shape
    return {"seconds": [], "fps": 0.0, "total": 1, "is_original": is_original}, shown[np.newaxis]


def _is_plain(image: Image.Image, path: str) -> bool:
    """Return whether any server reads the file as we do: 8-bit RGB or grey, no alpha, no orientation, one picture."""
    if image.format not in ("JPEG", "PNG") or image.mode not in ("RGB", "L") or "transparency" in image.info:
        return False
    if getattr(image, "n_frames", 1) != 1 or image.getexif().get(_ORIENTATION, 1) != 1:
        return False
    with Path(path).open("rb") as file:
        return image.format == "JPEG" or file.read(25)[24] == _EIGHT_BITS


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Scale grey of 16 or 32 bits by its range to eight bits: Pillow's conversion clips values above 255 to white."""
    if not image.mode.startswith("I"):
        return image
    bits = 32 if image.format != "PNG" and image.mode == "I" else 16
    values = np.asarray(image).astype(np.int64)
    grey = (values >> (bits - 8)).clip(0, 255).astype(np.uint8)
    grey[values == image.info.get("transparency")] = 255  # one value of a PNG may be transparent
    return Image.fromarray(grey)


def _on_white(image: Image.Image) -> Image.Image:
    """Return the picture in RGB; what is transparent shows white, as on a page, not the colour that hides behind it."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    ground = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(ground, layer).convert("RGB")


def decode(request: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    """Decode a request of `Decoder.decode_file`; return the reply's header and pixels, uint8 [T, H, W, 3]."""
    header, pixels = (_video if request["kind"] == "video" else _image)(request)
    return {"ok": True, "shape": list(pixels.shape), "bytes": int(pixels.nbytes), **header}, pixels


def serve(lines: IO[bytes], out: IO[bytes]) -> None:
    """Serve requests until standard input closes."""
    for line in lines:
        try:
            header, pixels = decode(json.loads(line))
        except Exception as error:  # noqa: BLE001  decoders raise anything; the caller gets the reason
            header, pixels = {"ok": False, "error": f"{type(error).__name__}: {error}"[:300], "bytes": 0}, None
        out.write(json.dumps(header).encode() + b"\n")
        if pixels is not None:
            out.write(np.ascontiguousarray(pixels).data)
        out.flush()


def _die_with_parent() -> None:
    """Have Linux kill this process when its parent dies, so that a killed worker leaves no decoder."""
    with contextlib.suppress(OSError, AttributeError):  # elsewhere the closed pipe ends it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main(arguments: Sequence[str] = ()) -> None:
    """Serve on standard streams; decoders print to standard error."""
    del arguments
    _die_with_parent()
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit != resource.RLIM_INFINITY]
    most = min([MAX_MEMORY_BYTES, *limits])  # `ulimit -v` may be lower
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()

"""Damaged and odd media, made by mutation: the expected outcome of each, and its limits."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
from PIL import Image

__all__ = ["Specimen", "corpus"]

Outcome = Literal["decodes", "refused", "either"]


@dataclass(frozen=True, slots=True)
class Specimen:
    """One file and its expected outcome."""

    name: str
    kind: Literal["image", "video"]
    content: bytes
    outcome: Outcome
    """`either`: a flipped bit may or may not be seen by a decoder; it must not crash, hang or swell."""


def corpus(seed: int = 1) -> Iterator[Specimen]:
    """Yield all specimens; at least 200."""
    draw = Random(seed)
    pictures = {name: _picture(name) for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")}
    clips = {name: _clip(name) for name in ("mp4", "mkv", "avi")}
    for form, content in pictures.items():
        yield from _cut("image", form.lower(), content, draw)
        yield from _flipped("image", form.lower(), content, draw, 12)
    for form, content in clips.items():
        yield from _cut("video", form, content, draw)
        yield from _flipped("video", form, content, draw, 12)
    yield from _wrong_names(pictures, clips)
    yield from _odd_pictures()
    yield from _odd_clips()
    yield from _bombs()
    yield from _rubbish(draw)


def _pixels(width: int = 64, height: int = 48) -> np.ndarray:
    """Return a gradient, uint8 [height, width, 3]."""
    across = np.linspace(0, 255, width, dtype=np.uint8)[None, :]
    down = np.linspace(0, 255, height, dtype=np.uint8)[:, None]
    return np.stack(np.broadcast_arrays(across, down, np.uint8(128)), axis=-1).astype(np.uint8)


def _saved(image: Image.Image, form: str, **options: object) -> bytes:
    sink = io.BytesIO()
    image.save(sink, form, **options)
    return sink.getvalue()


def _picture(form: str) -> bytes:
    return _saved(Image.fromarray(_pixels()), form)


def _clip(form: str, frames: int = 12, width: int = 64, height: int = 48) -> bytes:
    import av

    sink = io.BytesIO()
    codec = {"mp4": "libx264", "mkv": "libx264", "avi": "mpeg4"}[form]
    with av.open(sink, "w", format={"mkv": "matroska"}.get(form, form)) as container:
        stream = container.add_stream(codec, rate=Fraction(10))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            picture = np.roll(_pixels(width, height), index * 3, axis=1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return sink.getvalue()


def _cut(kind: Literal["image", "video"], form: str, content: bytes, draw: Random) -> Iterator[Specimen]:
    yield Specimen(f"empty.{form}", kind, b"", "refused")
    for size in (1, 4, 16):
        yield Specimen(f"first-{size}.{form}", kind, content[:size], "refused")
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield Specimen(f"cut-{share}.{form}", kind, content[: int(share * len(content))], "either")
    start = draw.randrange(1, len(content) // 2)
    yield Specimen(f"headless.{form}", kind, content[start:], "either")


def _flipped(
    kind: Literal["image", "video"], form: str, content: bytes, draw: Random, count: int
) -> Iterator[Specimen]:
    for number in range(count):
        changed = bytearray(content)
        for _ in range(1 + draw.randrange(20)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        yield Specimen(f"flipped-{number}.{form}", kind, bytes(changed), "either")


def _wrong_names(pictures: dict[str, bytes], clips: dict[str, bytes]) -> Iterator[Specimen]:
    yield Specimen("png-named.jpg", "image", pictures["PNG"], "decodes")
    yield Specimen("jpeg-named.png", "image", pictures["JPEG"], "decodes")
    yield Specimen("clip-named.png", "image", clips["mp4"], "refused")
    yield Specimen("matroska-named.mp4", "video", clips["mkv"], "decodes")
    yield Specimen("page.png", "image", b"<html><body>404 Not Found</body></html>", "refused")
    yield Specimen(
        "drawing.svg", "image", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", "refused"
    )
    yield Specimen("text.mp4", "video", b"this is no clip at all\n" * 40, "refused")
    yield Specimen("playlist.mp4", "video", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n", "refused")
    yield Specimen("list.mp4", "video", b"ffconcat version 1.0\nfile '/etc/hostname'\n", "refused")


def _odd_pictures() -> Iterator[Specimen]:
    rgb = Image.fromarray(_pixels())
    deep = Image.fromarray(_pixels()[..., 0].astype(np.uint16) * 257)
    for mode in ("L", "LA", "RGBA", "P", "1", "CMYK"):
        form = "TIFF" if mode == "CMYK" else "PNG"
        yield Specimen(f"mode-{mode}.{form.lower()}", "image", _saved(rgb.convert(mode), form), "decodes")
    yield Specimen("cmyk.jpg", "image", _saved(rgb.convert("CMYK"), "JPEG"), "decodes")
    yield Specimen("deep.png", "image", _saved(deep, "PNG"), "decodes")
    yield Specimen("deep.tiff", "image", _saved(deep, "TIFF"), "decodes")
    yield Specimen(
        "float.tiff", "image", _saved(Image.fromarray(_pixels()[..., 0].astype(np.float32)), "TIFF"), "decodes"
    )
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        yield Specimen(f"turned-{turn}.jpg", "image", _saved(rgb, "JPEG", exif=exif), "decodes")
    several = [Image.fromarray(np.roll(_pixels(), n, axis=0)) for n in range(4)]
    for form in ("GIF", "WEBP", "PNG"):
        moving = _saved(several[0], form, save_all=True, append_images=several[1:])
        yield Specimen(f"moving.{form.lower()}", "image", moving, "decodes")
    yield Specimen("clear.png", "image", _saved(Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "PNG"), "decodes")
    for size in ((1, 1), (1, 100), (100_000, 1), (1, 100_000), (3, 3)):
        yield Specimen(f"{size[0]}x{size[1]}.png", "image", _saved(Image.new("RGB", size), "PNG"), "decodes")


def _odd_clips() -> Iterator[Specimen]:
    for frames in (1, 2, 3):
        yield Specimen(f"frames-{frames}.mp4", "video", _clip("mp4", frames), "decodes")
    yield Specimen("small.mp4", "video", _clip("mp4", width=16, height=16), "decodes")
    yield Specimen("wide.mp4", "video", _clip("mp4", width=1024, height=16), "decodes")
    whole = _clip("mp4")
    yield Specimen("doubled.mp4", "video", whole + whole, "either")
    yield Specimen("tail-of-noughts.mp4", "video", whole + bytes(100_000), "either")
    swapped = whole.replace(b"moov", b"xoov", 1)
    yield Specimen("no-index.mp4", "video", swapped, "refused")


def _bombs() -> Iterator[Specimen]:
    """Yield small files that declare or expand to huge content."""
    for width, height in ((50_000, 50_000), (2**31 - 1, 2**31 - 1), (0, 10), (10, 0), (200_000, 200_000)):
        yield Specimen(f"says-{width}x{height}.png", "image", _png_that_says(width, height), "refused")
    huge = Image.new("1", (30_000, 30_000))
    yield Specimen("blank-30000.png", "image", _saved(huge, "PNG"), "refused")
    yield Specimen("blank-30000.tiff", "image", _saved(huge, "TIFF", compression="group4"), "refused")
    yield Specimen(
        "says-60000.bmp", "image", b"BM" + struct.pack("<IHHIIiiHH", 54, 0, 0, 54, 40, 60_000, 60_000, 1, 24), "refused"
    )
    yield Specimen("says-60000.gif", "image", b"GIF89a" + struct.pack("<HH", 60_000, 60_000) + bytes(40), "refused")


def _png_that_says(width: int, height: int) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def _rubbish(draw: Random) -> Iterator[Specimen]:
    for number in range(8):
        yield Specimen(f"noise-{number}.jpg", "image", draw.randbytes(2000), "refused")
        yield Specimen(f"noise-{number}.mp4", "video", draw.randbytes(2000), "refused")
    jpeg = _picture("JPEG")
    for number in range(6):
        yield Specimen(f"noise-after-head-{number}.jpg", "image", jpeg[:200] + draw.randbytes(2000), "either")
    yield Specimen("noughts.jpg", "image", bytes(5000), "refused")
    yield Specimen("noughts.mp4", "video", bytes(5000), "refused")


def write(folder: Path, specimen: Specimen) -> Path:
    """Put it into a folder."""
    path = folder / specimen.name
    path.write_bytes(specimen.content)
    return path

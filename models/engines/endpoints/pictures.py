"""Pictures and frames of clips as endpoints get them: encoded bytes within an entry's limits."""

from __future__ import annotations

import base64
import io
import math
from typing import TYPE_CHECKING

from models.entry_fields import Limits
from models.image_formats import detect_format
from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Frames, Media

if TYPE_CHECKING:
    from PIL import Image

_SENT_UNCHANGED = ("JPEG", "PNG", "WEBP")
_JPEG_QUALITY = 90
_MAX_PNG_COLOURS = 4096  # with more, on natural frames, PNG is five times larger than JPEG and fifty times slower


def data_uris(media: Media, frames: Frames, limits: Limits) -> list[str]:
    """Return a picture, or each sampled frame of a clip, as a data URI within the limits.

    A picture's original bytes are sent unchanged unless it must shrink; everything else becomes JPEG of quality 90, or
    PNG where that is smaller.
    """
    from PIL import Image

    count, height, width = frames.pixels.shape[:3]
    size = shrunk_size(width, height, limits.max_pixels)
    if media.kind == "image" and frames.encoded is not None and size == (width, height):
        name = detect_format(frames.encoded)
        if name in _SENT_UNCHANGED and len(frames.encoded) <= (limits.max_image_bytes or len(frames.encoded)):
            return [_uri(f"image/{name.lower()}", frames.encoded)]
    uris = []
    for index in uniform_indices(count, limits.max_frames if media.kind == "video" else 1):
        image = Image.fromarray(frames.pixels[index])
        resized = image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)
        uris.append(_uri(*_encode_within(resized, limits.max_image_bytes)))
    return uris


def split_uri(uri: str) -> tuple[str, str]:
    """Return MIME type and base64 data of a data URI."""
    mime_type, _, data = uri.removeprefix("data:").partition(";base64,")
    return mime_type, data


def _encode_within(image: Image.Image, max_bytes: int | None) -> tuple[str, bytes]:
    """Return MIME type and bytes of a picture, shrunk repeatedly until it fits a number of bytes."""
    from PIL import Image as Pictures

    while True:
        mime_type, data = _encode(image)
        if max_bytes is None or len(data) <= max_bytes or min(image.size) <= 1:
            return mime_type, data
        # Bytes are roughly proportional to pixels; the fixed part of the step guarantees that the loop ends.
        scale = min(0.9, 0.95 * math.sqrt(max_bytes / len(data)))
        smaller = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(smaller, Pictures.Resampling.LANCZOS)


def _encode(image: Image.Image) -> tuple[str, bytes]:
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=_JPEG_QUALITY)
    if image.getcolors(_MAX_PNG_COLOURS) is not None:
        png = io.BytesIO()
        image.save(png, "PNG")
        if png.tell() < jpeg.tell():
            return "image/png", png.getvalue()
    return "image/jpeg", jpeg.getvalue()


def _uri(mime_type: str, data: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode('ascii')}"

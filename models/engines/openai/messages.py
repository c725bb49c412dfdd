"""Calls as chat messages: pictures as data URIs first, then the words."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Call, Frames, Media, Text, Turn
from models.spec import Limits

if TYPE_CHECKING:
    from PIL import Image

_MAGIC = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))
_JPEG_QUALITY = 90
_FEW_COLOURS = 4096
"""Above so many colours PNG is not tried: on natural frames it is five times larger and takes fifty times as long."""


def messages(call: Call, pictures: Mapping[Media, Sequence[str]], system: str | None = None) -> list[dict[str, Any]]:
    """The chat messages of one call.

    In each turn all pictures come first, in the order of the parts, then the words as one text; words that a picture
    stood between are parted by a line end.

    Args:
        call: what is asked.
        pictures: data URIs of every media of the call, a clip's in the order of its frames.
        system: said first, before a system turn of the call's own.
    """
    spoken = [_message(turn, pictures) for turn in call.turns]
    if system is None:
        return spoken
    if spoken and spoken[0]["role"] == "system":
        return [{"role": "system", "content": f"{system}\n\n{spoken[0]['content']}"}, *spoken[1:]]
    return [{"role": "system", "content": system}, *spoken]


def _message(turn: Turn, pictures: Mapping[Media, Sequence[str]]) -> dict[str, Any]:
    uris = [uri for part in turn.parts if isinstance(part, Media) for uri in pictures[part]]
    text = _words(turn)
    if not uris:
        return {"role": turn.role, "content": text}
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": uri}} for uri in uris]
    if text:
        content.append({"type": "text", "text": text})
    return {"role": turn.role, "content": content}


def _words(turn: Turn) -> str:
    text, parted = "", False
    for part in turn.parts:
        if isinstance(part, Text):
            if parted and text and not text[-1].isspace() and not part.text[:1].isspace():
                text += "\n"
            text, parted = text + part.text, False
        else:
            parted = True
    # Half a surrogate pair, which JSON files can hold, has no place in UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def data_uris(media: Media, frames: Frames, limits: Limits) -> list[str]:
    """A picture, or each kept frame of a clip, as a data URI.

    A picture's own bytes are passed on untouched unless it must shrink; all else becomes JPEG of quality 90, or PNG
    where that is smaller.

    Args:
        media: what the frames are of.
        frames: uint8 pixels, [frames, height, width, 3].
        limits: `max_pixels` a frame, `max_frames` a clip, `max_image_bytes` an encoded picture.
    """
    from PIL import Image

    count, height, width = frames.pixels.shape[:3]
    size = shrunk_size(width, height, limits.max_pixels)
    if media.kind == "image" and frames.encoded is not None and size == (width, height):
        kind = _kind(frames.encoded)
        if kind is not None and len(frames.encoded) <= (limits.max_image_bytes or len(frames.encoded)):
            return [_uri(kind, frames.encoded)]
    uris = []
    for index in uniform_indices(count, limits.max_frames if media.kind == "video" else 1):
        image = Image.fromarray(frames.pixels[index])
        shown = image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)
        uris.append(_uri(*_within(shown, limits.max_image_bytes)))
    return uris


def _within(image: Image.Image, most: int | None) -> tuple[str, bytes]:
    """Kind and bytes of a picture, shrunk as often as it takes to stay within a number of bytes."""
    from PIL import Image as Pictures

    kind, data = _encoded(image)
    while most is not None and len(data) > most and min(image.size) > 1:
        # Bytes go roughly with pixels; the rest of the step makes sure that it ends.
        scale = min(0.9, 0.95 * math.sqrt(most / len(data)))
        smaller = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(smaller, Pictures.Resampling.LANCZOS)
        kind, data = _encoded(image)
    return kind, data


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def _encoded(image: Image.Image) -> tuple[str, bytes]:
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=_JPEG_QUALITY)
    if image.getcolors(_FEW_COLOURS) is not None:
        png = io.BytesIO()
        image.save(png, "PNG")
        if png.tell() < jpeg.tell():
            return "image/png", png.getvalue()
    return "image/jpeg", jpeg.getvalue()


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"

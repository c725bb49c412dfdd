"""Calls as requests for chat completions: in a message pictures as data URIs first, then the text."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from models.entry_fields import Limits, OptionalParameter
from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Call, Failure, Frames, Media, Text, Turn
from models.spec import ModelSpec

if TYPE_CHECKING:
    from PIL import Image

_MAGIC = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))
_JPEG_QUALITY = 90
_MAX_PNG_COLOURS = 4096  # with more, on natural frames, PNG is five times larger than JPEG and fifty times slower

OPTIONAL_PARAMETERS: Sequence[str] = get_args(OptionalParameter)
"""Left out where an endpoint refuses them."""
UNSCORED = Failure(
    type="unsupported",
    message="an endpoint returns no log-probabilities of given texts; use a model with `engine: transformers`",
)
"""The outcome of a call with `scored` texts."""


def call_messages(
    spec: ModelSpec, call: Call, media: Mapping[Media, Frames], pictures: dict[Media, list[str]]
) -> list[dict[str, Any]]:
    """Return the chat messages of a call of an entry; `pictures` caches the data URIs of its media."""
    for part in dict.fromkeys(call.media):
        if part not in pictures:
            pictures[part] = data_uris(part, media[part], spec.limits)
    return chat_messages(call, pictures, spec.system, spec.detail)


def request_body(
    spec: ModelSpec, call: Call, messages: Sequence[Mapping[str, Any]], limit_name: str, omitted: Collection[str] = ()
) -> dict[str, Any]:
    """Return the body of a call's request as arguments of the client.

    `limit_name` names the limit of new tokens; `omitted` parameters are left out, beside those of the entry.
    """
    parameters = {
        "temperature": call.generation.temperature,
        "seed": call.generation.seed,
        "top_p": spec.top_p,
        "reasoning_effort": spec.reasoning_effort,
        "logprobs": spec.logprobs or None,
        "extra_body": spec.extra_body or None,
    }
    left_out = {*spec.omit_parameters, *omitted}
    return {
        "model": spec.model,
        "messages": messages,
        limit_name: call.generation.max_new_tokens,
        **{name: parameters[name] for name in parameters if name not in left_out and parameters[name] is not None},
    }


def chat_messages(
    call: Call, pictures: Mapping[Media, Sequence[str]], system: str | None = None, detail: str | None = None
) -> list[dict[str, Any]]:
    """Return the chat messages of one call: in each turn all pictures, then the texts joined with line breaks.

    `pictures` holds data URIs, a clip's in the order of its frames; `system` comes before a system turn of the call;
    `detail` asks the server for a resolution of its own.
    """
    messages = [_message(turn, pictures, detail) for turn in call.turns]
    if system is None:
        return messages
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{system}\n\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": system}, *messages]


def _message(turn: Turn, pictures: Mapping[Media, Sequence[str]], detail: str | None) -> dict[str, Any]:
    uris = [uri for part in turn.parts if isinstance(part, Media) for uri in pictures[part]]
    text = _text(turn)
    if not uris:
        return {"role": turn.role, "content": text}
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": uri, **({"detail": detail} if detail else {})}} for uri in uris
    ]
    if text:
        content.append({"type": "text", "text": text})
    return {"role": turn.role, "content": content}


def _text(turn: Turn) -> str:
    text, is_split = "", False
    for part in turn.parts:
        if isinstance(part, Text):
            if is_split and text and not text[-1].isspace() and not part.text[:1].isspace():
                text += "\n"
            text, is_split = text + part.text, False
        else:
            is_split = True
    # Half a surrogate pair, which JSON files can hold, cannot be encoded in UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def data_uris(media: Media, frames: Frames, limits: Limits) -> list[str]:
    """Return a picture, or each sampled frame of a clip, as a data URI within the limits.

    A picture's original bytes are sent unchanged unless it must shrink; everything else becomes JPEG of quality 90, or
    PNG where that is smaller.
    """
    from PIL import Image

    count, height, width = frames.pixels.shape[:3]
    size = shrunk_size(width, height, limits.max_pixels)
    if media.kind == "image" and frames.encoded is not None and size == (width, height):
        mime_type = _mime_type(frames.encoded)
        if mime_type is not None and len(frames.encoded) <= (limits.max_image_bytes or len(frames.encoded)):
            return [_uri(mime_type, frames.encoded)]
    uris = []
    for index in uniform_indices(count, limits.max_frames if media.kind == "video" else 1):
        image = Image.fromarray(frames.pixels[index])
        resized = image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)
        uris.append(_uri(*_encode_within(resized, limits.max_image_bytes)))
    return uris


def _encode_within(image: Image.Image, max_bytes: int | None) -> tuple[str, bytes]:
    """Return MIME type and bytes of a picture, shrunk repeatedly until it fits a number of bytes."""
    from PIL import Image as Pictures

    mime_type, data = _encode(image)
    while max_bytes is not None and len(data) > max_bytes and min(image.size) > 1:
        # Bytes are roughly proportional to pixels; the fixed part of the step guarantees that the loop ends.
        scale = min(0.9, 0.95 * math.sqrt(max_bytes / len(data)))
        smaller = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(smaller, Pictures.Resampling.LANCZOS)
        mime_type, data = _encode(image)
    return mime_type, data


def _mime_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime_type for magic, mime_type in _MAGIC if data.startswith(magic)), None)


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

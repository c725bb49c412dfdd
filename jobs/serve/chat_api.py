"""Convert OpenAI chat requests to calls, and answers and failures to replies."""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator

from models.image_formats import detect_format
from models.messages import Answer, Call, Failure, Frames, Generation, Media, Part, Role, Text, Turn
from models.spec import ModelSpec
from pipelines.errors import DecodeError

MAX_IMAGE_BYTES = 20 << 20
MAX_PIXELS = 64_000_000  # an image of a few kilobytes can decompress to gigabytes
Decode: TypeAlias = "Callable[[bytes, int | None], Frames]"
"""Decodes an image file in a process of its own, shrunk to a number of pixels; raises a `DecodeError`."""
_NEUTRAL: dict[str, object] = {
    **dict.fromkeys(("stream", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "min_p"), 0),
    **dict.fromkeys(("min_tokens", "ignore_eos", "use_beam_search"), 0),
    **dict.fromkeys(("n", "best_of", "top_p", "repetition_penalty", "length_penalty"), 1),
    **{option: [] for option in ("stop", "stop_token_ids", "bad_words")},
    **dict.fromkeys(("tools", "functions", "structured_outputs", "reasoning_effort")),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar")),
    "logit_bias": {},
    "top_k": -1,
    "response_format": {"type": "text"},
}
"""Options, of OpenAI and vLLM, that would change the answer, and the values with which they do not."""
_REFUSED_CONTENT = {"context_length": "context_length_exceeded", "preprocess": "invalid_content"}
"""Failures that a request's own content causes, which would recur in every attempt, and their codes."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_DATA_URI = re.compile(r"data:image/(?:png|jpe?g|webp|gif);base64,", re.IGNORECASE)


class BadRequestError(ValueError):
    """The request is invalid; status and code go into the reply."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat request prepared for an engine. Its call id, which seeds the sampling, is '' without a seed."""

    call: Call
    media: dict[Media, Frames]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _TextPart(_Loose):
    type: Literal["text"]
    text: str


class _Address(_Loose):
    url: str


class _ImagePart(_Loose):
    type: Literal["image_url"]
    image_url: _Address


class _Message(_Loose):
    role: Literal["system", "developer", "user", "assistant"]
    content: list[Annotated[_TextPart | _ImagePart, Field(discriminator="type")]]

    @field_validator("content", mode="before")
    @classmethod
    def _as_parts(cls, value: Any) -> Any:
        return [{"type": "text", "text": value}] if isinstance(value, str) else value


class _Chat(_Loose):
    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    model: str
    messages: list[_Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    seed: int | None = None


def read_chat(body: bytes, *, name: str, spec: ModelSpec, decode: Decode) -> ChatRequest:
    """Parse a request body into a call. Equal requests with equal seeds are equal calls.

    Options that would change the answer (`_NEUTRAL`) are refused. Images must be data URIs of at most `MAX_PIXELS`
    pixels: an address would make this machine fetch what a client names. Without `generation` in the spec: greedy, 256
    tokens.

    Raises:
        BadRequestError: with the status and message of the reply.
    """
    try:
        chat = _Chat.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(key) for key in first["loc"])
        raise BadRequestError(f"{where or 'body'}: {first['msg']}", param=where or None) from None
    if chat.model != name:
        raise BadRequestError(
            f"The model {chat.model!r} does not exist; {name!r} is served here", status=404, code="model_not_found"
        )
    for option, neutral in _NEUTRAL.items():
        if (chat.model_extra or {}).get(option) not in (None, neutral):
            raise BadRequestError(f"{option}: not supported here, leave it out", param=option)
    media: dict[Media, Frames] = {}
    turns = tuple(_turn(message, spec, media, decode) for message in chat.messages)
    generation = _generation(chat, spec)
    content = "" if chat.seed is None else hashlib.sha256(repr((turns, generation)).encode()).hexdigest()
    return ChatRequest(call=Call(call_id=content, turns=turns, generation=generation), media=media)


def _generation(chat: _Chat, spec: ModelSpec) -> Generation:
    defaults = spec.generation.model_dump(exclude_none=True)
    requested = {
        "temperature": chat.temperature,
        "max_new_tokens": chat.max_completion_tokens or chat.max_tokens,
        "seed": chat.seed,
    }
    return Generation(**{**defaults, **{key: value for key, value in requested.items() if value is not None}})


def _turn(message: _Message, spec: ModelSpec, media: dict[Media, Frames], decode: Decode) -> Turn:
    role: Role = "system" if message.role == "developer" else message.role
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, _TextPart):
            parts.append(Text(part.text))
        else:
            key, frames = _image(part.image_url.url, spec, decode)
            media[key] = frames
            parts.append(key)
    return Turn(role, tuple(parts))


def _image(uri: str, spec: ModelSpec, decode: Decode) -> tuple[Media, Frames]:
    head = _DATA_URI.match(uri)
    if not head:
        raise BadRequestError(
            "image_url: only data URIs are accepted (data:image/png;base64,...; png, jpeg, webp, gif); "
            "nothing is fetched",
            param="messages",
        )
    if len(uri) - head.end() > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise BadRequestError(f"image_url: more than {MAX_IMAGE_BYTES >> 20} MiB", param="messages")
    try:
        data = base64.b64decode(uri[head.end() :], validate=True)
        frames = decode(_checked(data), spec.limits.max_pixels)
    except (binascii.Error, ValueError, DecodeError) as error:
        raise BadRequestError(f"image_url: not a readable image ({error})", param="messages") from None
    return Media("image", hashlib.sha256(data).hexdigest()), Frames(pixels=frames.pixels)


def _checked(data: bytes) -> bytes:
    if detect_format(data) not in _FORMATS:
        raise ValueError(f"its content is not {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
    return data


def model_list(name: str) -> dict[str, Any]:
    """Return the reply of `/v1/models`."""
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "vlmsweep"}]}


def completion(answer: Answer, *, name: str, call_id: str, created: int) -> dict[str, Any]:
    """Return the reply of `/v1/chat/completions`; `created` in Unix seconds."""
    return {
        "id": f"chatcmpl-{call_id}",
        "object": "chat.completion",
        "created": created,
        "model": name,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer.text, "refusal": None},
                "finish_reason": answer.finish_reason,
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        },
    }


def error_body(message: str, *, kind: str, code: str | None = None, param: str | None = None) -> Mapping[str, Any]:
    """Return an error in OpenAI's format."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(failure: Failure) -> tuple[int, Mapping[str, Any]]:
    """Return status and body for a call that the engine could not answer."""
    if code := _REFUSED_CONTENT.get(failure.type):
        return 400, error_body(failure.message, kind="invalid_request_error", code=code)
    return 500, error_body(failure.message, kind="server_error", code=failure.type)

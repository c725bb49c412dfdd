"""Convert OpenAI chat requests to calls, and answers and failures to replies."""

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from models.image_formats import detect_format
from models.messages import Answer, Call, Failure, Frames, Generation, Media, Part, Role, Text, Turn
from models.spec import ModelSpec
from pipelines.errors import DecodeError

MAX_IMAGE_BYTES = 20 << 20
MAX_PIXELS = 64_000_000  # an image of a few kilobytes can decompress to gigabytes
Decode: TypeAlias = "Callable[[bytes, int | None], Frames]"
"""Decodes an image file in a process of its own, shrunk to a number of pixels; raises a `DecodeError`."""
Count: TypeAlias = Callable[[bytes], int]
"""Returns the number of pixels of an image file by its header; raises a `DecodeError`."""
_NEUTRAL: dict[str, object] = {
    **dict.fromkeys(("logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "min_p"), 0),
    **dict.fromkeys(("min_tokens", "ignore_eos", "use_beam_search", "continue_final_message", "echo"), 0),
    **dict.fromkeys(("include_stop_str_in_output", "add_special_tokens", "priority"), 0),
    **dict.fromkeys(("n", "best_of", "top_p", "repetition_penalty", "length_penalty", "typical_p"), 1),
    **dict.fromkeys(("add_generation_prompt", "skip_special_tokens", "spaces_between_special_tokens"), 1),
    **{option: [] for option in ("stop", "stop_token_ids", "bad_words", "documents")},
    **dict.fromkeys(("tools", "functions", "structured_outputs", "reasoning_effort", "verbosity", "prediction")),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar", "allowed_token_ids")),
    **dict.fromkeys(("chat_template", "truncate_prompt_tokens", "prompt_logprobs", "audio", "web_search_options")),
    "chat_template_kwargs": {},
    "function_call": "none",
    "logit_bias": {},
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "service_tier": "auto",
    "tool_choice": "none",
    "top_k": -1,
}
"""Options, of OpenAI and vLLM, that would change the answer, and the values with which they do not."""
_HARMLESS = ("user", "metadata", "store", "safety_identifier", "prompt_cache_key", "parallel_tool_calls")
"""Options that change no answer, whatever their value. Every other name is refused."""
_EMPTY = ("refusal", "audio", "tool_calls", "function_call", "annotations", "reasoning", "reasoning_content")
"""Fields of a reply's message that a client may send back, when they are empty."""
MAX_SIGNS = 1_000_000
"""Brackets, quotes and commas of a body: each may become an object of a hundred bytes. Pictures hold none."""
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
class Bounds:
    """What one request may hold, and how long it may take; each has a flag of `serve`."""

    pictures: int = 64
    pixels: int = 128_000_000  # of all pictures together
    messages: int = 1_000  # with their parts
    body_bytes: int = 64 << 20
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat request prepared for an engine. Its call id, which seeds the sampling, is '' without a seed."""

    call: Call
    media: dict[Media, Frames]
    is_streamed: bool = False
    has_usage: bool = True  # in the stream

    @property
    def media_bytes(self) -> int:
        """The memory that its pictures take."""
        return sum(frames.pixels.nbytes for frames in self.media.values())


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _TextPart(_Strict):
    type: Literal["text"]
    text: str


class _Address(_Strict):
    url: str
    detail: Literal["auto"] | None = None


class _ImagePart(_Strict):
    type: Literal["image_url"]
    image_url: _Address


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: list[Annotated[_TextPart | _ImagePart, Field(discriminator="type")]]

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if name not in _EMPTY or item not in (None, [], "")}

    @field_validator("content", mode="before")
    @classmethod
    def _as_parts(cls, value: Any) -> Any:
        return [{"type": "text", "text": value}] if isinstance(value, str) else value


class _StreamOptions(_Strict):
    include_usage: bool = False


class _Chat(_Strict):
    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    seed: int | None = None

    @field_validator("messages", mode="before")
    @classmethod
    def _few_enough(cls, value: Any, info: ValidationInfo) -> Any:
        most = info.context["messages"] if info.context else math.inf
        count = 0
        for message in value if isinstance(value, list) else ():
            parts = message.get("content") if isinstance(message, dict) else None
            count += 1 + (len(parts) if isinstance(parts, list) else 0)
            if count > most:
                raise ValueError(f"more than {most:,} messages and parts of messages (--max-messages)")
        return value


def read_chat(
    body: bytes,
    *,
    name: str,
    spec: ModelSpec,
    decode: Decode,
    count: Count,
    bounds: Bounds = Bounds(),
) -> ChatRequest:
    """Parse a request body into a call. Equal requests with equal seeds are equal calls.

    Options that would change the answer (`_NEUTRAL`) and unknown ones are refused, and what is above the bounds. Images
    must be data URIs of at most `MAX_PIXELS` pixels: an address would make this machine fetch what a client names.
    Without `generation` in the spec: greedy, 256 tokens.

    Raises:
        BadRequestError: with the status and message of the reply.
    """
    if sum(map(body.count, (b"{", b"[", b'"', b","))) > MAX_SIGNS:
        raise BadRequestError(f"the request holds more than {MAX_SIGNS:,} brackets, quotes and commas", status=413)
    try:
        chat = _Chat.model_validate_json(body, context={"messages": bounds.messages})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(key) for key in first["loc"])
        problem = "not supported here, leave it out" if first["type"] == "extra_forbidden" else first["msg"]
        problem = problem.removeprefix("Value error, ")
        raise BadRequestError(f"{where or 'body'}: {problem}", param=where or None) from None
    if chat.model != name:
        raise BadRequestError(
            f"The model {chat.model!r} does not exist; {name!r} is served here", status=404, code="model_not_found"
        )
    _check_options(chat)
    files = _picture_files(chat, bounds, count)
    media: dict[Media, Frames] = {}
    turns = tuple(_turn(message, spec, files, media, decode) for message in chat.messages)
    generation = _generation(chat, spec)
    content = "" if chat.seed is None else hashlib.sha256(repr((turns, generation)).encode()).hexdigest()
    return ChatRequest(
        call=Call(call_id=content, turns=turns, generation=generation),
        media=media,
        is_streamed=bool(chat.stream),
        has_usage=bool(chat.stream_options and chat.stream_options.include_usage),
    )


def _check_options(chat: _Chat) -> None:
    for option, value in (chat.model_extra or {}).items():
        if option in _HARMLESS or (option in _NEUTRAL and value in (None, _NEUTRAL[option])):
            continue
        name = option if len(option) <= _LONGEST_NAME else f"{option[:_LONGEST_NAME]}..."
        raise BadRequestError(f"{name}: not supported here, leave it out", param=name)
    if chat.stream_options and not chat.stream:
        raise BadRequestError("stream_options: only with stream: true", param="stream_options")
    if chat.messages[-1].role == "assistant":
        raise BadRequestError(
            "messages: the last message is from the assistant; end with a user message", param="messages"
        )


_LONGEST_NAME = 80


def _picture_files(chat: _Chat, bounds: Bounds, count: Count) -> dict[str, bytes]:
    """Return the files of the pictures by their addresses, each once; BadRequestError above the bounds."""
    addresses = [part.image_url.url for turn in chat.messages for part in turn.content if isinstance(part, _ImagePart)]
    if len(addresses) > bounds.pictures:
        raise BadRequestError(f"{len(addresses):,} pictures, at most {bounds.pictures:,} (--max-pictures)")
    files, pixels = dict[str, bytes](), 0
    for address in dict.fromkeys(addresses):
        files[address] = _file(address)
        try:
            pixels += count(files[address])
        except DecodeError as error:
            raise _unreadable(error) from None
        if pixels > bounds.pixels:
            raise BadRequestError(
                f"the pictures have more than {bounds.pixels:,} pixels together (--max-total-pixels)",
                param="messages",
            )
    return files


def _generation(chat: _Chat, spec: ModelSpec) -> Generation:
    defaults = spec.generation.model_dump(exclude_none=True)
    requested = {
        "temperature": chat.temperature,
        "max_new_tokens": chat.max_completion_tokens or chat.max_tokens,
        "seed": chat.seed,
    }
    return Generation(**{**defaults, **{key: value for key, value in requested.items() if value is not None}})


def _turn(
    message: _Message, spec: ModelSpec, files: Mapping[str, bytes], media: dict[Media, Frames], decode: Decode
) -> Turn:
    role: Role = "system" if message.role == "developer" else message.role
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, _TextPart):
            parts.append(Text(part.text))
        else:
            content = files[part.image_url.url]
            key = Media("image", hashlib.sha256(content).hexdigest())
            if key not in media:
                try:
                    media[key] = Frames(pixels=decode(content, spec.limits.max_pixels).pixels)
                except DecodeError as error:
                    raise _unreadable(error) from None
            parts.append(key)
    return Turn(role, tuple(parts))


def _unreadable(error: Exception) -> BadRequestError:
    return BadRequestError(f"image_url: not a readable image ({error})", param="messages")


def _file(uri: str) -> bytes:
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
    except (binascii.Error, ValueError) as error:
        raise _unreadable(error) from None
    if detect_format(data) not in _FORMATS:
        problem = f"its content is not {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}"
        raise _unreadable(ValueError(problem))
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


def chunks(reply: Mapping[str, Any], *, has_usage: bool) -> Iterator[bytes]:
    """Yield a reply as the server-sent events of a stream: role, text, end, and the usage if it was requested.

    The text comes at once: engines answer in batches.
    """
    (choice,) = reply["choices"]
    text = choice["message"]["content"]
    head = {name: reply[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": text}, None)] if text else []
    for delta, reason in (*deltas, ({}, choice["finish_reason"])):
        item = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        yield _event({**head, "choices": [item], **({"usage": None} if has_usage else {})})
    if has_usage:
        yield _event({**head, "choices": [], "usage": reply["usage"]})
    yield b"data: [DONE]\n\n"


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def error_body(message: str, *, kind: str, code: str | None = None, param: str | None = None) -> Mapping[str, Any]:
    """Return an error in OpenAI's format."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(failure: Failure) -> tuple[int, Mapping[str, Any]]:
    """Return status and body for a call that the engine could not answer."""
    if code := _REFUSED_CONTENT.get(failure.type):
        return 400, error_body(failure.message, kind="invalid_request_error", code=code)
    return 500, error_body(failure.message, kind="server_error", code=failure.type)

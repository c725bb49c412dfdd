"""The Anthropic Messages and Gemini protocols of a scripted endpoint, by chat requests and completions.

A request is translated into one for chat completions, so that a script reads the same whatever protocol it answers,
and the completion into the protocol's reply. Unknown fields are refused, as by the real servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["CHAT", "ChatProtocol", "RefusedBodyError", "protocol_of"]

_ANTHROPIC_FIELDS = {
    *("model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "thinking", "output_config"),
    *("metadata", "stop_sequences", "stream"),
}
_GEMINI_FIELDS = {"contents", "systemInstruction", "generationConfig", "safetySettings"}
_GEMINI_SETTINGS = {
    *("maxOutputTokens", "temperature", "topP", "topK", "seed", "responseLogprobs", "mediaResolution"),
    "thinkingConfig",
}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_NAMES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


class RefusedBodyError(ValueError):
    """A body that the protocol does not know."""


class ChatProtocol(Protocol):
    """How one protocol's bodies become chat requests, and completions its replies."""

    def to_chat(self, body: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> dict[str, Any]: ...

    def reply(self, completion: Mapping[str, Any]) -> dict[str, Any]: ...

    def error(self, status: int, message: str, code: str | None) -> dict[str, Any]: ...


@dataclass(frozen=True)
class _Chat:
    def to_chat(self, body: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        return dict(body)

    def reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        return dict(completion)

    def error(self, status: int, message: str, code: str | None) -> dict[str, Any]:
        return {"error": {"message": message, "type": "scripted", "code": code}}


@dataclass(frozen=True)
class _Anthropic:
    def to_chat(self, body: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        _check_fields(body, _ANTHROPIC_FIELDS)
        if headers.get("anthropic-version") != "2023-06-01":
            raise RefusedBodyError("anthropic-version: header is required")
        turns = [{"role": "system", "content": body["system"]}] if "system" in body else []
        for message in body["messages"]:
            _check_fields(message, {"role", "content"})
            if message["role"] not in ("user", "assistant"):
                raise RefusedBodyError(f"messages: unexpected role {message['role']!r}")
            content = message["content"]
            parts = content if isinstance(content, str) else [_anthropic_part(block) for block in content]
            turns.append({"role": message["role"], "content": parts})
        thinking = body.get("thinking", {})
        if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            raise RefusedBodyError("`max_tokens` must be greater than `thinking.budget_tokens`, at least 1024")
        return {"model": body["model"], "messages": turns, "max_tokens": body["max_tokens"]}

    def reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        (choice,), usage = completion["choices"], completion["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        written = usage["prompt_tokens_details"].get("cache_write_tokens", 0)
        text = choice["message"]["content"]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": completion["model"],
            "content": [] if text is None else [{"type": "text", "text": text}],
            "stop_reason": _STOPS[choice["finish_reason"]],
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage["prompt_tokens"] - cached - written,
                "cache_creation_input_tokens": written,
                "cache_read_input_tokens": cached,
                "output_tokens": usage["completion_tokens"],
            },
        }

    def error(self, status: int, message: str, code: str | None) -> dict[str, Any]:
        return {"type": "error", "error": {"type": code or _TYPES.get(status, "api_error"), "message": message}}


def _anthropic_part(block: Mapping[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        _check_fields(block, {"type", "text", "cache_control"})
        return {"type": "text", "text": block["text"]}
    _check_fields(block, {"type", "source", "cache_control"})
    source = block["source"]
    return {"type": "image_url", "image_url": {"url": f"data:{source['media_type']};base64,{source['data']}"}}


@dataclass(frozen=True)
class _Gemini:
    def to_chat(self, body: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        _check_fields(body, _GEMINI_FIELDS)
        settings = body["generationConfig"]
        _check_fields(settings, _GEMINI_SETTINGS)
        system = body.get("systemInstruction")
        turns = [{"role": "system", "content": system["parts"][0]["text"]}] if system else []
        for content in body["contents"]:
            role = {"user": "user", "model": "assistant"}[content["role"]]
            turns.append({"role": role, "content": [_gemini_part(part) for part in content["parts"]]})
        model = path.partition("/models/")[2].partition(":")[0]
        return {"model": model, "messages": turns, "max_tokens": settings["maxOutputTokens"]}

    def reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        (choice,), usage = completion["choices"], completion["usage"]
        text = choice["message"]["content"]
        content = {} if text is None else {"content": {"role": "model", "parts": [{"text": text}]}}
        return {
            "candidates": [{**content, "finishReason": _FINISHES[choice["finish_reason"]], "index": 0}],
            "usageMetadata": {
                "promptTokenCount": usage["prompt_tokens"],
                "cachedContentTokenCount": usage["prompt_tokens_details"]["cached_tokens"],
                "candidatesTokenCount": usage["completion_tokens"],
                "totalTokenCount": usage["total_tokens"],
            },
            "modelVersion": completion["model"],
        }

    def error(self, status: int, message: str, code: str | None) -> dict[str, Any]:
        return {"error": {"code": status, "message": message, "status": code or _NAMES.get(status, "INTERNAL")}}


def _gemini_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    data = part["inlineData"]
    return {"type": "image_url", "image_url": {"url": f"data:{data['mimeType']};base64,{data['data']}"}}


def _check_fields(body: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(body.keys() - allowed)
    if unknown:
        raise RefusedBodyError(f"{unknown[0]}: Extra inputs are not permitted")


CHAT: ChatProtocol = _Chat()


def protocol_of(path: str) -> ChatProtocol | None:
    """Return the protocol of a request to a path; None for an unknown path."""
    path = path.partition("?")[0]
    if path.endswith("/chat/completions"):
        return CHAT
    if path.endswith("/v1/messages"):
        return _Anthropic()
    return _Gemini() if path.endswith(":generateContent") else None

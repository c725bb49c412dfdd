"""A chat completion as endpoints return it, and the answer in it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from pydantic import BaseModel, Field

from models.messages import Answer


class _TextPart(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_TextPart] | None = None
    refusal: str | None = None
    reasoning_content: object = None  # the thoughts, of vLLM up to 0.13 and others
    reasoning: object = None  # the same, of newer servers

    @property
    def thoughts(self) -> str | None:
        """The thoughts that the server has split off; None where it tells none."""
        return next((text for text in (self.reasoning_content, self.reasoning) if isinstance(text, str) and text), None)


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: object = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Completion(BaseModel):
    """The fields of a chat completion that are read; others are ignored, for servers differ."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None

    def answer(self) -> Answer:
        """Return the first choice. Null content is an empty answer, and a refusal is an answer."""
        choice, usage = self.choices[0], self.usage or _Usage()
        content = choice.message.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        details = usage.prompt_tokens_details or _Details()
        return Answer(
            text=content or choice.message.refusal or "",
            finish_reason=choice.finish_reason or "stop",
            input_tokens=usage.prompt_tokens or 0,
            output_tokens=usage.completion_tokens or 0,
            cached_tokens=details.cached_tokens or 0,
            mean_logprob=_mean_logprob(choice.logprobs),
            reasoning=choice.message.thoughts,
        )


def _mean_logprob(logprobs: object) -> float | None:
    """Return the mean over the tokens, in nats; None where the reply holds none, or in a form of its own."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(tokens, list):
        return None
    values = [token.get("logprob") if isinstance(token, Mapping) else None for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float)]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None

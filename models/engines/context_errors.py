"""Recognise what servers and engines say about a prompt that is too long for the model's context."""

import re

_TOO_LONG = re.compile(
    # codes of OpenAI and of LiteLLM
    r"context_length_exceeded|context ?window ?exceeded"
    # OpenAI, Azure, vLLM, Mistral, llama.cpp
    r"|(?:maximum|model'?s|available|supported) context (?:length|size|window)"
    # SGLang, OpenAI's responses
    r"|exceeds? the (?:model'?s )?(?:maximum )?context|longer than the model'?s context"
    # vLLM and Ollama
    r"|longer than the (?:maximum )?model length|exceeds? (?:the )?context|max_model_len|request fewer output tokens"
    # Anthropic and Bedrock
    r"|exceed context limit|prompt is too long|input is too long"
    # xAI, DashScope, Gemini
    r"|maximum prompt length|input length should be|token count.{0,60}exceeds"
    r"|exceeds the maximum number of (?:input )?tokens"
    # TGI
    r"|`inputs` (?:tokens|must have less than)|inputs must have less than"
    # Groq, vLLM, Cohere
    r"|reduce the length of the (?:messages|input|prompt)|too many tokens.{0,60}prompt",
    re.IGNORECASE,
)


def is_too_long(message: str) -> bool:
    """Return whether an error says that a prompt, with its answer, exceeds the model's context."""
    return _TOO_LONG.search(message) is not None

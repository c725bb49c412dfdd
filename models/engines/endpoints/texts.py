"""Texts of turns as endpoints get them, and the mark that ends what a provider is to cache."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from models.messages import Call, Media, Text, Turn
from models.spec import ModelSpec

MARK: Final = "cache_control"


def turn_text(turn: Turn) -> str:
    """Return the texts of a turn, joined by line breaks where a picture was between them."""
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


def chat_message(
    turn: Turn, pictures: Mapping[Media, Sequence[str]], picture: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a turn as a message: its pictures, each as `picture` makes it of a data URI, then the text."""
    content = [picture(uri) for part in turn.parts if isinstance(part, Media) for uri in pictures[part]]
    text = turn_text(turn)
    if content and text:
        content.append({"type": "text", "text": text})
    return {"role": turn.role, "content": content or text}


def system_text(spec: ModelSpec, call: Call) -> str | None:
    """Return the system prompt of an entry and the system turns of a call, for APIs that have it beside the turns."""
    texts = [spec.system, *(turn_text(turn) for turn in call.turns if turn.role == "system")]
    return "\n\n".join(filter(None, texts)) or None


def marked_messages(messages: Sequence[Mapping[str, Any]], pictures: int) -> list[Mapping[str, Any]]:
    """Return messages with a mark on the last of the first `pictures` pictures, which come first in their message."""
    first = next(number for number, message in enumerate(messages) if not isinstance(message["content"], str))
    content = list(messages[first]["content"])
    content[pictures - 1] = {**content[pictures - 1], MARK: {"type": "ephemeral"}}
    return [*messages[:first], {**messages[first], "content": content}, *messages[first + 1 :]]

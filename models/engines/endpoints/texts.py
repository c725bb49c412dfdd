"""Texts of turns as endpoints get them, and the mark that ends what a provider is to cache."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from models.messages import Call, Media, Text, Turn
from models.spec import ModelSpec

MARK: Final = "cache_control"


def parts_in_order(turn: Turn) -> list[str | Media]:
    """Return the texts and media of a turn in their order, adjacent texts as one."""
    parts: list[str | Media] = []
    for part in turn.parts:
        if isinstance(part, Media):
            parts.append(part)
        elif isinstance(part, Text) and part.text:
            # Half a surrogate pair, which JSON files can hold, cannot be encoded in UTF-8.
            text = part.text.encode("utf-8", "replace").decode("utf-8")
            if parts and isinstance(parts[-1], str):
                parts[-1] += text
            else:
                parts.append(text)
    return parts


def turn_text(turn: Turn) -> str:
    """Return the texts of a turn."""
    return "".join(part for part in parts_in_order(turn) if isinstance(part, str))


def chat_message(
    turn: Turn, pictures: Mapping[Media, Sequence[str]], picture: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a turn as a message: its pictures, each as `picture` makes it of a data URI, and texts, in their order."""
    content: list[dict[str, Any]] = []
    for part in parts_in_order(turn):
        content += [{"type": "text", "text": part}] if isinstance(part, str) else map(picture, pictures[part])
    has_pictures = any(isinstance(part, Media) for part in turn.parts)
    return {"role": turn.role, "content": content if has_pictures else turn_text(turn)}


def system_text(spec: ModelSpec, call: Call) -> str | None:
    """Return the system prompt of an entry and the system turns of a call, for APIs that have it beside the turns."""
    texts = [spec.system, *(turn_text(turn) for turn in call.turns if turn.role == "system")]
    return "\n\n".join(filter(None, texts)) or None


def marked_messages(messages: Sequence[Mapping[str, Any]], pictures: int) -> list[Mapping[str, Any]]:
    """Return messages with a mark on the last of the first `pictures` pictures."""
    first = next(number for number, message in enumerate(messages) if not isinstance(message["content"], str))
    content = list(messages[first]["content"])
    places = [number for number, part in enumerate(content) if part["type"] != "text"]
    last = places[pictures - 1]
    content[last] = {**content[last], MARK: {"type": "ephemeral"}}
    return [*messages[:first], {**messages[first], "content": content}, *messages[first + 1 :]]

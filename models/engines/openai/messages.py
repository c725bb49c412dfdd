"""Calls as chat messages: in a message pictures as data URIs first, then the text."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.engines.endpoints.texts import chat_message
from models.messages import Call, Media


def chat_messages(
    call: Call, pictures: Mapping[Media, Sequence[str]], system: str | None = None, detail: str | None = None
) -> list[dict[str, Any]]:
    """Return the chat messages of one call: in each turn all pictures, then the texts joined with line breaks.

    `pictures` holds data URIs, a clip's in the order of its frames; `system` comes before a system turn of the call;
    `detail` asks the server for a resolution of its own.
    """
    further = {"detail": detail} if detail else {}
    messages = [
        chat_message(turn, pictures, lambda uri: {"type": "image_url", "image_url": {"url": uri, **further}})
        for turn in call.turns
    ]
    if system is None:
        return messages
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{system}\n\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": system}, *messages]

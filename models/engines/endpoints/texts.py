"""Texts of turns as endpoints get them."""

from __future__ import annotations

from models.messages import Text, Turn


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

"""Clean foreign text, such as names of models, ids and messages of endpoints, before anything shows it; word counts."""

import re
import unicodedata

from models.guards.redaction import without_passwords

MARK = "\N{REPLACEMENT CHARACTER}"
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embedding, override and isolate controls: they show a text in another order than it is stored."""
_COMMAND = re.compile(r"^(\s*)(?=::|##\[)", re.MULTILINE)
"""Starts of lines that a workflow of GitHub would run as commands."""


def clean(text: str) -> str:
    """Replace lone surrogates, control and bidi characters with U+FFFD; normalize line ends."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(MARK if _is_unprintable(char) else char for char in text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """Return cleaned text in one line, with single blanks; a line end becomes a return arrow."""
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return " \N{DOWNWARDS ARROW WITH CORNER LEFTWARDS} ".join(line for line in lines if line)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural but for 1: `1,024 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cut(text: str, width: int) -> str:
    """Return a text of at most `width` characters, with an ellipsis where it is cut."""
    return text if len(text) <= width else f"{text[: width - 1]}\N{HORIZONTAL ELLIPSIS}"


def for_terminal(text: str) -> str:
    """Return cleaned text for a terminal or a log, in which no line is a command and no address has a password."""
    return _COMMAND.sub(rf"\1{MARK}", without_passwords(clean(text)))


def _is_unprintable(char: str) -> bool:
    if char in "\n\t":
        return False
    return char in _BIDI_CONTROLS or unicodedata.category(char) in ("Cc", "Cs") or ord(char) & 0xFFFE == 0xFFFE

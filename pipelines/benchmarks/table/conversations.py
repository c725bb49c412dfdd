"""Rows that are conversations, as chat models learn from: the last turn is the answer, those before the question.

Two layouts are read: `messages` of {role, content}, whose content is a text or a list of parts, and LLaVA's
`conversations` of {from, value}, whose mark `<image>` stands for a picture of the row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.benchmarks.table.columns import find_columns
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.lists import listed
from pipelines.benchmarks.table.media import is_empty, media_values

COLUMNS: Final = ("messages", "conversations", "conversation")
QUESTION, ANSWER, HINT, MEDIA = "question", "answer", "hint", "images"  # the columns that a row gets
_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "chatbot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_KEYS: Final = (("role", "from"), ("content", "value"))  # of `messages`, and of LLaVA
_LABELS: Final = {"user": "User", "assistant": "Assistant"}  # of earlier turns in a question
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_MEDIA_PARTS: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
}
_MEDIA_KEYS: Final = ("image", "image_url", "video", "video_url", "url", "path", "source", "bytes")
_MARK = re.compile(r"<(image|video)>")
_AT_START, _AT_END = re.compile(r"\A(?:\s*<(?:image|video)>)+\s*"), re.compile(r"(?:\s*<(?:image|video)>)+\s*\Z")


@dataclass(frozen=True, slots=True)
class _Turn:
    role: str
    text: str  # with a mark for each picture or clip among its parts
    media: tuple[Any, ...]  # of its parts, those that hold one


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """The column of a table that holds conversations."""

    column: str
    media: tuple[str, ...] = ()  # the table's own columns of pictures and clips, for which marks stand

    def flattened(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with columns of its own for question, answer and hint; ValueError if its turns give none."""
        turns = _turns(row.get(self.column), self.column)
        if turns[-1].role != "assistant":
            raise ValueError(f"the last turn of {self.column} is the {turns[-1].role}'s; it must be the answer")
        *before, answer = turns
        if answer.media or not answer.text:
            raise ValueError(
                f"the last turn of {self.column} holds {'a picture or clip' if answer.media else 'no text'}"
            )
        hint = "\n".join(turn.text for turn in before if turn.role == "system" and turn.text)
        exchange = [turn for turn in before if turn.role != "system"]
        if not any(turn.role == "user" for turn in exchange):
            raise ValueError(f"{self.column} has no turn of the user")
        given = [medium for turn in before for medium in turn.media]
        own = [medium for column in self.media for medium in media_values(row.get(column))]
        if given and own:
            raise ValueError(f"pictures or clips in {self.column} and in {', '.join(self.media)}; give them once")
        texts = _placed(exchange, len(given or own))
        fields: dict[str, Any] = {QUESTION: "\n".join(texts), ANSWER: answer.text, **({HINT: hint} if hint else {})}
        fields |= {MEDIA: given} if given else {}
        if taken := next((name for name in fields if not is_empty(row.get(name))), ""):
            raise ValueError(f"column {taken!r} and {self.column} both give it; rename or remove one")
        return {**{name: value for name, value in row.items() if name != self.column}, **fields}

    def has_earlier_turns(self, row: Mapping[str, Any]) -> bool:
        """Return whether a reply comes before the last one."""
        turns = _turns(row.get(self.column), self.column)
        return any(turn.role == "assistant" for turn in turns[:-1])


def conversations_of(columns: Sequence[str], given: ColumnsFile, where: str) -> Conversations | None:
    """Return the conversations of a table, by the usual names of their column; None if it has answers, or no such."""
    forms = {column.strip().casefold(): column for column in columns if column not in given.ignore}
    column = next((forms[name] for name in COLUMNS if name in forms), "")
    if not column:
        return None
    made = (QUESTION, ANSWER, HINT, MEDIA)  # which a columns file may name too
    mapped = {role: tuple(name for name in names if name not in made) for role, names in given.columns.items()}
    roles = find_columns(columns, {role: names for role, names in mapped.items() if names}, where)
    return None if "answer" in roles else Conversations(column=column, media=roles.get("media", ()))


def _turns(cell: Any, column: str) -> list[_Turn]:
    turns = listed(cell) if isinstance(cell, str) else cell
    if not isinstance(turns, list) or not turns:
        raise ValueError(f"no turns in {column}" if is_empty(cell) else f"{column} is no list of turns: {cell!s:.60}")
    return [_turn(turn, f"turn {number} of {column}") for number, turn in enumerate(turns, start=1)]


def _turn(turn: Any, where: str) -> _Turn:
    if not isinstance(turn, Mapping):
        raise ValueError(f"{where} is no object with role and content")  # noqa: TRY004 - callers catch one class
    name, content = (turn.get(new) if turn.get(new) is not None else turn.get(old) for new, old in _KEYS)
    role = _ROLES.get(name.strip().casefold(), "") if isinstance(name, str) else ""
    if not role:
        raise ValueError(f"{where} has the role {str(name)[:40]!r}; user, assistant and system are read")
    if turn.get("tool_calls"):
        raise ValueError(f"{where} calls tools, which are not read")
    parts = list(_parts(content, where))
    media = tuple(value for kind, value in parts if kind != "text" and not is_empty(value))
    text = "\n".join(value if kind == "text" else f"<{kind}>" for kind, value in parts).strip()
    if role == "system" and any(kind != "text" for kind, _ in parts):
        raise ValueError(f"{where} is the system's and holds a picture or clip; only the user's may")
    return _Turn(role, text, media)


def _parts(content: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a content: `text` with its text, `image` or `video` with what holds it, or with None."""
    for part in [content] if isinstance(content, str | Mapping) else content if isinstance(content, list) else []:
        if isinstance(part, str):
            yield "text", part
            continue
        if not isinstance(part, Mapping):
            raise ValueError(f"{where}: a part is text or an object, not {type(part).__name__}")  # noqa: TRY004
        kinds = (part.get("type"), *(name for name in (*_TEXT_PARTS, *_MEDIA_PARTS) if not is_empty(part.get(name))))
        kind = next(filter(None, kinds), "")
        if kind in _TEXT_PARTS and isinstance(text := part.get(kind, part.get("text")), str):
            yield "text", text
        elif isinstance(kind, str) and kind in _MEDIA_PARTS:
            yield _MEDIA_PARTS[kind], _medium(part)
        else:
            raise ValueError(f"{where}: a part of type {str(kind)[:40]!r}; text, image and video are read")
    if content is None or not isinstance(content, str | Mapping | list):
        raise ValueError(f"{where} has no content")


def _medium(part: Mapping[str, Any]) -> Any:
    value = next((part[key] for key in _MEDIA_KEYS if not is_empty(part.get(key))), None)
    if isinstance(value, Mapping):
        value = value.get("url") or value.get("data") or value
    return value


def _placed(turns: Sequence[_Turn], media: int) -> list[str]:
    """Return the texts of a question's turns, in which `<image 2>` is the place of the second picture.

    A prompt begins with its pictures: marks at the ends of the only turn that has some say nothing, and are left out.
    """
    counts = [len(_MARK.findall(turn.text)) if turn.role == "user" else 0 for turn in turns]
    marks = sum(counts)
    if marks and not media:
        raise ValueError("the question holds <image> or <video>, and the row has no picture or clip")
    if marks and marks != media:
        raise ValueError(f"{marks} marks <image> or <video> in the question for {media} pictures or clips")
    is_short = all(turn.role == "user" for turn in turns)
    texts, number = list[str](), 0
    for place, turn in enumerate(turns):
        text = turn.text
        if counts[place]:
            if counts[place] == marks and (is_short or not place):
                start = _AT_START.match(text)
                number += len(_MARK.findall(start[0])) if start else 0
                text = _AT_END.sub("", _AT_START.sub("", text))
            pieces = _MARK.split(text)
            text = pieces[0]
            for kind, piece in zip(pieces[1::2], pieces[2::2], strict=True):
                number += 1
                text += f"<{kind} {number}>{piece}"
        texts.append(text if is_short else f"{_LABELS[turn.role]}: {text}")
    return texts

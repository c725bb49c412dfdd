"""What a log of another harness says about one question."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pipelines.benchmarks.records import Rejection
from pipelines.benchmarks.table.columns import OPTION_LETTERS, USUAL

_CELL: Final = ("task", "setting", "variant")
_VERDICTS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("C", "CORRECT", "TRUE"), 1.0),
    "P": 0.5,
    **dict.fromkeys(("I", "N", "INCORRECT", "FALSE"), 0.0),
}
"""Words that stand for a verdict: those of Inspect, and what spreadsheets make of a truth value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAnswer:
    """One answer in a log. What the log does not hold is empty."""

    file: str
    line: str  # where in the file, such as `line 7` or a sample's name
    model: str
    output: str | None  # as the model gave it; None where the request failed
    ids: tuple[str, ...] = ()  # names of the question, the most telling first
    position: str = ""  # its number in the tool's own data set, which is a name only where the question agrees
    question: str = ""  # as in the tool's data set
    prompt: str = ""  # what the model read, in which the question stands
    options: tuple[str, ...] = ()
    target: str = ""  # the tool's right answer
    cell: Mapping[str, str] | None = None  # task, setting and variant, in logs that are exports of ours
    excluded: str = ""  # why the question was never sent, in logs that are exports of ours
    their_correct: float | None = None  # the tool's verdict; between 0 and 1 for a partial one
    their_answer: str | None = None  # what its reader took from the output
    their_rule: str = ""  # tool and name of the reader, such as `inspect: choice`


Logged: TypeAlias = LoggedAnswer | Rejection


def verdict(value: Any) -> float | None:
    """Return a value of a log as a verdict; None where it is none, such as a score on another scale."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _VERDICTS.get(value.strip().upper(), _number(value))
    return _number(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number <= 1.0 else None


def text(value: Any) -> str:
    """Return a value of a table or of JSON as text; '' for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def ids_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a question under the usual columns."""
    return tuple(dict.fromkeys(filter(None, (text(row.get(name)).strip() for name in USUAL["id"]))))


def question_of(row: Mapping[str, Any]) -> str:
    """Return the question under the usual columns."""
    return next((row[name] for name in USUAL["question"] if isinstance(row.get(name), str)), "")


def options_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options under the usual columns: a list, or columns `A`, `B` and so on."""
    for name in USUAL["options"]:
        values = row.get(name)
        if isinstance(values, list) and values and all(isinstance(value, str | int | float) for value in values):
            return tuple(map(text, values))
    options = [text(row.get(letter)) for letter in OPTION_LETTERS]
    return tuple(options[: options.index("")] if "" in options else options)


def cell_of(row: Mapping[str, Any]) -> dict[str, str] | None:
    """Return task, setting and variant of a question that an export of ours names; None for any other."""
    return {name: text(row[name]) for name in _CELL if name in row} if "sample_id" in row else None


def message_text(content: Any) -> str:
    """Return the text of a chat message; pictures are left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def first_text(value: Any) -> str | None:
    """Return the first text in lists of lists, as harnesses keep replies."""
    for _ in range(8):
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            break
        value = value[0]
    return value if isinstance(value, str) else None


def walk(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and the mappings that are its values."""
    if isinstance(value, Mapping):
        yield value
        yield from (child for child in value.values() if isinstance(child, Mapping))

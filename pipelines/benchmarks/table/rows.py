"""One row of a table as a sample: checked by its kind, or rejected with the reason."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from string import ascii_uppercase
from typing import Any, Final

from pipelines.benchmarks.known_tables import Kind, TableDefinition
from pipelines.benchmarks.readers.amounts import parse_number
from pipelines.benchmarks.readers.option_letters import MAX_OPTIONS
from pipelines.benchmarks.readers.short_answers import label_form, normalized
from pipelines.benchmarks.records import RawSample, Rejection
from pipelines.benchmarks.table.kinds import without_letters
from pipelines.benchmarks.table.lists import FORMS, lettered_lines, listed
from pipelines.benchmarks.table.media import is_empty, media_files
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.clean_text import counted

_DIGITS = re.compile(r"(\d{1,3})(?:\.0+)?", re.ASCII)
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
_LETTER_AND_TEXT = re.compile(r"\(?([A-Z])[).:]\s+(.+)", re.DOTALL)
_MARK = re.compile(r"<(?:image|video) ?(\d{1,3})>", re.IGNORECASE)
_MAX_ID: Final = 500  # characters
_YES_NO: Final = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "y": "yes", "n": "no", "1": "yes", "0": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Reads the rows of a table by its definition."""

    definition: TableDefinition
    file: str
    before: int = 0  # rows of the files before this one, whose numbers are ids too
    split: str = ""  # the only one that is read; '': all
    media_optional: bool = False

    def read(self, where: str, row: Mapping[str, Any] | ValueError) -> RawSample | Rejection | None:
        """Return the sample of a row, or why it cannot be used; None for one of another split."""
        try:
            if isinstance(row, ValueError):
                raise row
            if self.split and self._text(row, "split") != self.split:
                return None
            return self._sample(where, row)
        except ValueError as error:
            return Rejection(file=self.file, item=self._item(where, row), reason=str(error))

    def _item(self, where: str, row: Mapping[str, Any] | ValueError) -> str:
        try:
            name = "" if isinstance(row, ValueError) else self._text(row, "id")
        except ValueError:
            name = ""
        return f"{where}, {name}" if name else where

    def _sample(self, where: str, row: Mapping[str, Any]) -> RawSample:
        name = unicodedata.normalize("NFC", self._text(row, "id")) or str(self.before + int(where.rpartition(" ")[2]))
        if len(name) > _MAX_ID:
            raise ValueError(f"an id of {len(name):,} characters; at most {_MAX_ID} are read")
        question = self._text(row, "question")
        if not question and "question" in self.definition.columns:
            raise ValueError("no question")
        files = [file for cell in self._cells(row, "media") for file in media_files(cell, f"{self.file}, {where}")]
        media = tuple(replace(file, role=f"media/{place}") for place, file in enumerate(files))
        if self.definition.has_media and not media and not self.media_optional:
            columns = ", ".join(self.definition.columns["media"])
            raise ValueError(f"no picture or clip in {columns} (`media_optional: true` in the columns file allows it)")
        data = {"question": question, **self._hint(row), **self._answer(row)}
        if media and not self.media_optional:
            _check_marks((question, *data.get("options", ())), len(media))
        return RawSample(
            sample_id=name,
            file=self.file,
            category=self._text(row, "category"),
            subset=self._text(row, "subset"),
            cluster=self._text(row, "cluster"),
            media=media,
            data=data,
            place=self._item(where, row),
        )

    def _cells(self, row: Mapping[str, Any], role: str) -> list[Any]:
        cells = (row.get(column) for column in self.definition.columns.get(role, ()))
        return [cell for cell in cells if not is_empty(cell)]

    def _text(self, row: Mapping[str, Any], role: str) -> str:
        cells = self._cells(row, role)
        return as_text(cells[0], role) if cells else ""

    def _hint(self, row: Mapping[str, Any]) -> dict[str, str]:
        return {"hint": hint} if (hint := self._text(row, "hint")) else {}

    def _answer(self, row: Mapping[str, Any]) -> dict[str, Any]:
        cells = self._cells(row, "answer")
        if not cells:
            raise ValueError("no answer")
        if self.definition.kind == "choice":
            return _choice(cells[0], options_of(row, self.definition.columns["options"]), self.definition.first_index)
        answers = answers_of(cells[0])
        return _ANSWERS[self.definition.kind](answers, self.definition)


def _check_marks(texts: Sequence[str], media: int) -> None:
    """Raise ValueError for a mark such as `<image 2>` in a row with fewer pictures."""
    for mark in (match for text in texts for match in _MARK.finditer(text)):
        if int(mark[1]) > media:
            raise ValueError(
                f"{mark[0]} stands in a row with {counted(media, 'picture')} "
                "(`media_optional: true` in the columns file allows it)"
            )


def as_text(value: Any, what: str) -> str:
    """Return a value as text; ValueError for a list or an object, or for half a surrogate pair or a damaged byte."""
    if isinstance(value, float | Decimal):
        return str(int(value)) if math.isfinite(value) and int(value) == value else str(value)
    if isinstance(value, bool | int | date | time):
        return str(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise ValueError(f"{what}: must be text, not {type(value).__name__}")  # noqa: TRY004 - callers catch one class
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ValueError(f"{what}: bytes that are no text in the file's encoding")
    return value.strip()


def options_of(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return the options of a row, from a column each or from one with a list; ValueError where they are none."""
    cells = [row.get(name) for name in columns] if len(columns) > 1 else _list_of(row.get(columns[0]))
    texts = ["" if is_empty(cell) else as_text(cell, "an option") for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    if len(texts) < 2:
        raise ValueError(f"{len(texts)} option{'s' if len(texts) != 1 else ''}, a choice has two or more")
    if len(texts) > MAX_OPTIONS:
        raise ValueError(f"{len(texts)} options, only {MAX_OPTIONS} have a letter")
    if "" in texts:
        letter = ascii_uppercase[texts.index("")]
        raise ValueError(f"option {letter} is empty, and a later one is not")
    return texts


def _list_of(cell: Any) -> list[Any]:
    if isinstance(cell, str):
        cell = listed(cell) or lettered_lines(cell) or cell
    if isinstance(cell, list) and cell and all(isinstance(item, tuple) for item in cell):  # Parquet's map
        cell = {str(label): option for label, option in cell}
    if isinstance(cell, dict):
        cell = _in_order(_by_label(cell))
    if is_empty(cell) or not isinstance(cell, list):
        raise ValueError("no options" if is_empty(cell) else f"options {str(cell)[:40]!r}: write them as {FORMS}")
    return cell


def _by_label(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by their labels, also where these are lists side by side, as ARC has them."""
    labels, texts = options.get("label"), options.get("text")
    if not (len(options) == 2 and isinstance(labels, list) and isinstance(texts, list)):
        return options
    if not len(labels) == len(texts) == len({*map(str, labels)}):
        raise ValueError(f"{len(texts)} options need as many labels, all different, and have {len(labels)}")
    return dict(zip(map(str, labels), texts, strict=True))


def _in_order(options: Mapping[str, Any]) -> list[Any]:
    """Return the options of an object by their letters, None for a gap, or by their numbers; else as they stand."""
    by_letter = {key.strip().upper(): option for key, option in options.items()}
    if by_letter and by_letter.keys() <= {*ascii_uppercase} and len(by_letter) == len(options):
        return [by_letter.get(letter) for letter in ascii_uppercase[: ascii_uppercase.index(max(by_letter)) + 1]]
    is_numbered = all(key.isdecimal() for key in options)
    return [options[key] for key in (sorted(options, key=int) if is_numbered else options)]


def answers_of(cell: Any) -> list[Any]:
    """Return the references of an answer's cell: a value, a list, or the text of one; ValueError for a broken list."""
    if isinstance(cell, str) and isinstance(texts := listed(cell), list):
        cell = texts
    if isinstance(cell, list):
        cell = [item["answer"] if isinstance(item, dict) and "answer" in item else item for item in cell]
        return [item for item in cell if not is_empty(item)]
    return [cell]


def _choice(cell: Any, options: Sequence[str], first_index: int | None) -> dict[str, Any]:
    references, plain = answers_of(cell), without_letters(options)  # the prompt gives letters
    if problem := equal_options(plain):
        raise ValueError(problem)
    cells = [cell, *references] if len(references) == 1 else [cell]
    places = (option_place(each, texts, first_index) for each in cells for texts in (plain, options))
    place = next((place for place in places if place is not None), None)
    if place is None:
        text = as_text(cell, "answer") if not isinstance(cell, list | dict) else json.dumps(cell)
        last = ascii_uppercase[len(options) - 1]
        raise ValueError(
            f"answer {text[:80]!r} is none of the options: no letter A to {last}, no index, no option's text"
        )
    return {"options": plain, "gold": place, "answers": [plain[place]]}


def equal_options(options: Sequence[str]) -> str | None:
    """Describe the first two options that are the same text; None if all differ."""
    letters: dict[str, str] = {}
    for letter, option in zip(ascii_uppercase, options, strict=False):
        first = letters.setdefault(collapsed(unicodedata.normalize("NFKC", option)), letter)
        if first != letter:
            return f"options {first} and {letter} are equal ({option[:40]!r}): both letters would be right"
    return None


def option_place(cell: Any, options: Sequence[str], first_index: int | None) -> int | None:
    """Return which option an answer names: by its letter, by its text, or by its index; None for none."""
    if isinstance(cell, bool | list | dict):
        return None
    text, digits = as_text(cell, "answer"), digits_of(cell)
    if len(text) == 1 and text in ascii_uppercase:
        return _lettered(text, options)
    if digits and first_index is not None:
        place = int(digits) - first_index
        return place if 0 <= place < len(options) else None
    equal = [place for place, option in enumerate(options) if collapsed(option) == collapsed(text)]
    equal = equal or [place for place, option in enumerate(options) if normalized(option) == normalized(text)]
    if equal:
        return equal[0] if len(equal) == 1 else None
    return _named_by_letter(text, options)


def _named_by_letter(text: str, options: Sequence[str]) -> int | None:
    """Return which option `(a)` or `A: cat` names."""
    if letter := _LETTER.fullmatch(text):
        return _lettered(letter[1].upper(), options)
    letter = _LETTER_AND_TEXT.fullmatch(text)
    place = _lettered(letter[1], options) if letter else None
    is_same = letter is not None and place is not None and collapsed(options[place]) == collapsed(letter[2])
    return place if is_same else None


def digits_of(cell: Any) -> str:
    """Return the digits of an answer that may be an index of an option; '' for any other."""
    match = None if isinstance(cell, list | dict) else _DIGITS.fullmatch(as_text(cell, "answer"))
    return match[1] if match else ""


def _lettered(letter: str, options: Sequence[str]) -> int | None:
    place = ascii_uppercase.index(letter)
    return place if place < len(options) else None


def yes_or_no(value: Any) -> str | None:
    """Return `yes` or `no` for an answer that is one of them; None for any other."""
    return None if isinstance(value, list | dict) else _YES_NO.get(as_text(value, "answer").casefold().rstrip("."))


def _yes_no(answers: Sequence[Any], _definition: TableDefinition) -> dict[str, Any]:
    words = {yes_or_no(answer) for answer in answers}
    if len(words) != 1 or None in words:
        raise ValueError(f"answer {_shown(answers)} is not yes or no; --kind label reads other words")
    return {"answers": [*words]}


def _label(answers: Sequence[Any], definition: TableDefinition) -> dict[str, Any]:
    if len(answers) != 1:
        raise ValueError(f"{len(answers)} answers; one of the labels is expected")
    form, text = label_form(definition.labels), as_text(answers[0], "answer")
    label = next((label for label in definition.labels if form(label) == form(text)), None)
    if label is None:
        raise ValueError(f"answer {_shown(answers)} is none of the labels")
    return {"answers": [label]}


def _texts(answers: Sequence[Any], _definition: TableDefinition) -> dict[str, Any]:
    texts = [text for text in (as_text(answer, "answer") for answer in answers) if text]
    if not texts:
        raise ValueError("no answer")
    return {"answers": texts}


def _number(answers: Sequence[Any], _definition: TableDefinition) -> dict[str, Any]:
    if len(answers) != 1:
        raise ValueError(f"{len(answers)} answers; one number is expected")
    return {"answers": [as_text(answers[0], "answer")], "gold": parse_number(answers[0])}


def _shown(answers: Sequence[Any]) -> str:
    return repr(answers[0] if len(answers) == 1 else list(answers))[:80]


_ANSWERS: Final[Mapping[Kind, Callable[[Sequence[Any], TableDefinition], dict[str, Any]]]] = {
    "yes-no": _yes_no,
    "label": _label,
    "text": _texts,
    "number": _number,
    "open": _texts,
}

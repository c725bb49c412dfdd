"""One row of a table as a sample: checked by its kind, or rejected with the reason."""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, Final

from pipelines.benchmarks.known_tables import Kind, TableDefinition
from pipelines.benchmarks.readers.amounts import parse_number
from pipelines.benchmarks.readers.option_letters import MAX_OPTIONS
from pipelines.benchmarks.readers.short_answers import label_form, normalized
from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source
from pipelines.benchmarks.table.columns_file import ANY, By, ByValue, ColumnsFile
from pipelines.benchmarks.table.kinds import without_letters
from pipelines.benchmarks.table.lists import FORMS, lettered_lines, listed
from pipelines.benchmarks.table.media import is_empty, media_files
from pipelines.benchmarks.table.subtitles import subtitle_text
from pipelines.benchmarks.table.templates import as_text
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.clean_text import counted

_DIGITS = re.compile(r"(\d{1,3})(?:\.0+)?", re.ASCII)
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
_LETTER_AND_TEXT = re.compile(r"\(?([A-Z])[).:]\s+(.+)", re.DOTALL)
_MARK = re.compile(r"<(?:image|video) ?(\d{1,3})>", re.IGNORECASE)
_BARE_MARK = re.compile(r"<(image|video)>", re.IGNORECASE)
_LISTED_LETTER = re.compile(r"(?:^|[\s(])([A-Z])[.):](?=\s|\w)", re.MULTILINE)
_MAX_ID: Final = 500  # characters
_YES_NO: Final = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "y": "yes", "n": "no", "1": "yes", "0": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Reads the rows of a table by its definition."""

    definition: TableDefinition
    given: ColumnsFile
    source: Source | None = None  # where subtitles are
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
        name = f"{name}/{row['@n']}" if self.given.for_each else name
        if len(name) > _MAX_ID:
            raise ValueError(f"an id of {len(name):,} characters; at most {_MAX_ID} are read")
        question = self._text(row, "question")
        if not question and "question" in self.definition.columns:
            raise ValueError("no question")
        kind = self._kind(row)
        media = self._media(where, row)
        if self.definition.has_media and not media and not self.media_optional:
            columns = ", ".join(self.definition.columns["media"])
            raise ValueError(f"no picture or clip in {columns} (`media_optional: true` in the columns file allows it)")
        data = {"question": question, **self._hint(row), **self._answer(row, kind), **self._facts(row, kind)}
        data = _with_numbered_marks(data, [int(file.role.rpartition("/")[2]) for file in media])
        if media and not self.media_optional:
            _check_marks((data["question"], *data.get("options", ())), media)
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

    def _media(self, where: str, row: Mapping[str, Any]) -> tuple[MediaFile, ...]:
        """Return the pictures and clips of a row, numbered by column if each of several holds one at most."""
        columns = self.definition.columns.get("media", ())
        if not columns:
            return ()
        cells = [None if is_empty(row.get(column)) else row[column] for column in columns]
        found = [[*media_files(cell, f"{self.file}, {where}")] if cell is not None else [] for cell in cells]
        files = [file for each in found for file in each]
        places = [place for place, each in enumerate(found) if each]
        texts = (
            row.get(column) for role in ("question", "options") for column in self.definition.columns.get(role, ())
        )
        if len(places) != len(files) or not any(_MARK.search(str(text)) for text in texts):
            places = [*range(len(files))]
        return tuple(replace(file, role=f"media/{place}") for place, file in zip(places, files, strict=True))

    def _kind(self, row: Mapping[str, Any]) -> Kind:
        kinds = self.given.kind
        if not isinstance(kinds, ByValue):
            return self.definition.kind
        return value_of(kinds, row)  # type: ignore[return-value] # checked with the definition

    def _answer(self, row: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
        if "turns" in self.definition.columns:
            return self._turns(row, kind)
        if kind == "generate":
            return {"answers": []}
        cells = self._cells(row, "answer")
        if not cells:
            raise ValueError("no answer")
        if kind == "choice" and self.definition.letters:
            return _lettered_choice(cells[0], self._text(row, "question"), self.definition.letters)
        if kind == "choice":
            return _choice(cells[0], options_of(row, self.definition.columns["options"]), self.definition.first_index)
        if kind in ("box", "point"):
            return {**_box(cells[0], self.given.box), **self._size(row)}
        is_whole = _is_one_answer(cells[0], self.definition.scorers.get(kind, ""))
        return _ANSWERS[kind](cells[:1] if is_whole else answers_of(cells[0]), self.definition)

    def _turns(self, row: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
        """Return the questions of a conversation, each with its answer; none of kind `generate`."""
        questions = _listed_texts(row.get(self.definition.columns["turns"][0]), "turns")
        answers: list[Any] = [None] * len(questions)
        if kind != "generate":
            cell = row.get(self.definition.columns["answer"][0])
            given = listed(cell) if isinstance(cell, str) else cell
            answers = given if isinstance(given, list) else [cell]
        if len(answers) != len(questions):
            raise ValueError(f"{counted(len(answers), 'answer')} for {counted(len(questions), 'turn')}")
        known = [{} if kind == "generate" else _ANSWERS[kind](answers_of(each), self.definition) for each in answers]
        turns = [{"question": text, **facts} for text, facts in zip(questions, known, strict=True)]
        return {"answers": [], **turns[0], "turns": turns}

    def _size(self, row: Mapping[str, Any]) -> dict[str, Any]:
        cells = self._cells(row, "size")
        return {"size": _numbers(cells[0], 2, "size")} if cells else {}

    def _facts(self, row: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
        """Return what the definition asks of a row besides question and answer; nothing that it does not."""
        given, facts = self.given, dict[str, Any]()
        if not given.adds_facts:
            return facts
        if isinstance(given.kind, ByValue):
            facts["kind"] = kind
        if isinstance(given.prompt, ByValue):
            facts["prompt"] = _key_of(given.prompt, row)
        if self.definition.fields:
            facts["fields"] = {name: _shown_text(row.get(name), name) for name in self.definition.fields}
        if given.by:
            facts["by"] = {name: _values_by(by, row) for name, by in given.by.items()}
        if given.groups:
            facts["groups"] = {
                group.name: [_shown_text(row.get(column), column) for column in group.by] for group in given.groups
            }
        if any(_shown_text(row.get(name), name) in values for name, values in given.contains_exact.items()):
            facts["exact"] = True
        precision = self._text(row, "precision")
        if precision or given.decimals is not None:
            facts["precision"] = int(float(precision)) if precision else given.decimals
        if span := [self._text(row, name) for name in ("start", "end") if self._cells(row, name)]:
            if len(span) != 2 or not 0 <= float(span[0]) < float(span[1]):
                raise ValueError(f"start and end {' and '.join(span)} are no span of seconds")
            facts["span"] = [*map(float, span)]
        path = self._text(row, "subtitles")
        if path and self.source is not None and self.source.exists(path):
            facts["subtitles"] = subtitle_text(self.source.read_bytes(path), path)
        return facts


def _with_numbered_marks(data: dict[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return a row's data with `<image 2>` for the second `<image>`, if there are as many as pictures."""
    if not places:
        return data
    texts = [data["question"], *data.get("options", ())]
    if sum(len(_BARE_MARK.findall(text)) for text in texts) != len(places):
        return data
    numbers = iter(places)
    question, *options = (_BARE_MARK.sub(lambda mark: f"<{mark[1]} {next(numbers) + 1}>", text) for text in texts)
    return {**data, "question": question, **({"options": options} if options else {})}


def _check_marks(texts: Sequence[str], media: Sequence[MediaFile]) -> None:
    """Raise ValueError for a mark such as `<image 2>` of a picture that a row does not have."""
    roles = {file.role for file in media}
    if (bare := sum(len(_BARE_MARK.findall(text)) for text in texts)) > len(media):
        raise ValueError(f"{bare} marks <image> or <video> in a row with {counted(len(media), 'picture')}")
    for mark in (match for text in texts for match in _MARK.finditer(text)):
        if f"media/{int(mark[1]) - 1}" not in roles:
            raise ValueError(
                f"{mark[0]} stands in a row with {counted(len(media), 'picture')} "
                "(`media_optional: true` in the columns file allows it)"
            )


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


def _is_one_answer(cell: Any, scorer: str) -> bool:
    """Return whether a scorer takes a cell as it stands: with numbers and formulas `[0.5, 0.7]` is one answer."""
    if scorer == "last-number":
        return True
    items = answers_of(cell) if scorer in ("relaxed", "latex") and isinstance(cell, str) else []
    return bool(items) and not any(isinstance(item, str | dict) for item in items)


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


def _lettered_choice(cell: Any, question: str, letters: str) -> dict[str, Any]:
    """Return the answer of a row whose options are in its question, and as many letters as it lists there."""
    text = as_text(cell, "answer")
    match = _LETTER.fullmatch(text) or _LETTER_AND_TEXT.fullmatch(text)
    letter = match[1].upper() if match else ""
    if letter not in [*letters]:
        raise ValueError(f"answer {text[:80]!r} is none of the letters {', '.join(letters)}")
    listed_letters = {*_LISTED_LETTER.findall(question)}
    count = next((place for place, each in enumerate(letters) if each not in listed_letters), len(letters))
    place = letters.index(letter)
    options = [*letters[: max(count, place + 1) if count > 1 else len(letters)]]
    return {"options": options, "gold": place, "answers": [letter]}


def _listed_texts(cell: Any, what: str) -> list[str]:
    texts = listed(cell) if isinstance(cell, str) else cell
    if not isinstance(texts, list) or not texts:
        raise ValueError(f"{what} {str(cell)[:80]!r} is no list of texts")
    return [as_text(text, what) for text in texts]


def _numbers(cell: Any, count: int, what: str) -> list[float]:
    values = listed(cell) if isinstance(cell, str) else cell
    try:
        numbers = [float(value) for value in values or ()]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != count:
        raise ValueError(f"{what} {str(cell)[:80]} is no list of {count} numbers")
    return numbers


def _box(cell: Any, form: str) -> dict[str, Any]:
    left, top, third, fourth = _numbers(cell, 4, "box")
    right, bottom = (left + third, top + fourth) if form == "xywh" else (third, fourth)
    if not (left < right and top < bottom):
        raise ValueError(f"box {[left, top, third, fourth]} is empty; `box: {form}` says how it is written")
    return {"box": [left, top, right, bottom], "answers": [f"[{left:g}, {top:g}, {right:g}, {bottom:g}]"]}


def _shown_text(cell: Any, name: str) -> str:
    """Return the text of a cell for a prompt or a group; of a list its values."""
    if is_empty(cell):
        return ""
    return ", ".join(_shown_text(each, name) for each in cell) if isinstance(cell, list) else as_text(cell, name)


def _key_of(choice: ByValue, row: Mapping[str, Any]) -> str:
    """Return the key of `values` that a row has; ValueError for a value that is not listed."""
    cell = row.get(choice.column)
    if isinstance(cell, str) and isinstance(texts := listed(cell), list):
        cell = texts
    text = "" if is_empty(cell) else str(cell) if isinstance(cell, list | dict) else as_text(cell, choice.column)
    if choice.value(text) is None:
        raise ValueError(f"{choice.column} {text[:80]!r} is none of {', '.join(choice.values)}")
    return text if text in choice.values else ANY


def value_of(choice: ByValue, row: Mapping[str, Any]) -> str:
    """Return what the value of a row's cell stands for; ValueError for a value that is not listed."""
    return choice.values[_key_of(choice, row)]


def _values_by(by: By, row: Mapping[str, Any]) -> list[str]:
    """Return the values of a grouping that a row counts in."""
    cell = row.get(by.column)
    if isinstance(cell, str) and isinstance(texts := listed(cell), list):
        cell = texts
    values = cell if isinstance(cell, list) else [cell]
    texts = [as_text(value, by.column) for value in values if not is_empty(value)]
    if by.split:
        texts = [part.strip() for text in texts for part in text.split(by.split)]
    return [by.values.get(text, text) for text in texts if text]


def equal_options(options: Sequence[str]) -> str | None:
    """Describe the first two options that are the same text; None if all differ."""
    letters: dict[str, str] = {}
    for letter, option in zip(ascii_uppercase, options, strict=False):
        if _BARE_MARK.search(option):
            continue  # each mark is another picture
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

"""Read the rows of workbooks (`.xlsx`), without formulas, links or entities."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import BinaryIO, Final
from xml.parsers.expat import ExpatError, ParserCreate

from pipelines.benchmarks.foreign_files.archives import Archive, UnreadableError
from pipelines.errors import SourceError

_STRINGS: Final = "xl/sharedStrings.xml"
_SHEET: Final = re.compile(r"xl/worksheets/sheet[0-9]+\.xml")
_STYLES: Final = "xl/styles.xml"
_WORKBOOK: Final = "xl/workbook.xml"
_PICTURES: Final = "xl/media/"
_DAY_ZERO: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - a sheet knows no time zones
_DAYS_TO_1904: Final = (
    1_462  # from day zero to that of workbooks whose dates begin in 1904, as Excel for Mac wrote them
)
_DATES: Final = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}  # built-in formats of dates and times
_DURATION: Final = 46  # of these, the one of hours that go on after 24
_HOURS = re.compile(r"\[h+\]")  # such hours in a format
_NO_FORMAT = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')  # texts, single signs, colours and locales in a format
_CELL: Final = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_MAX_COLUMNS: Final = 1_000
_MAX_STRINGS: Final = 2_000_000
_MAX_SHEET: Final = 256 << 20  # bytes of a sheet, which is not held


class Workbook:
    """A workbook, of which the first sheet is read; `where` names it in messages. SourceError if it is none."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._archive, self._where = Archive(file, where), where
        sheets = [name for name in self._archive.names if _SHEET.fullmatch(name)]
        if not sheets:
            raise SourceError(f"{where}: holds no sheet")
        self.sheets = len(sheets)
        self.pictures = sum(name.startswith(_PICTURES) for name in self._archive.names)
        self._sheet = min(sheets, key=lambda name: (len(name), name))

    def rows(self) -> Iterator[tuple[int, Mapping[int, str]]]:
        """Yield the cells of each row by column, from 1, with the row's number; empty cells and rows are absent."""
        try:
            yield from self._rows()
        except (UnreadableError, ExpatError, ValueError) as error:
            raise SourceError(f"{self._where}: {self._sheet} {str(error)[:200]}") from error

    def _rows(self) -> Iterator[tuple[int, Mapping[int, str]]]:
        strings, styles, settings = _Strings(), _Styles(), _Settings()
        for part, name in ((strings, _STRINGS), (styles, _STYLES), (settings, _WORKBOOK)):
            if name in self._archive.names:
                for chunk in self._archive.chunks(name):
                    part.feed(chunk)
                part.close()
        rows = _Rows(strings.values, styles, settings.first_day)
        for chunk in self._archive.chunks(self._sheet, _MAX_SHEET):
            rows.feed(chunk)
            yield from rows.finished()
        rows.close()


def column_letters(column: int) -> str:
    """Return the letters of a column, from 1: A, B, ..., AA."""
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


class _Xml:
    """Follows the tags of a document by their names without prefix."""

    def __init__(self) -> None:
        self.tags: list[str] = []
        self._parser = ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._parser.CharacterDataHandler = self.data
        self._parser.StartDoctypeDeclHandler = _refuse

    def feed(self, chunk: bytes) -> None:
        """Read the next piece."""
        self._parser.Parse(chunk, False)

    def close(self) -> None:
        """Read the end, where all tags must be closed."""
        self._parser.Parse(b"", True)

    def _open(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tags.append(tag.rpartition(":")[2])
        self.start(self.tags[-1], attributes)

    def _close(self, _tag: str) -> None:
        self.end(self.tags.pop())

    def start(self, tag: str, attributes: Mapping[str, str], /) -> None:
        """Take a tag."""

    def end(self, tag: str) -> None:
        """Take the end of a tag."""

    def data(self, value: str) -> None:
        """Take text inside the open tags."""


def _refuse(*_: object) -> None:
    raise UnreadableError("declares a document type, which spreadsheets never do")


class _Strings(_Xml):
    """The strings that cells refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[str] = []

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        if tag == "si":
            self.values.append("")
            if len(self.values) > _MAX_STRINGS:
                raise UnreadableError(f"holds over {_MAX_STRINGS:,} texts")

    def data(self, value: str) -> None:
        if self.tags[-1] == "t" and "rPh" not in self.tags and self.values:  # not how a word is pronounced
            self.values[-1] += value


class _Styles(_Xml):
    """Which styles of cells show a number as a date or time."""

    def __init__(self) -> None:
        super().__init__()
        self.dates: set[str] = set()  # by their places
        self.durations: set[str] = set()
        self._formats: set[str] = set()  # the file's own formats of dates
        self._hours = {str(_DURATION)}
        self._count = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        number = attributes.get("numFmtId", "")
        if tag == "numFmt":
            form = attributes.get("formatCode", "").lower()
            if _HOURS.search(form):
                self._hours.add(number)
            elif re.search("[ymdhs]", _NO_FORMAT.sub("", form)):
                self._formats.add(number)
        elif tag == "xf" and "cellXfs" in self.tags:
            if number in self._hours:
                self.durations.add(str(self._count))
            elif number in self._formats or (number.isascii() and number.isdigit() and int(number) in _DATES):
                self.dates.add(str(self._count))
            self._count += 1


class _Settings(_Xml):
    """Settings of a workbook: on which day its count of days begins."""

    def __init__(self) -> None:
        super().__init__()
        self.first_day = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "workbookPr" and attributes.get("date1904", "") in ("1", "true"):
            self.first_day = _DAYS_TO_1904


class _Rows(_Xml):
    """The rows of a sheet: of a formula the value that was computed when the file was written."""

    def __init__(self, strings: list[str], styles: _Styles, first_day: int) -> None:
        super().__init__()
        self._strings, self._styles, self._first_day = strings, styles, first_day
        self._finished: list[tuple[int, dict[int, str]]] = []
        self._cells: dict[int, str] = {}
        self._number, self._kind, self._column, self._value, self._style = 0, "", 0, "", ""

    def finished(self) -> Iterator[tuple[int, dict[int, str]]]:
        """Yield the rows that have ended since the last call, by number."""
        rows, self._finished = self._finished, []
        return iter(rows)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "row":
            number = attributes.get("r", "")
            self._number = int(number) if number.isascii() and number.isdigit() else self._number + 1
            self._cells, self._column = {}, 0
        elif tag == "c":
            match = _CELL.fullmatch(attributes.get("r", ""))
            self._column = _column(match[1]) if match else self._column + 1
            self._kind, self._value, self._style = attributes.get("t", "n"), "", attributes.get("s", "")

    def data(self, value: str) -> None:
        if self.tags[-1] in ("v", "t"):
            self._value += value

    def end(self, tag: str) -> None:
        if tag == "row" and self._cells:
            self._finished.append((self._number, self._cells))
        elif tag == "c" and self._value and self._column <= _MAX_COLUMNS:
            self._cells[self._column] = self._text()

    def _text(self) -> str:
        if self._kind == "b":
            return {"1": "True", "0": "False"}.get(self._value, self._value)
        if self._kind == "n" and self._style in self._styles.durations:
            return _duration(self._value)
        if self._kind == "n" and self._style in self._styles.dates:
            return _date(self._value, self._first_day)
        if self._kind != "s":
            return self._value
        place = int(self._value)
        return self._strings[place] if 0 <= place < len(self._strings) else ""


def _duration(value: str) -> str:
    """Return a count of days as hours, minutes and seconds; the count if it is none."""
    try:
        minutes, seconds = divmod(round(float(value) * 86_400), 60)
    except (ValueError, OverflowError):
        return value
    return value if minutes < 0 else f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _date(value: str, first_day: int) -> str:
    """Return a count of days as the date, time or both that it shows; the count if it is none."""
    try:
        days = float(value)
        moment = _DAY_ZERO + timedelta(days=first_day if days >= 1 else 0, seconds=round(days * 86_400))
    except (ValueError, OverflowError):
        return value
    if days < 0:
        return value
    if days < 1:
        return str(moment.time())
    return str(moment.date() if days.is_integer() else moment)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number

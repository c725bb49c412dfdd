"""Read rows of spreadsheets and of text tables, without formulas, links or entities."""

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.parsers.expat import ExpatError, ParserCreate

from models.guards.regular_files import read_regular
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.errors import UsageError
from pipelines.import_logs.files import MAX_JSON, Archive, UnreadableError

_STRINGS: Final = "xl/sharedStrings.xml"
_SHEET: Final = re.compile(r"xl/worksheets/sheet[0-9]+\.xml")
_CELL: Final = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_MAX_COLUMNS: Final = 1_000
_MAX_STRINGS: Final = 2_000_000
_MAX_MEMBER: Final = 256 << 20  # bytes of a sheet, which is not held


def text_table(path: Path, delimiter: str) -> Iterator[tuple[int, Mapping[str, Any] | UnreadableError]]:
    """Yield the rows of a table with a header, by line number; UsageError where it is none."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise UsageError(f"--predictions {path}: larger than {MAX_JSON >> 20} MiB; give the file without pictures")
        content = read_regular(path).decode("utf-8-sig")
        for line, row in CsvRows(content, strict=False, delimiter=delimiter).read():
            yield line, UnreadableError(str(row)) if isinstance(row, ValueError) else row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--predictions {path}: cannot be read as a table ({str(error)[:200]})") from error


def workbook(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows of a workbook's first sheet, whose first row names the columns; UsageError where it is none."""
    with Archive(path) as archive:
        sheets = [name for name in archive.names if _SHEET.fullmatch(name)]
        if not sheets:
            raise UsageError(f"--predictions {path}: holds no sheet")
        sheet = min(sheets, key=lambda name: (len(name), name))
        heads: dict[int, str] = {}
        try:
            strings = _Strings()
            if _STRINGS in archive.names:
                for chunk in archive.chunks(_STRINGS):
                    strings.feed(chunk)
                strings.close()
            rows = _Rows(strings.values)
            for chunk in archive.chunks(sheet, _MAX_MEMBER):
                rows.feed(chunk)
                for number, cells in rows.finished():
                    if heads:
                        yield number, {head: cells.get(column, "") for column, head in heads.items()}
                    else:
                        heads = {column: value.strip() for column, value in cells.items() if value.strip()}
            rows.close()
        except (UnreadableError, ExpatError, ValueError) as error:
            raise UsageError(f"--predictions {path}: {sheet} {str(error)[:200]}") from error


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
    raise UnreadableError("declares a document type, which no spreadsheet has")


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


class _Rows(_Xml):
    """The rows of a sheet: of a formula the value that was computed when the file was written."""

    def __init__(self, strings: list[str]) -> None:
        super().__init__()
        self._strings = strings
        self._finished: list[tuple[int, dict[int, str]]] = []
        self._cells: dict[int, str] = {}
        self._number, self._kind, self._column, self._value = 0, "", 0, ""

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
            self._kind, self._value = attributes.get("t", "n"), ""

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
        if self._kind != "s":
            return self._value
        place = int(self._value)
        return self._strings[place] if 0 <= place < len(self._strings) else ""


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number

"""Rows of CSV and TSV files, one at a time: a damaged row costs itself and no other.

Files come from spreadsheets: with semicolons or tabs, a byte order mark, Windows-1252 or UTF-16, and any line ends. A
quotation mark that is never closed would take all further rows with it; such a row is given up at its first line.
"""

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import BinaryIO, Final

MAX_LINE_CHARS: Final = 128 << 20  # of a row in one line: a picture as base64 may have tens of millions
_MAX_ROW_LINES: Final = 1000
_CHUNK: Final = 1 << 20
_DELIMITERS: Final = "\t,;|"
_NAMES: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_QUOTED = re.compile(r'"[^"]*+"')
_SURROGATE = re.compile("[\ud800-\udfff]")

Line = str | None
"""A line with its end; None for one that is too long."""


def encoding_of(file: BinaryIO) -> str:
    """Return how a file's text is encoded: UTF-8, UTF-16 with its mark, else Windows-1252.

    A file with bytes that are no UTF-8 and some that are, beyond ASCII, is damaged UTF-8.
    """
    file.seek(0)
    head = file.read(4)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    invalid = has_signs = False
    for chunk in itertools.chain(iter(lambda: file.read(_CHUNK), b""), (b"",)):
        text = decoder.decode(chunk, final=not chunk)
        if not text.isascii():
            has_signs = has_signs or not _SURROGATE.sub("", text).isascii()
            invalid = invalid or _SURROGATE.search(text) is not None
    return "utf-8-sig" if has_signs or not invalid else "cp1252"


def iter_lines(file: BinaryIO, encoding: str) -> Generator[Line]:
    """Yield the lines of a text, each with a line feed; bytes that cannot be decoded become half surrogates."""
    file.seek(0)
    errors = "replace" if encoding == "utf-16" else "surrogateescape"
    text = io.TextIOWrapper(file, encoding=encoding, errors=errors, newline=None)
    try:
        while line := text.readline(MAX_LINE_CHARS):
            if len(line) < MAX_LINE_CHARS or line.endswith("\n"):
                yield line
                continue
            del line  # before more is read
            while (rest := text.readline(_CHUNK)) and not rest.endswith("\n"):
                pass
            yield None
    finally:
        text.detach()  # the file is the caller's to close


def delimiter_of(header: str, *, is_tsv: bool) -> str:
    """Return the sign that separates the columns of a header."""
    counts = Counter(_QUOTED.sub("", header))
    preferred = "\t" if is_tsv else ","
    return max(_DELIMITERS, key=lambda sign: (counts[sign], sign == preferred))


class DelimitedRows:
    """The rows of a CSV or TSV text by the number of their first line."""

    def __init__(self, lines: Iterator[Line], *, is_tsv: bool) -> None:
        self._lines = lines
        self._put_back: list[Line] = []
        self._number = 0
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_CHARS + 1))
        header = next(self, None) or ""
        if header.startswith("sep=") and len(header) == len("sep=;\n"):  # a line for Excel
            header = next(self, None) or ""
        self._delimiter = delimiter_of(header, is_tsv=is_tsv)
        fields = self._fields(header, 0)
        self.columns = tuple(name.strip() for name in fields) if isinstance(fields, list) else ()

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        """Return the next line."""
        line = self._put_back.pop() if self._put_back else next(self._lines)
        self._number += 1
        return line

    def rows(self) -> Iterator[tuple[int, dict[str, str] | ValueError]]:
        """Yield each row, or what is wrong with it; blank lines are no rows."""
        for line in self:
            number = self._number
            if line is None:
                yield number, ValueError(f"a line of more than {MAX_LINE_CHARS:,} characters")
            elif line.strip():
                fields = self._fields(line, len(self.columns))
                is_row = isinstance(fields, list)
                yield number, dict(zip(self.columns, fields, strict=True)) if is_row else fields  # type: ignore[arg-type,misc]

    def _fields(self, line: str, columns: int) -> list[str] | ValueError:
        """Return the fields of the row that begins with a line; 0 columns: any number."""
        lines, problem = [line], ""
        while not problem:
            try:
                fields = next(csv.reader(lines, delimiter=self._delimiter, strict=True))
            except csv.Error as error:
                if "unexpected end of data" not in str(error):
                    problem = f"not readable as a row ({error})"
                elif not self._extend(lines):
                    problem = "a quotation mark that is never closed"
                continue
            if len(fields) == (columns or len(fields)):
                return fields
            problem = self._miscounted(fields, columns)
        is_damaged, has_next = "readable" in problem, len(lines) > 1 and self._is_row(lines[-1], columns)
        if is_damaged and len(lines) > 1 and not has_next:
            fields = next(csv.reader(lines, delimiter=self._delimiter))
            if len(fields) == columns:
                return fields  # a row of several lines with something behind a closing quotation mark
        if has_next or "column" not in problem:  # a stray quotation mark took the rows that follow
            self._put_back += reversed(lines[1:])
            self._number -= len(lines) - 1
        raw = line.rstrip("\n").split(self._delimiter)
        if is_damaged and len(lines) == 1 and len(raw) == columns:
            return raw  # text that begins with a quotation and goes on after it, not quoted at all
        return ValueError(problem)

    def _miscounted(self, fields: Sequence[str], columns: int) -> str:
        problem = f"{len(fields)} fields, the header has {columns} columns"
        if len(fields) > columns and not any(fields[columns:]):
            problem += f"; does each row end with {_NAMES[self._delimiter]}?"
        return problem

    def _is_row(self, line: str, columns: int) -> bool:
        try:
            return len(next(csv.reader([line], delimiter=self._delimiter, strict=True))) == columns
        except csv.Error:
            return False

    def _extend(self, lines: list[str]) -> bool:
        """Add lines up to one with a quotation mark; return whether there is one."""
        for line in self:
            if line is None:
                self._put_back.append(line)
                self._number -= 1
                return False
            lines.append(line)
            if '"' in line:
                return True
            if len(lines) > _MAX_ROW_LINES:
                return False
        return False

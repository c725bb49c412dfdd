"""Files and fields of logged answers: names of a question, its text and options, and texts in nested replies."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from models.guards.regular_files import open_regular, read_regular
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.foreign_files.archives import Archive, UnreadableError
from pipelines.benchmarks.foreign_files.workbooks import Workbook
from pipelines.benchmarks.table.columns import OPTION_LETTERS, USUAL
from pipelines.errors import SourceError, UsageError
from pipelines.logged_answers.readers import MAX_JSON


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive; UsageError if it is none, or turns out to be unreadable as a whole."""
    try:
        with open_regular(path) as file, Archive(file, f"--predictions {path}") as archive:
            yield archive
    except SourceError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def workbook(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows of a workbook's first sheet, whose first row names the columns; UsageError if it is none."""
    heads: dict[int, str] = {}
    try:
        with open_regular(path) as file:
            for number, cells in Workbook(file, f"--predictions {path}").rows():
                if heads:
                    yield number, {head: cells.get(column, "") for column, head in heads.items()}
                else:
                    heads = {column: value.strip() for column, value in cells.items() if value.strip()}
    except SourceError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


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


_CELL: Final = ("task", "setting", "variant")


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


def group_fields(row: Mapping[str, Any]) -> dict[str, str] | None:
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

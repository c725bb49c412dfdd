"""Read tables, workbooks and archives of unknown origin within limits; what is larger is refused."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.guards.regular_files import open_regular, read_regular
from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.foreign_files.archives import Archive, UnreadableError
from pipelines.benchmarks.foreign_files.workbooks import Workbook
from pipelines.errors import SourceError, UsageError
from pipelines.logged_answers.json_files import MAX_JSON


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

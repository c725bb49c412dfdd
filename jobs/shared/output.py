"""Terminal output: results and tables on standard output, messages on standard error."""

import contextlib
import io
import json
import logging
import os
import select
import sys
import textwrap
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TextIO

from pipelines.clean_text import for_terminal, one_line
from pipelines.errors import StoreError
from pipelines.logging_context import JsonFormatter, logs_are_json

STDOUT_PROBLEM = "standard output cannot be written"
TEXT_FORMAT = "%(levelname)s: %(message)s"  # format of log lines for people


class TextFormatter(logging.Formatter):
    """Formats a record for people; further lines are indented, so that none looks like a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the cleaned lines."""
        return for_terminal(super().format(record)).replace("\n", "\n    ")


class LiveLines:
    """Lines at the end of a terminal's standard error that are drawn again; what else is printed clears them first.

    They have a descriptor of their own: standard error is closed for seconds while Ray starts.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._height = 0
        self._stream: TextIO | None = None

    def open(self) -> None:
        """Take the terminal that standard error is."""
        with self._lock, contextlib.suppress(OSError, ValueError):  # a stream in memory has no descriptor
            if self._stream is None:
                stream = sys.stderr
                self._stream = os.fdopen(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=stream.errors)

    def close(self) -> None:
        """Give the terminal back."""
        with self._lock, contextlib.suppress(OSError):  # of a terminal that was closed
            stream, self._stream = self._stream, None
            if stream:
                stream.close()

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines, none of which is wider than the terminal."""
        with self._lock:
            self._write(self._erasure() + "\n".join(lines))
            self._height = len(lines)

    def end(self, *, is_left: bool = False) -> None:
        """Erase the lines, or leave them and begin the next line, which Ctrl-C's `^C` would be a part of."""
        with self._lock:
            if self._height:
                self._write("\n" if is_left else self._erasure())
            self._height = 0

    def _write(self, text: str) -> None:
        write_text(self._stream or sys.stderr, text)

    def _erasure(self) -> str:
        return "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._height - 1) if self._height else ""


LIVE_LINES = LiveLines()


class _LogHandler(logging.StreamHandler[TextIO]):
    def emit(self, record: logging.LogRecord) -> None:
        """Write a record on a line of its own."""
        LIVE_LINES.end()
        super().emit(record)


def log_as_text() -> None:
    """Write log lines for people to standard error, where no handler is set yet."""
    handler = _LogHandler()
    handler.setFormatter(TextFormatter(TEXT_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def log_as_json(*, enabled: bool) -> None:
    """Switch log lines to JSON for log collectors, or back to text for people."""
    for handler in logging.getLogger().handlers:
        if enabled:
            handler.setFormatter(JsonFormatter())
        elif isinstance(handler.formatter, JsonFormatter):
            handler.setFormatter(TextFormatter(TEXT_FORMAT))


def results_only_on_stdout() -> AbstractContextManager[object]:
    """Redirect what libraries print to standard error, so that `--json` output stays JSON."""
    return contextlib.redirect_stdout(sys.stderr)


def open_streams() -> None:
    """Open the standard streams that the shell closed: else the next file that is opened would receive their text.

    What a stream's encoding lacks is written as an escape.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # becomes the lowest free number
        setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_read_no_further() -> bool:
    """Return whether standard output is a pipe whose reader, such as `head`, has left."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def settle_streams() -> str:
    """Flush the standard streams; return why text for standard output was lost, '' if none was.

    What cannot be written is dropped, for Python would end the process with 120 on its account.
    """
    problem = ""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            problem = problem or (str(error.strerror) if number == 1 else "")
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return problem


def print_line(text: str) -> None:
    """Print a line on standard output, or raise a StoreError; BrokenPipeError if nobody reads further (`| head`)."""
    LIVE_LINES.end()
    try:
        sys.stdout.write(for_terminal(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"{STDOUT_PROBLEM}: {error.strerror}") from error


def clear_screen() -> None:
    """Clear the terminal that standard output is; elsewhere what follows is printed below."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")


def print_error(text: str) -> None:
    """Print a line on standard error."""
    LIVE_LINES.end()
    write_error(for_terminal(text) + "\n")


def write_error(text: str) -> None:
    """Write to standard error as it is."""
    write_text(sys.stderr, text)


def write_text(stream: TextIO, text: str) -> None:
    """Write to a stream as it is. Where that cannot be written, such as a log on a full disk, work goes on."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()


def terminal_width(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream is written to; 0 where there is none, or it has no size."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def print_json(value: object) -> None:
    """Print one JSON object on standard output."""
    print_line(json.dumps(value, ensure_ascii=True, allow_nan=False))


def print_result(as_json: bool, value: object, *lines: str) -> None:
    """Print a result on standard output: as one JSON object, or as lines for people."""
    if as_json:
        print_json(value)
    else:
        for line in lines:
            print_line(line)


def prepare(*, verbose: bool) -> None:
    """Set the log level."""
    logging.getLogger().setLevel(logging.INFO if verbose or logs_are_json() else logging.WARNING)
    for client in ("httpx", "httpx2"):  # a line for each request to an endpoint
        logging.getLogger(client).setLevel(logging.WARNING)


_GAP = 2  # blanks between columns
_MIN_WIDTH = 6  # narrowest column that text is wrapped in

_Row = Sequence[str]


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, main: int | None = None) -> str:
    """Format a plain table; on a terminal that is too narrow for it, state it in another form.

    In order, until it fits: columns with the same value in every row are stated once above; columns after the first
    `main` are left out and named; long cells are wrapped; each row becomes a block of lines.
    """
    cells = [
        ["-" if cell is None else one_line(cell) if isinstance(cell, str) else str(cell) for cell in row]
        for row in rows
    ]
    return fitted(headers, cells, terminal_width(sys.stdout), len(headers) if main is None else main)


def fitted(headers: _Row, rows: Sequence[_Row], width: int, main: int) -> str:
    """Return a table of at most `width` columns where that is possible; 0 for any width."""
    from tabulate import tabulate

    lines: list[str] = []
    shown = list(range(len(headers)))
    widths = [max(len(row[index]) for row in (headers, *rows)) for index in shown]

    def total() -> int:
        return sum(widths[index] + _GAP for index in shown) - _GAP

    if width and total() > width and len(rows) > 1:
        constant = [index for index in shown if len({row[index] for row in rows}) == 1]
        shown = [index for index in shown if index not in constant]
        lines += [f"{headers[index]}: {rows[0][index]}" for index in constant if rows[0][index] not in ("", "-")]
    left_out: list[str] = []
    while width and total() > width and shown and shown[-1] >= main:
        left_out.insert(0, headers[shown.pop()])
    heads, columns = [headers[index] for index in shown], [[row[index] for index in shown] for row in rows]
    limits = _column_limits([widths[index] for index in shown], width) if width and total() > width else []
    if limits is None:
        blocks = ([f"{head}: {cell}" for head, cell in zip(heads, row, strict=True) if cell] for row in columns)
        lines += "\n\n".join(map("\n".join, blocks)).splitlines()
    elif shown:
        text = tabulate(columns, headers=heads, disable_numparse=True, maxcolwidths=limits or None)
        lines += [line.rstrip() for line in str(text).splitlines()] if width else [str(text)]
    if left_out:
        sentence = f"Left out for the width of the terminal: {'; '.join(left_out)}; --json has all."
        lines += textwrap.wrap(sentence, width)
    return "\n".join(lines)


def _column_limits(widths: Sequence[int], width: int) -> list[int] | None:
    """Return widths of columns that fit, the widest cut first; None where columns would be too narrow to read."""
    limits = list(widths)
    while sum(limits) + _GAP * (len(limits) - 1) > width:
        widest = max(range(len(limits)), key=limits.__getitem__)
        if limits[widest] <= _MIN_WIDTH:
            return None
        limits[widest] -= 1
    return limits

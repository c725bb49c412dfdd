"""The harnesses whose logs are read, and how a file is recognised as a log of one of them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from models.errors import suggest
from models.guards.regular_files import open_regular, read_regular
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.registry import load, load_all, registered

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
    group: Mapping[str, str] | None = None  # task, setting and variant, in logs that are exports of ours
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


MAX_TEXT: Final = 32 << 20  # bytes of a line
MAX_JSON: Final = 128 << 20  # bytes of a file that is one JSON value
_CHUNK: Final = 1 << 20


def parse(content: bytes | str) -> Any:
    """Return a JSON value; UnreadableError for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists without end
        raise UnreadableError(f"is not readable as JSON ({error})") from error


def json_lines(path: Path) -> Iterator[tuple[int, Any | UnreadableError]]:
    """Yield the values of a file of JSON lines by line number, or why a line has none; UsageError for no file."""
    try:
        with open_regular(path) as file:
            number = 0
            while line := file.readline(MAX_TEXT + 1):
                number += 1
                if len(line) > MAX_TEXT:
                    while (chunk := file.readline(_CHUNK)) and not chunk.endswith(b"\n"):
                        pass
                    yield number, UnreadableError(f"is longer than {MAX_TEXT >> 20} MiB")
                elif stripped := line.removeprefix(b"\xef\xbb\xbf").strip():
                    try:
                        yield number, parse(stripped)
                    except UnreadableError as error:
                        yield number, error
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def json_file(path: Path) -> Any:
    """Return the value of a file; UsageError where it has none, or is too large."""
    try:
        size = path.stat().st_size
        if size > MAX_JSON:
            raise UsageError(
                f"--predictions {path}: {size >> 20:,} MiB of JSON in one value, at most {MAX_JSON >> 20} are read; "
                "give the tool's other form, such as Inspect's .eval"
            )
        return parse(read_regular(path))
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error
    except UnreadableError as error:
        raise UsageError(f"--predictions {path}: {error}") from error


GROUP: Final = "vlmsweep.prediction_readers"  # entry points: name of a harness -> `LogReader`
_MAX_FILES: Final = 10_000
_LINES: Final = 20  # of a file, after which it is not recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """A harness: how its files are named, recognised and read."""

    name: str
    patterns: tuple[str, ...]  # of its files, anywhere in a folder
    suffixes: tuple[str, ...] = ()  # by which a file is recognised whatever it holds
    is_line: Callable[[object], bool] = lambda _row: False  # whether a line of `.jsonl` is in its form
    is_value: Callable[[object], bool] = lambda _value: False  # whether the value of a `.json` is its log
    holds_answers: Callable[[Path], bool] = lambda _path: True  # whether a file that is recognised by suffix is a log
    is_repeated: Callable[[Path, set[Path]], bool] = lambda _path, _paths: False
    """Whether another file of these holds the same answers with more about them."""
    read: Callable[[Path], Iterator[Logged]]


def reader_named(name: str) -> LogReader:
    """Return a reader; UsageError for an unknown name."""
    if name not in registered(GROUP):
        raise UsageError(f"--from: unknown tool {name!r}{suggest(name, registered(GROUP))}")
    reader: LogReader = load(GROUP, name)
    return reader


def tool_files(path: Path, name: str | None) -> list[tuple[LogReader, Path]]:
    """Return the logs at a path, each with its tool: `name` where it is given, else as recognised; none for no log.

    UsageError where `name` is given and the path holds no log of it, or logs of several tools without a name.
    """
    named = reader_named(name) if name else None
    if path.is_file():
        tool = named or recognised(path)
        return [(tool, path)] if tool else []
    files = _in_folder(path, named)
    if named and not files:
        raise UsageError(f"--predictions {path}: holds no log of {named.name}: {', '.join(named.patterns)}")
    tools = sorted({tool.name for tool, _ in files})
    if len(tools) > 1:
        raise UsageError(f"--predictions {path}: holds logs of {' and '.join(tools)}; --from says which to read")
    return files


def _in_folder(path: Path, named: LogReader | None) -> list[tuple[LogReader, Path]]:
    """Return the logs in a folder without those that others beside them repeat."""
    files: list[tuple[LogReader, Path]] = []
    for tool in [named] if named else load_all(GROUP).values():
        every = (file for pattern in tool.patterns for file in path.rglob(pattern))
        matches = {*islice(every, _MAX_FILES + 1)}
        if len(matches) > _MAX_FILES:
            raise UsageError(
                f"--predictions {path}: over {_MAX_FILES:,} files may be of {tool.name}; give one run's folder"
            )
        files += [(tool, file) for file in sorted(matches) if file.is_file() and _can_read(tool, file)]
    paths = {file for _, file in files}
    return [(tool, file) for tool, file in files if not tool.is_repeated(file, paths)]


def _can_read(tool: LogReader, file: Path) -> bool:
    """Return whether a file in a folder is a tool's log: a table only where its rows are results."""
    found = recognised(file)
    return (
        found is not None and found.name == tool.name and (file.suffix not in tool.suffixes or tool.holds_answers(file))
    )


def recognised(path: Path) -> LogReader | None:
    """Return the tool that wrote a file, by its ending or by its first rows; None where none is known."""
    tools: list[LogReader] = [*load_all(GROUP).values()]
    if found := next((tool for tool in tools if path.suffix in tool.suffixes), None):
        return found
    if path.suffix == ".jsonl":
        rows = [row for _, row in islice(json_lines(path), _LINES) if not isinstance(row, UnreadableError)]
        return next((tool for row in rows for tool in tools if tool.is_line(row)), None)
    if path.suffix == ".json" and path.stat().st_size <= MAX_JSON:
        value = _value(path)
        return next((tool for tool in tools if tool.is_value(value)), None)
    return None


def _value(path: Path) -> Any:
    try:
        return json_file(path)
    except UsageError:
        return None  # not recognised; where it is named, its reader says what is wrong

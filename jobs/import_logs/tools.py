"""The harnesses whose logs are read, and how a file is recognised as one of theirs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from jobs.import_logs import evalscope, inspect_logs, lm_eval, vlmevalkit
from jobs.import_logs.files import MAX_JSON, json_file, json_lines
from jobs.import_logs.records import Logged, LoggedAnswer
from models.errors import suggest
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.errors import UsageError

_MAX_FILES: Final = 10_000
_LINES: Final = 20  # of a file, after which it is not recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A harness: how its files are named, recognised and read."""

    name: str
    patterns: tuple[str, ...]  # of its files, anywhere in a folder
    is_line: Callable[[object], bool] = lambda _row: False  # whether a line of `.jsonl` is its own
    is_value: Callable[[object], bool] = lambda _value: False  # whether the value of a `.json` is its log
    read: Callable[[Path], Iterator[Logged]]


def _inspect(path: Path) -> Iterator[Logged]:
    return inspect_logs.read_archive(path) if path.suffix == ".eval" else inspect_logs.read_json(path)


def _is_lm_eval(row: object) -> bool:
    return lm_eval.is_samples(row) and isinstance(row, dict) and "arguments" in row


def _is_records(value: object) -> bool:
    rows = value if isinstance(value, list) else [value]
    return bool(rows) and vlmevalkit.has_columns(rows[0])


TOOLS: Final[Sequence[Tool]] = (
    Tool(
        name="lm-eval",
        patterns=("samples_*.jsonl",),
        is_line=_is_lm_eval,
        read=lambda path: lm_eval.read_samples(path, "lm-eval"),
    ),
    Tool(
        name="lmms-eval",
        patterns=("*_samples_*.jsonl",),
        is_line=lambda row: lm_eval.is_samples(row) and not _is_lm_eval(row),
        read=lambda path: lm_eval.read_samples(path, "lmms-eval"),
    ),
    Tool(
        name="vlmevalkit",
        patterns=("*.xlsx", "*.tsv", "*_*.csv", "*_*.json"),
        is_value=_is_records,
        read=vlmevalkit.read_results,
    ),
    Tool(
        name="inspect",
        patterns=("*.eval", "*.json"),
        is_value=inspect_logs.is_log,
        read=_inspect,
    ),
    Tool(
        name="evalscope",
        patterns=("reviews/*/*.jsonl", "predictions/*/*.jsonl"),
        is_line=evalscope.is_row,
        read=evalscope.read_rows,
    ),
)
TOOL_NAMES: Final = tuple(tool.name for tool in TOOLS)
_ONLY_THEIRS: Final = {".eval": "inspect", ".xlsx": "vlmevalkit", ".tsv": "vlmevalkit", ".csv": "vlmevalkit"}


def tool_named(name: str) -> Tool:
    """Return a tool; UsageError for an unknown name."""
    for tool in TOOLS:
        if tool.name == name:
            return tool
    raise UsageError(f"--from: unknown tool {name!r}{suggest(name, TOOL_NAMES)}")


def tool_files(path: Path, name: str | None) -> list[tuple[Tool, Path]]:
    """Return the logs at a path, each with its tool: `name` where it is given, else as recognised; none for no log.

    UsageError where `name` is given and the path holds no log of it, or logs of several tools without a name.
    """
    named = tool_named(name) if name else None
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


def _in_folder(path: Path, named: Tool | None) -> list[tuple[Tool, Path]]:
    """Return the logs in a folder without those that others beside them repeat."""
    files: list[tuple[Tool, Path]] = []
    for tool in [named] if named else TOOLS:
        every = (file for pattern in tool.patterns for file in path.rglob(pattern))
        matches = {*islice(every, _MAX_FILES + 1)}
        if len(matches) > _MAX_FILES:
            raise UsageError(
                f"--predictions {path}: over {_MAX_FILES:,} files may be of {tool.name}; give one run's folder"
            )
        files += [(tool, file) for file in sorted(matches) if file.is_file() and _is_of(tool, file)]
    paths = {file for _, file in files}
    return [(tool, file) for tool, file in files if not _is_repeated(tool, file, paths)]


def _is_repeated(tool: Tool, file: Path, paths: set[Path]) -> bool:
    """Return whether another file has the same answers with verdicts: a review, or a result with a longer name."""
    if tool.name == "evalscope" and file.parts[-3:-2] == ("predictions",):
        return file.parents[2] / "reviews" / file.parent.name / file.name in paths
    if tool.name == "vlmevalkit":
        return any(other.parent == file.parent and other.stem.startswith(f"{file.stem}_") for other in paths)
    return False


def _is_of(tool: Tool, file: Path) -> bool:
    """Return whether a file in a folder is a tool's log: a table only where its rows are results."""
    of_file = recognised(file)
    if of_file is None or of_file.name != tool.name:
        return False
    if file.suffix not in (".xlsx", ".tsv", ".csv"):
        return True
    try:
        return isinstance(next(tool.read(file), None), LoggedAnswer)
    except UsageError:
        return True  # its reader says what is wrong


def recognised(path: Path) -> Tool | None:
    """Return the tool that wrote a file, by its ending or by its first rows; None where none is known."""
    if path.suffix in _ONLY_THEIRS:
        return tool_named(_ONLY_THEIRS[path.suffix])
    if path.suffix == ".jsonl":
        rows = [row for _, row in islice(json_lines(path), _LINES) if not isinstance(row, UnreadableError)]
        return next((tool for row in rows for tool in TOOLS if tool.is_line(row)), None)
    if path.suffix == ".json" and path.stat().st_size <= MAX_JSON:
        value = _value(path)
        return next((tool for tool in TOOLS if tool.is_value(value)), None)
    return None


def _value(path: Path) -> Any:
    try:
        return json_file(path)
    except UsageError:
        return None  # not recognised; where it is named, its reader says what is wrong

"""Read JSON of unknown origin within limits; a longer line or a larger file is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from models.guards.regular_files import open_regular, read_regular
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.errors import UsageError

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

"""Read a file of answers made elsewhere, or a folder of files as a benchmark's authors distribute them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import PredictionsReader
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UnknownNameError, UsageError
from pipelines.import_logs.matching import match_logs
from pipelines.import_logs.tools import TOOL_NAMES, tool_files
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import check_names
from pipelines.storage.parts import read_parquet

REQUIRED = ("benchmark", "model", "task", "setting", "sample_id", "output")


def usable_rows(
    spec: RunSpec, path: Path, tool: str | None = None
) -> tuple[list[Rejection], dict[tuple[str, str], list[tuple[int, dict[str, Any]]]]]:
    """Read the rows of a file that a spec selects, with line numbers, by benchmark and model; and the rejected ones.

    Logs of other harnesses are matched to the ingested benchmarks; `tool` names the harness where it is not recognised.
    """
    is_log = bool(tool) or path.is_dir() or (path.is_file() and not _reader(path))
    logs = tool_files(path, tool) if is_log else []
    if logs:
        return match_logs(spec, [record for log_tool, file in logs for record in log_tool.read(file)])
    rejections: list[Rejection] = []
    groups: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for file in _files(path):
        for line, row in _rows(file, rejections):
            _check_names(row, file, line)
            if row["benchmark"] in spec.benchmarks:
                groups.setdefault((row["benchmark"], row["model"]), []).append((line, row))
    return rejections, {key: [*_filtered(spec, rows)] for key, rows in groups.items()}


def _files(path: Path) -> list[Path]:
    """Return the file, or the authors' files in a folder and the folders in it."""
    if not path.is_dir():
        if path.exists() and not path.is_file():
            raise UsageError(f"--predictions {path}: neither a file nor a folder")
        return [path]
    files = sorted(file for file in (*path.glob("*"), *path.glob("*/*")) if file.is_file() and _reader(file))
    if not files:
        raise UsageError(
            f"--predictions {path}: holds no file in the form of a benchmark's authors, and no log of "
            f"{', '.join(TOOL_NAMES)}; give one .jsonl or .parquet file instead"
        )
    return files


def _reader(path: Path) -> PredictionsReader | None:
    """Return what reads a file of a benchmark's authors; None for a file in our own form."""
    readers = (benchmark(name).predictions_reader for name in benchmark_names())
    return next((reader for reader in readers if reader is not None and reader.accepts(path)), None)


def _rows(path: Path, rejections: list[Rejection]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with their line numbers; a line that is no object, or lacks a column, is rejected."""
    reader = _reader(path)
    own_form = _parquet if path.suffix == ".parquet" else _jsonl
    for line, row in reader.rows(path, _text(path)) if reader else own_form(path):
        problem = _problem(row)
        if isinstance(row, dict) and not problem:
            yield line, {**row, "variant": _variant(row.get("variant")), "file": path.name}
        else:
            rejections.append(Rejection(file=path.name, item=f"line {line}", reason=problem))


def _problem(row: Any) -> str:
    """Return why a line is no row of a predictions file; '' where it is one."""
    if isinstance(row, Exception):
        return f"cannot be read: {row}"
    missing = [name for name in REQUIRED if name not in row] if isinstance(row, dict) else list(REQUIRED)
    if missing:
        return f"no column {', '.join(missing)}"
    names = {name: row[name] for name in REQUIRED[:-1]}
    not_text = [name for name, value in names.items() if not isinstance(value, str) or not value]
    if not isinstance(row["output"], str | None):
        not_text.append("output")
    if not_text:
        return f"{not_text[0]} is not text"
    broken = [name for name, value in {**names, "variant": row.get("variant")}.items() if not _is_encodable(value)]
    return f"{broken[0]} contains an unpaired surrogate, which is not valid Unicode" if broken else ""


def _is_encodable(value: Any) -> bool:
    """Return whether a value is no string, or one that UTF-8 can encode: JSON may escape an unpaired surrogate."""
    return not isinstance(value, str) or value.encode("utf-8", "replace").decode() == value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def _variant(value: Any) -> str:
    """Return a variant as text; tables with gaps turn `3` into 3.0 and '' into a missing number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists without end
                        yield number, error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        table = read_parquet(path.read_bytes())
        rows = table.to_pylist()
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UsageError(f"--predictions {path}: cannot be read as Parquet ({str(error)[:200]})") from error
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise UsageError(
            f"--predictions {path}: no column {', '.join(missing)}; there are {', '.join(table.column_names)}"
        )
    yield from enumerate(rows, start=1)


def _check_names(row: Mapping[str, Any], path: Path, line: int) -> None:
    try:
        check_names("benchmark", [row["benchmark"]], benchmark_names())
        tasks = benchmark(row["benchmark"]).tasks
        check_names("task", [row["task"]], list(tasks))
        check_names("setting", [row["setting"]], list(tasks[row["task"]]))
    except UnknownNameError as error:
        raise UsageError(f"{path.name}, line {line}: {error}") from error


def _filtered(spec: RunSpec, rows: Sequence[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, row in rows:
        if (not spec.tasks or row["task"] in spec.tasks) and (not spec.settings or row["setting"] in spec.settings):
            yield line, row

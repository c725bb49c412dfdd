"""Read a file of answers to import, or a folder of files as a benchmark's authors distribute them."""

import math
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from models.guards.regular_files import open_regular, read_regular
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import PredictionsReader
from pipelines.benchmarks.human import POOLED
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UnknownNameError, UsageError
from pipelines.logged_answers.matching import match_logs
from pipelines.logged_answers.readers import GROUP, json_lines, tool_files
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import check_names
from pipelines.registry import registered
from pipelines.sweep.answer_spool import GIVEN, OTHER_VERDICT, AnswerSpool

REQUIRED = ("benchmark", "model", "task", "setting", "sample_id", "output")
_OPTIONAL = ("variant", "status", "error_type", "error")
_STATUSES: Final = ("ok", "error", "excluded")
_BATCH_ROWS: Final = 1024


def read_answers(spec: RunSpec, path: Path, answers: AnswerSpool, tool: str | None = None) -> None:
    """Add the rows of a file that a spec selects to `answers`, and the rejected ones.

    Logs of other harnesses are matched to the ingested benchmarks; `tool` names the harness where it is not recognised.
    """
    is_log = bool(tool) or path.is_dir() or (path.is_file() and not _reader(path))
    logs = tool_files(path, tool) if is_log else []
    if logs:
        rejections, groups = match_logs(spec, [record for log_tool, file in logs for record in log_tool.read(file)])
        answers.rejections += rejections
        for line, row in sorted((numbered for rows in groups.values() for numbered in rows), key=itemgetter(0)):
            answers.add(line, row)
        return
    names: set[tuple[str, ...]] = set()
    for file in _files(path):
        for line, row in _rows(file, answers.rejections):
            if (cell := (row["benchmark"], row["task"], row["setting"])) not in names:
                _check_names(row, file, line)
                names.add(cell)
            is_selected = row["task"] in (spec.tasks or [row["task"]]) and row["setting"] in (
                spec.settings or [row["setting"]]
            )
            if row["benchmark"] in spec.benchmarks and is_selected:
                answers.add(line, row)


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
            f"{', '.join(registered(GROUP))}; give one .jsonl or .parquet file instead"
        )
    return files


def _reader(path: Path) -> PredictionsReader | None:
    """Return what reads a file of a benchmark's authors; None for a file in our own form."""
    readers = (benchmark(name).predictions_reader for name in benchmark_names())
    return next((reader for reader in readers if reader is not None and reader.accepts(path)), None)


def _rows(path: Path, rejections: list[Rejection]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with their line numbers; a line that is no object, or lacks a column, is rejected."""
    reader = _reader(path)
    own_form = _parquet if path.suffix == ".parquet" else json_lines
    for line, row in reader.rows(path, _text(path)) if reader else own_form(path):
        if isinstance(row, dict):
            row |= {
                name: _name(row[name]) for name in ("sample_id", "variant") if isinstance(row.get(name), int | float)
            }
            row |= {name: _text_of(row[name]) for name in ("output", "status") if _is_number(row.get(name))}
        problem = _problem(row)
        if isinstance(row, dict) and not problem:
            yield line, {**row, "variant": str(row.get("variant") or ""), "file": path.name}
        else:
            rejections.append(Rejection(file=path.name, item=f"line {line}", reason=problem))


def _problem(row: Any) -> str:
    """Return why a line is no row of a predictions file; '' where it is one."""
    if isinstance(row, Exception):
        return str(row)
    missing = [name for name in REQUIRED if name not in row] if isinstance(row, dict) else list(REQUIRED)
    if missing:
        return f"no column {', '.join(missing)}"
    names = {name: row[name] for name in REQUIRED[:-1]}
    not_text = [name for name, value in names.items() if not isinstance(value, str) or not value]
    if not isinstance(row["output"], str | None):
        not_text.append("output")
    if not_text:
        return f"{not_text[0]} is not text"
    if (status := row.get("status")) not in (None, "", *_STATUSES):
        return f"status {status!r} is none of {', '.join(_STATUSES)}"
    if names["model"] == POOLED:
        return f"model {POOLED!r} is reserved for all annotators; use another code"
    broken = [name for name, value in {**names, "variant": row.get("variant")}.items() if not _is_encodable(value)]
    return f"{broken[0]} contains an unpaired surrogate, which is not valid Unicode" if broken else ""


def _is_encodable(value: Any) -> bool:
    """Return whether a value is no string, or one that UTF-8 can encode: JSON may escape an unpaired surrogate."""
    return not isinstance(value, str) or value.encode("utf-8", "replace").decode() == value


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def _name(value: float) -> str:
    """Return a sample's id or a variant as text; tables with gaps turn `3` into 3.0 and '' into a missing number."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_of(value: float) -> str | None:
    """Return a number as its text; None for NaN, by which tables with gaps mark a missing cell."""
    return None if isinstance(value, float) and math.isnan(value) else str(value)


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    where = f"--predictions {path}"
    try:
        with open_regular(path) as source:
            file = open_parquet(source, where)
            names = file.schema_arrow.names
            if missing := [name for name in REQUIRED if name not in names]:
                raise UsageError(f"--predictions {path}: no column {', '.join(missing)}; there are {', '.join(names)}")
            columns = [name for name in (*REQUIRED, *_OPTIONAL, *GIVEN, *OTHER_VERDICT) if name in names]
            rows = parquet_rows(file, columns, rows=_BATCH_ROWS, max_bytes=MAX_PICTURE_BYTES, where=where)
            yield from enumerate(rows, start=1)
    except OSError as error:
        raise UsageError(f"{where}: cannot be read as Parquet ({str(error)[:200]})") from error


def _check_names(row: Mapping[str, Any], path: Path, line: int) -> None:
    try:
        check_names("benchmark", [row["benchmark"]], benchmark_names())
        tasks = benchmark(row["benchmark"]).tasks
        check_names("task", [row["task"]], list(tasks))
        check_names("setting", [row["setting"]], list(tasks[row["task"]]))
    except UnknownNameError as error:
        raise UsageError(f"{path.name}, line {line}: {error}") from error

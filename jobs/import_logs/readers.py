"""The harnesses whose logs are read; registered as `vlmsweep.prediction_readers`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jobs.import_logs import evalscope, inspect_logs, lm_eval, vlmevalkit
from pipelines.errors import UsageError
from pipelines.logged_answers.readers import Logged, LoggedAnswer, LogReader


def _is_lm_eval(row: object) -> bool:
    return lm_eval.is_samples(row) and isinstance(row, dict) and "arguments" in row


def _is_records(value: object) -> bool:
    rows = value if isinstance(value, list) else [value]
    return bool(rows) and vlmevalkit.has_columns(rows[0])


def _holds_results(path: Path) -> bool:
    try:
        return isinstance(next(vlmevalkit.read_results(path), None), LoggedAnswer)
    except UsageError:
        return True  # its reader says what is wrong


def _read_inspect(path: Path) -> Iterator[Logged]:
    return inspect_logs.read_archive(path) if path.suffix == ".eval" else inspect_logs.read_json(path)


LM_EVAL: Final = LogReader(
    name="lm-eval",
    patterns=("samples_*.jsonl",),
    is_line=_is_lm_eval,
    read=lambda path: lm_eval.read_samples(path, "lm-eval"),
)
LMMS_EVAL: Final = LogReader(
    name="lmms-eval",
    patterns=("*_samples_*.jsonl",),
    is_line=lambda row: lm_eval.is_samples(row) and not _is_lm_eval(row),
    read=lambda path: lm_eval.read_samples(path, "lmms-eval"),
)
VLMEVALKIT: Final = LogReader(
    name="vlmevalkit",
    patterns=("*.xlsx", "*.tsv", "*_*.csv", "*_*.json"),
    suffixes=(".xlsx", ".tsv", ".csv"),
    is_value=_is_records,
    holds_answers=_holds_results,
    is_repeated=lambda file, paths: any(
        other.parent == file.parent and other.stem.startswith(f"{file.stem}_") for other in paths
    ),
    read=vlmevalkit.read_results,
)
INSPECT: Final = LogReader(
    name="inspect",
    patterns=("*.eval", "*.json"),
    suffixes=(".eval",),
    is_value=inspect_logs.is_log,
    read=_read_inspect,
)
EVALSCOPE: Final = LogReader(
    name="evalscope",
    patterns=("reviews/*/*.jsonl", "predictions/*/*.jsonl"),
    is_line=evalscope.is_row,
    is_repeated=lambda file, paths: (
        file.parts[-3:-2] == ("predictions",) and file.parents[2] / "reviews" / file.parent.name / file.name in paths
    ),
    read=evalscope.read_rows,
)

"""Numbers that others report: records of Every Eval Ever beside the tables that they belong to, never ranked."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobs.leaderboard.rows import Board, LeaderboardRow
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import TooLargeError, UsageError
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

MAX_FILES: Final = 10_000
MAX_BYTES: Final = 16 << 20
_CONFIDENCE: Final = 0.95
_NAMED: Final = 3  # results in a message
_NOTE: Final = "reported by others: data, prompts and settings are not known"
_NO_GROUP: Final = "task and setting are not stated"

log = logging.getLogger(__name__)

_Text = Annotated[str, Field(min_length=1, max_length=1_000)]


class _Foreign(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _Interval(_Foreign):
    lower: float
    upper: float
    confidence_level: float = _CONFIDENCE


class _Uncertainty(_Foreign):
    confidence_interval: _Interval | None = None
    num_samples: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None


class _Score(_Foreign):
    score: float
    uncertainty: _Uncertainty = _Uncertainty()


class _Metric(_Foreign):
    metric_id: str = ""
    metric_name: str = ""
    metric_unit: str = ""
    max_score: float | str | None = None


class _Result(_Foreign):
    evaluation_name: _Text
    evaluation_result_id: str = ""
    metric_config: _Metric
    score_details: _Score


class _Source(_Foreign):
    source_organization_name: _Text
    source_name: str = ""


class _Model(_Foreign):
    name: _Text


class _Record(_Foreign):
    """What is read of an aggregate; its schema has more, which is ignored."""

    schema_version: _Text
    source_metadata: _Source
    model_info: _Model
    evaluation_results: list[_Result]


def reported_rows(locations: Sequence[str], measured: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Return the results in files and folders, local or `s3://`, that belong to a table with a measured row.

    Raises:
        UsageError: a location has no record, a file is none, or no result belongs to a table.
        StoreError: a store cannot be reached.
    """
    units = {row.board: row.unit for row in measured}
    rows, left_out = [], []
    for location in dict.fromkeys(locations):
        for name, record in _records(location):
            for result in record.evaluation_results:
                row = next(filter(None, (_row(result, record, name, *item) for item in units.items())), None)
                if row is None:
                    left_out.append(f"{result.evaluation_name[:80]} ({_metric_name(result)[:80]})")
                else:
                    rows.append(row)
    if locations and not rows:
        (name, metric, *group), *_ = units
        raise UsageError(
            f"--eee {', '.join(locations)}: none of {len(left_out):,} results belongs to a table of these outputs; "
            f"one of the first has metric_id {metric} and evaluation_name {' '.join(filter(None, (name, *group)))!r}"
        )
    if left_out:
        more = f" and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
        log.warning("--eee: skipped results that match no table: %s%s", ", ".join(left_out[:_NAMED]), more)
    return rows


def _records(location: str) -> Iterator[tuple[str, _Record]]:
    """Yield the path of each record below a location, and the record."""
    local = Path(location).expanduser()
    is_file = location.endswith(".json") if is_remote(location) else local.exists() and not local.is_dir()
    parent, _, last = Store(location).uri.rpartition("/")
    store = Store(parent or "/") if is_file else Store(location)
    names = [last] if is_file else [info.path for info in store.list("", "*.json")]
    if not names:
        raise UsageError(f"--eee {location}: no such file, and no folder with *.json files in it")
    if len(names) > MAX_FILES:
        raise UsageError(f"--eee {location}: {len(names):,} files, at most {MAX_FILES:,} are read; name a folder in it")
    for name in names:
        try:
            yield name, _Record.model_validate_json(store.get(name, MAX_BYTES))
        except FileNotFoundError as error:
            raise UsageError(f"--eee {location}: no such file") from error
        except TooLargeError as error:
            raise UsageError(f"--eee {error}; a record has no more than {MAX_BYTES >> 20} MiB") from error
        except ValidationError as error:
            where = name if is_file else f"{location}: {name}"
            raise UsageError(
                f"--eee {where}: no record of Every Eval Ever ({format_validation_error(error)})"
            ) from error


def _metric_name(result: _Result) -> str:
    return result.metric_config.metric_id or result.metric_config.metric_name


def _row(result: _Result, record: _Record, name: str, board: Board, unit: str) -> LeaderboardRow | None:
    """Return the row of a result on a board; None where it belongs to another, or its value cannot be one of it."""
    notes = _match(result, board)
    scale = _scale(result.metric_config, unit)
    score, uncertainty = result.score_details.score, result.score_details.uncertainty
    if notes is None or scale is None or (unit == "fraction" and not 0 <= score / scale <= 1):
        return None
    interval = uncertainty.confidence_interval
    if interval is not None and (
        interval.confidence_level != _CONFIDENCE or not interval.lower <= score <= interval.upper
    ):
        notes, interval = (*notes, "its interval is none of 95% around the value"), None
    source = record.source_metadata
    return LeaderboardRow(
        board=board,
        model=record.model_info.name,
        value=score / scale,
        unit=unit,
        ci_low=None if interval is None else interval.lower / scale,
        ci_high=None if interval is None else interval.upper / scale,
        n=uncertainty.num_samples,
        origin="reported",
        source=", ".join(filter(None, (source.source_organization_name, source.source_name, name))),
        notes=(_NOTE, *notes),
    )


def _match(result: _Result, board: Board) -> tuple[str, ...] | None:
    """Return what is to be noted of a result that belongs to a board; None for one of another board."""
    benchmark_name, metric, task, setting, subset = board
    definition, evaluation = benchmark(benchmark_name), result.evaluation_name
    if _metric_name(result) != metric:
        return None
    if evaluation == " ".join(filter(None, (benchmark_name, task, setting, subset))):
        # Of our own records a category may have the name of a subset; the id tells them apart.
        identity = result.evaluation_result_id
        is_here = not identity.startswith(f"{benchmark_name}/{task}/") or identity.endswith(f"/{subset}//{metric}")
        return () if is_here else None
    is_named = evaluation.casefold() in (benchmark_name.casefold(), definition.title.casefold())
    is_headline = (metric, (task, setting), subset) == (definition.headline, definition.headline_at, "")
    return (_NO_GROUP,) if is_named and is_headline else None


def _scale(metric: _Metric, unit: str) -> float | None:
    """Return by what a score is divided to be in the unit of a board; None where the units differ."""
    stated = metric.metric_unit.casefold()
    if unit != "fraction":
        return 1.0 if stated in ("", unit) else None
    if stated in ("percent", "%") or (not stated and metric.max_score == 100):
        return 100.0
    return 1.0 if stated in ("", "proportion", "fraction") else None

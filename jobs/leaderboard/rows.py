"""Rows of the leaderboard: headline metrics of outputs, published numbers, and results that others report."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import TooLargeError, UsageError
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, prompt_fingerprint
from pipelines.plan.run_spec import scorers_by_kind
from pipelines.report.comparability import judge_name
from pipelines.report.metrics_file import TABLES, Measured, MetricKey, load_metrics
from pipelines.report.references import References
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

_DIGITS: Final = 12  # of a fingerprint in a message
_MAX_SOURCES: Final = 3  # of the rows that share a value, in a message
_ALL_SAMPLES: Final = "all samples"
Board: TypeAlias = tuple[str, str, str, str, str]
"""Benchmark, metric, task, setting and subset: the rows that are compared with each other."""
Origin: TypeAlias = Literal["measured", "baseline", "people", "chance", "published", "reported"]
"""Only measured rows have a rank. Baselines are models that guess; chance is by arithmetic; others report in files."""

EXTERNAL_ORIGINS: Final = ("published", "reported")
_PUBLISHED_PEOPLE: Final = ("Human", "Humans")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRow:
    """One number of one model."""

    board: Board
    model: str
    value: float | None
    unit: str
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None  # rows in the denominator; None where a paper does not say
    n_failed: int | None = None
    origin: Origin = "measured"
    source: str  # label of the output, or the paper's table
    revision: str = ""  # of the weights
    notes: tuple[str, ...] = ()
    rank: int | None = None  # among the measured rows of its board; None where these are not comparable
    rank_low: int | None = None  # the best rank that simultaneous tests of all pairs allow
    rank_high: int | None = None  # the worst
    scored: tuple[Store, ManifestEntry] | None = field(default=None, repr=False, compare=False)
    """Where its rows were scored; None for a number that several models make together."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What the number was measured on and with, by kind; a kind that is unknown or irrelevant is absent."""


def measured_rows(out: Store, run: RunManifest, label: str, benchmarks: Sequence[str] = ()) -> list[LeaderboardRow]:
    """Return the rows of an output, of some benchmarks or of all.

    Raises:
        UsageError: there is no report yet.
        StoreError: a file is damaged, or the store cannot be reached.
    """
    metrics = load_metrics(out)
    if metrics is None:
        raise UsageError(f"{out.uri}: no report/metrics.json yet; `vlmsweep report` writes it")
    numbers = [number for number in metrics if number.source == TABLES]
    entries: dict[str, dict[str, ManifestEntry]] = {}
    for entry in run.entries:
        entries.setdefault(entry.benchmark, {})[entry.model] = entry
    rows = []
    for number in numbers:
        name, by_model = number.benchmark, entries.get(number.benchmark, {})
        if by_model and name in (benchmarks or (name,)) and _is_shown(number, benchmark(name), by_model):
            # Numbers that several models make together have no entry of their own; their members agree in conditions.
            entry = by_model.get(number.model, next(iter(by_model.values())))
            rows.append(_measured_row(number, entry, out, run, label))
    return [*rows, *_chance_rows(rows, numbers, run, label)]


def _chance_rows(
    rows: Sequence[LeaderboardRow], numbers: Sequence[Measured], run: RunManifest, label: str
) -> Iterator[LeaderboardRow]:
    """Yield chance by arithmetic for each board of an output, on the rows of its best model."""
    best: dict[Board, LeaderboardRow] = {}
    for row in rows:
        if row.origin == "measured" and row.value is not None:
            sign = -1 if row.board[1] in benchmark(row.board[0]).lower_is_better else 1
            top = best.setdefault(row.board, row)
            if sign * (row.value - (top.value or 0.0)) > 0:
                best[row.board] = row
    by_model = {
        name: References(benchmark(name), [number for number in numbers if number.benchmark == name], run.baselines)
        for name in {board[0] for board in best}
    }
    index = {(number.benchmark, number.model, number.key): number for number in numbers}
    for (name, metric, task, setting, subset), row in best.items():
        number = index[name, row.model, MetricKey(metric, task, setting, subset)]
        chance = by_model[name].chance(number)
        if chance is not None and not chance.baseline:
            yield LeaderboardRow(
                board=row.board, model="Chance", value=chance.value, unit=row.unit, origin="chance", source=label
            )


def published_rows(measured: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Return the published numbers of the boards that have a measured row."""
    boards = dict.fromkeys(row.board for row in measured)
    return [
        row for name in dict.fromkeys(board[0] for board in boards) for row in _published(name) if row.board in boards
    ]


def _measured_row(number: Measured, entry: ManifestEntry, out: Store, run: RunManifest, label: str) -> LeaderboardRow:
    board: Board = (number.benchmark, number.metric, number.task, number.setting, number.subset)
    return LeaderboardRow(
        board=board,
        **{name: getattr(number, name) for name in ("model", "value", "unit", "ci_low", "ci_high", "n", "n_failed")},
        origin="people" if is_person(number.model) else "baseline" if number.model in run.baselines else "measured",
        source=label,
        revision=str(entry.target.fingerprint.get("revision") or "") if entry.model == number.model else "",
        scored=(out, entry) if entry.model == number.model else None,
        notes=tuple(notes_of(entry, board[2], board[3])),
        conditions=conditions_of(entry, out, run, metric=board[1], task=board[2], setting=board[3]),
    )


def _is_shown(number: Measured, definition: BenchmarkDefinition, models: Collection[str]) -> bool:
    """Return whether a metric is a headline of the whole, or of a part that the paper prints; of runs only the mean."""
    ensemble = definition.ensemble
    runs = [model for model in models if ensemble and ensemble.is_member(model)]
    if ensemble and ensemble.replaces_members and number.model in runs and len(runs) > 1:
        return False
    if number.metric not in definition.main_metrics or number.category:
        return False
    return not number.subset or any(
        (value.metric, value.subset, value.category) == (number.metric, number.subset, "")
        for value in definition.published
    )


def _published(name: str) -> Iterator[LeaderboardRow]:
    settings = benchmark(name).publication.settings
    for value in benchmark(name).published:
        if value.category or value.value is None:
            continue
        setting = settings.get(value.setting, value.setting)
        printed_as = (f"setting in print: {value.setting}",) if value.setting and value.setting != setting else ()
        yield LeaderboardRow(
            board=(name, value.metric, value.task, setting, value.subset),
            model=value.model,
            value=value.value,
            unit=value.unit or "fraction",
            origin="people" if value.model in _PUBLISHED_PEOPLE else "published",
            source=f"paper, {value.table}",
            notes=(*printed_as, *filter(None, (value.note,))),
        )


def conditions_of(
    entry: ManifestEntry, out: Store, run: RunManifest, *, metric: str, task: str, setting: str
) -> dict[str, str]:
    """Return the conditions of a number, by kind; of imported answers only the data, the rest is unknown."""
    definition, target = entry.definition, entry.target
    conditions = {"data": target.prompts.dataset_fingerprint[:_DIGITS]}
    if is_person(entry.model):
        return conditions
    if metric in definition.judged_metrics or (task, metric) in definition.publication.judges:
        conditions["judge"] = judge_name(out, run, entry.benchmark) or "none"
    conditions |= _scorers(entry, run, metric)
    if entry.external:
        return conditions
    conditions |= _prompts(entry, run)
    conditions["seed"] = str(target.prompts.seed)
    conditions["samples"] = _samples(entry, task, setting)
    if target.fingerprint.get("engine") != "random":  # a guess is the baseline of any settings
        conditions["generation settings"] = _listed(target.generation) or "the benchmark's"
    if setting in definition.captions.settings:
        conditions["captioner"] = target.prompts.captioner_name or "none"
    return conditions


def notes_of(entry: ManifestEntry, task: str, setting: str) -> Iterator[str]:
    """Yield what a reader of a number must know, whether or not other rows differ in it."""
    if entry.external:
        yield "imported answers: prompts and settings are not known"
    elif (samples := _samples(entry, task, setting)) != _ALL_SAMPLES:
        yield f"samples {samples}"


def _prompts(entry: ManifestEntry, run: RunManifest) -> Iterator[tuple[str, str]]:
    """Yield the wording of each version of a prompt by hash, and which versions stand in place of others."""
    recorded = run.prompt_fingerprints.get(entry.benchmark, {})
    custom_wording = [other.prompts.wording for other in run.entries if other.benchmark == entry.benchmark]
    for version, text in entry.definition.prompt_texts.items():
        fingerprint = recorded.get(version)
        if version in entry.prompts.wording:
            fingerprint = prompt_fingerprint(entry.prompts.wording[version])
        elif fingerprint in {prompt_fingerprint(texts[version]) for texts in custom_wording if version in texts}:
            fingerprint = prompt_fingerprint(text)  # `run.json` has the wording of the last run, of another model
        if fingerprint:
            yield f"prompt {version}", fingerprint[:_DIGITS]
    yield "prompt versions", _listed(entry.prompts.prompt_versions) or "the benchmark's"


def _scorers(entry: ManifestEntry, run: RunManifest, metric: str) -> dict[str, str]:
    definition = entry.definition
    kinds = definition.publication.scorers.get(metric, ())
    if metric in definition.publication.unnamed_scorers:
        kinds = tuple(definition.default_scorers)
    named, default = scorers_by_kind(run.sweep.scorers), definition.default_scorers
    return {f"scorer {kind}": named[kind].address if kind in named else default.get(kind, "none") for kind in kinds}


def _samples(entry: ManifestEntry, task: str, setting: str) -> str:
    """Return on which samples a task and setting was evaluated; a derived task, on those of its tasks."""
    tasks = entry.definition.derived_tasks.get(task, (task,))
    selections = []
    for selected_entry in entry.by_selection():
        if any((group.task in tasks) and group.setting == setting for group in selected_entry.prompts.task_settings):
            chosen = [f"--limit {selected_entry.limit}"] if selected_entry.limit else []
            chosen += (
                [f"--sample-id {shortened(sorted(selected_entry.sample_ids))}"] if selected_entry.sample_ids else []
            )
            selections.append(" ".join(chosen) or _ALL_SAMPLES)
    return ", ".join(dict.fromkeys(selections)) or _ALL_SAMPLES


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in sorted(values.items())
    )


def shortened(names: Sequence[str]) -> str:
    """Return names as a list, the first few of many."""
    more = len(names) - _MAX_SOURCES
    return ", ".join(names[:_MAX_SOURCES]) + (f" and {more} more" if more > 0 else "")


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

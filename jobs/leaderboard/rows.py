"""Rows of the leaderboard: the headline metrics of outputs, and the published numbers of the same measures."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import is_person
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, prompt_fingerprint
from pipelines.plan.run_spec import scorers_by_kind
from pipelines.report.comparability import judge_name
from pipelines.report.measured import TABLES, Measured, MetricKey
from pipelines.report.metrics_file import load_metrics
from pipelines.report.references import References
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

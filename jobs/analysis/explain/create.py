"""Explain the difference of two sides, number by number."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from jobs.analysis.explain.requests import (
    READINGS,
    Key,
    OtherReading,
    Side,
    StoredRequest,
    keys_of,
    other_readings,
    read_entry,
    scored_rows,
)
from jobs.analysis.explain.sides import LogSide, OutputSide, entry_pairs, log_entries
from jobs.analysis.explain.split import Explanation, explain
from models.errors import suggest
from models.messages import DEFAULT_SEED
from pipelines.benchmarks import benchmark, unknown_name
from pipelines.benchmarks.records import RIGHT
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.logged_answers.matching import match_logs, words
from pipelines.logged_answers.readers import tool_files
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_manifest import PRODUCT, ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import check_names, human_groups, selected_groups
from pipelines.report.metrics_file import MetricKey, load_metrics, number_or_none
from pipelines.score.text_scorers import ScoringContext, row_of
from pipelines.storage.store import Store

_NOT_STORED: Final = "a log holds neither weights, media nor settings: it is taken as the other side's model"


def read_log(log: LogSide, spec: RunSpec, *, label: str, tool: str | None = None) -> Side:
    """Read the answers of a log to the only benchmark of a spec; UsageError where none fits."""
    logs = tool_files(log.path, tool)
    if not logs:
        raise UsageError(f"{log.path}: neither the --out of a run nor a log of a harness; --from names the harness")
    rejections, groups = match_logs(spec, [record for reader, file in logs for record in reader.read(file)])
    (name,) = spec.benchmarks
    models = sorted(model for _, model in groups)
    if not models:
        first = f"; the first: {rejections[0].reason}" if rejections else ""
        raise UsageError(f"{log.path}: no answer fits a question of {name}{first}")
    if log.model not in (models if log.model else [""]):
        raise UsageError(f"{log.path}: no model {log.model!r}{suggest(log.model, models)}; there are {models}")
    if not log.model and len(models) > 1:
        raise UsageError(f"{log.path}: answers of {', '.join(models)}; name one as LOG:MODEL")
    model = log.model or models[0]
    notes = [f"{label}: {_NOT_STORED}"]
    if rejections:
        notes.append(f"{label}: {len(rejections):,} answers of the log are left out; the first: {rejections[0].reason}")
    return _logged_side(spec, model, [row for _, row in groups[name, model]], f"{label}, {model}", notes)


def _logged_side(spec: RunSpec, model: str, logged: Sequence[dict[str, Any]], label: str, notes: Sequence[str]) -> Side:
    (name,) = spec.benchmarks
    dataset = Dataset.open(Store(spec.data), name)
    prompts = PromptPlan(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        task_settings=(),
        seed=spec.seed,
        table=dataset.manifest.table,
    )
    context = ScoringContext(dataset=dataset, prompts=prompts)
    by_key: dict[Key, dict[str, Any]] = {}
    for row in logged:  # of several answers to a request the first counts, as where a log is scored
        by_key.setdefault((row["task"], row["setting"], row["sample_id"], row["variant"]), row)
    rows = {key: row_of(_prediction(row), context.samples[row["sample_id"]], context) for key, row in by_key.items()}
    frame = scored_rows(rows, prompts.benchmark)
    column = next((name for name in RIGHT if name in frame), None)
    for index, key in enumerate(keys_of(frame)):
        verdict = by_key[key]["their_correct"]
        if verdict is not None and column is not None:
            frame.loc[index, column] = verdict
            frame.loc[index, "status"] = "ok"  # a failed request that the harness counts
    return Side(
        label=label,
        model=model,
        definition=prompts.benchmark,
        samples=context.samples,
        frame=frame,
        rows=rows,
        requests={key: StoredRequest(text=words(row["prompt"])) for key, row in by_key.items()},
        notes=tuple(notes),
    )


def _prediction(row: dict[str, Any]) -> dict[str, Any]:
    """Return a logged answer as a stored prediction."""
    return {
        **row,
        "request_id": "/".join(row[name] for name in ("task", "setting", "sample_id", "variant")),
        "status": "error" if row["output"] is None else "ok",
        "prompt_version": "",
        "finish_reason": "",
        "steps": (),
        "given": {},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which numbers are explained: '' and empty for the headline of all that both sides have."""

    metrics: tuple[str, ...] = ()  # one, or A's and B's
    benchmarks: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    readings: tuple[str, ...] = READINGS
    data: str = ""  # location of the questions that logs answer; '' for that of the other side
    tool: str | None = None  # the harness of logs, where it is not recognised

    def __post_init__(self) -> None:
        if len(self.metrics) > 2:
            raise UsageError("--metric: give one metric, or two: one of A and one of B")
        check_names("reading", self.readings, READINGS)


@dataclass(frozen=True, slots=True)
class ExplainedNumber:
    """An explanation, and the number of each side by other readers."""

    explanation: Explanation
    readings_a: tuple[OtherReading, ...]
    readings_b: tuple[OtherReading, ...]


def explain_sides(a: OutputSide | LogSide, b: OutputSide | LogSide, selection: Selection) -> list[ExplainedNumber]:
    """Explain every number of a selection that two sides have."""
    with ExitStack() as stack:
        return [number for pair in _side_pairs(a, b, selection, stack) for number in explain_pair(*pair)]


def _side_pairs(
    a: OutputSide | LogSide, b: OutputSide | LogSide, selection: Selection, stack: ExitStack
) -> Iterator[tuple[Side, Side, Selection]]:
    """Yield the rows of both sides, benchmark by benchmark and model by model, and what of them is selected."""
    sides = {"A": a, "B": b}
    stores = {
        letter: stack.enter_context(PlanStore.reading(side.out))
        for letter, side in sides.items()
        if isinstance(side, OutputSide)
    }
    if isinstance(a, OutputSide) and isinstance(b, OutputSide):
        pairs = entry_pairs(a, b, selection.benchmarks)
        parts = _parts(selection, [first.benchmark for first, _ in pairs])
        for first, second in (pair for pair in pairs if pair[0].benchmark in parts):
            yield _side(a, first, stores["A"], "A"), _side(b, second, stores["B"], "B"), parts[first.benchmark]
    elif not stores:
        if not (selection.data and selection.benchmarks):
            raise UsageError("comparing two logs requires --data and --benchmarks")
        load_tables(selection.data, selection.benchmarks)
        for name, part in _parts(selection, selection.benchmarks).items():
            spec = _log_spec(part, name, selection.data)
            log_a, log_b = (
                read_log(side, spec, label=letter, tool=selection.tool)
                for letter, side in sides.items()
                if isinstance(side, LogSide)
            )
            yield log_a, log_b, part
    else:
        for side in sides.values():
            entries = log_entries(side, selection.benchmarks) if isinstance(side, OutputSide) else []
            parts = _parts(selection, [entry.benchmark for entry in entries]) if entries else {}
            for entry in (entry for entry in entries if entry.benchmark in parts):
                part = parts[entry.benchmark]
                spec = _log_spec(part, entry.benchmark, selection.data or entry.data, entry.prompts.seed)
                side_a, side_b = (
                    read_log(of, spec, label=letter, tool=selection.tool)
                    if isinstance(of, LogSide)
                    else _side(of, entry, stores[letter], letter)
                    for letter, of in sides.items()
                )
                yield side_a, side_b, part


def _parts(selection: Selection, names: Sequence[str]) -> dict[str, Selection]:
    """Return the selection per benchmark that has its tasks and settings; UsageError for names that none has."""
    if len({*names}) == 1:  # what it has not is an error that names what the sides have
        return {names[0]: selection}
    tasks, settings = selection.tasks, selection.settings
    spec = RunSpec(data="", out="", models={}, benchmarks=(*dict.fromkeys(names),), tasks=tasks, settings=settings)
    chosen = [
        n
        for n in spec.benchmarks
        for groups in (selected_groups, human_groups)
        if groups(benchmark(n), tasks, settings)
    ]
    parts = {name: spec.part((), [name]) for name in chosen}
    return {name: replace(selection, tasks=part.tasks, settings=part.settings) for name, part in parts.items()}


def _log_spec(selection: Selection, name: str, data: str, seed: int = DEFAULT_SEED) -> RunSpec:
    tasks, settings = selection.tasks, selection.settings
    return RunSpec(data=data, out="", models={}, benchmarks=(name,), tasks=tasks, settings=settings, seed=seed)


def _side(side: OutputSide, entry: ManifestEntry, store: PlanStore, label: str) -> Side:
    read = read_entry(side.out, entry, store, label=f"{label}, {entry.model}", judge=side.run.sweep.first_judge)
    if side.run.product in ("", PRODUCT):  # the report may be older than the rows, and nothing else
        return read
    numbers = [n for n in load_metrics(side.out) or () if (n.benchmark, n.model) == (entry.benchmark, entry.model)]
    return replace(read, reported={number.key: number.value for number in numbers if number.value is not None})


def explain_pair(a: Side, b: Side, selection: Selection) -> Iterator[ExplainedNumber]:
    """Yield the explanation of every number of a selection; UsageError for a metric that neither side has."""
    for key in _keys(a, b, selection):
        key_b = key._replace(metric=selection.metrics[-1]) if len(selection.metrics) == 2 else None
        explanation = explain(a, b, key, key_b)
        readings = [
            tuple(other_readings(side, side_key, side.metric_rows(key), selection.readings))
            for side, side_key in ((a, key), (b, key_b or key))
        ]
        yield ExplainedNumber(explanation, *readings)


def _keys(a: Side, b: Side, selection: Selection) -> list[MetricKey]:
    """Return the numbers that both have: of the metric that is named, else of the first main one that they have."""
    keys_by_side = [_whole_keys(side) for side in (a, b)]
    check_names("task", selection.tasks, sorted({key.task for keys in keys_by_side for key in keys} - {""}))
    check_names("setting", selection.settings, sorted({key.setting for keys in keys_by_side for key in keys} - {""}))
    selected = [
        [
            key
            for key in keys
            if (not selection.tasks or key.task in selection.tasks)
            and (not selection.settings or key.setting in selection.settings)
        ]
        for keys in keys_by_side
    ]
    for side, keys, name in zip((a, b), keys_by_side, selection.metrics[:1] + selection.metrics[-1:], strict=False):
        names = sorted({key.metric for key in keys})
        if name not in names:
            raise UsageError(f"{side.label}: {unknown_name(f'metric of {side.name}', name, names)}")
    for metric in selection.metrics[:1] or a.definition.main_metrics:
        second = selection.metrics[-1] if selection.metrics else metric
        keys = [key for key in selected[0] if key.metric == metric and key._replace(metric=second) in selected[1]]
        if keys:
            return keys
    metrics = " and ".join(selection.metrics) or "headline"
    raise UsageError(f"{a.label} and {b.label} have no {metrics} of {a.name} in common, of the same task and setting")


def _whole_keys(side: Side) -> list[MetricKey]:
    """Return the metrics of all items that a side has a value of."""
    reduced = side.definition.reduce(side.frame, side.samples) if len(side.frame) else []
    return [
        MetricKey(m.metric, m.task, m.setting)
        for m in reduced
        if not (m.subset or m.category) and number_or_none(m.value) is not None
    ]

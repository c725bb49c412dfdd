"""Reduce the scores of one model on one benchmark to metrics, counts and example answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from models.messages import Step, Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import is_person
from pipelines.benchmarks.records import Metric, Sample
from pipelines.errors import DamagedPartError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.context import EntryPlan
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.records import CellCount
from pipelines.report.model import ExampleAnswer
from pipelines.report.token_efficiency import Efficiency, measure_efficiency, media_key
from pipelines.storage.parts import part_folder, read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES_PER_CELL = 3
_SCORE_COLUMNS = ("answer", "rule", "flags", "finish_reason", "verdict_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResults:
    """The results of one model on one benchmark."""

    metrics: list[dict[str, Any]]  # rows of `metrics.json`, with `note` and `plain` (see `_metric_row`)
    counts: list[CellCount]
    answers: list[ExampleAnswer]
    judge_failed: int  # rows without a verdict because of the judge's engine
    marks: Mapping[str, float] = field(default_factory=dict)  # numbers of single rows for the tables of human files
    replaced: tuple[str, ...] = ()  # models whose numbers tables and figures leave out, because these stand for them
    efficiency: Efficiency | None = None  # None if no answer has token counts


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """An entry of an output with its plans: the input of a reducer."""

    entry: ManifestEntry
    plans: Sequence[EntryPlan]


@dataclass(slots=True)
class _EntryRequests:
    columns: dict[str, list[str]]  # identity of each request, and its fields of the sample
    samples: dict[str, Sample]  # by id
    example_texts: dict[str, str] = field(default_factory=dict)  # prompts of the examples, by request id
    media_keys: dict[str, bytes] = field(default_factory=dict)


_COLUMNS = ("request_id", "sample_id", "task", "setting", "variant", "subset", "category", "cluster")


def reduce_entry(planned: PlannedEntry, people: Sequence[PlannedEntry], out_uri: str) -> EntryResults:
    """Reduce one entry; `people` are the entries of persons on the same benchmark. Needs no cluster."""
    out, entry = Store(out_uri), planned.entry
    requests = _entry_requests(planned)
    definition, files = benchmark(entry.benchmark), load_human_files(out, entry.benchmark)
    frame = definition.human.with_labels(_join(requests.columns, _scores(out, entry)), files, entry.model)
    metrics = definition.reporter.reduce(frame, requests.samples)
    if (files or people) and not is_person(entry.model):
        human_frames = {
            person.entry.model: _join(_entry_requests(person).columns, _scores(out, person.entry)) for person in people
        }
        metrics += definition.human.metrics(frame, requests.samples, files, human_frames)
    measured = None if entry.external else requests.media_keys
    return EntryResults(
        metrics=[_metric_row(entry, metric) for metric in metrics],
        counts=_counts(entry, frame),
        answers=_examples(entry, out, frame, requests.example_texts),
        judge_failed=int((frame["verdict_state"] == "failed").sum()),
        marks=definition.human.annotation_scores(frame, files),
        efficiency=measure_efficiency(entry.benchmark, entry.model, out, measured) if measured is not None else None,
    )


def reduce_ensemble(group: Sequence[PlannedEntry], out_uri: str) -> EntryResults:
    """Return the joint results of the models of one benchmark; all must have answered the same data."""
    out, first = Store(out_uri), group[0].entry
    frames: dict[str, pd.DataFrame] = {}
    samples: dict[str, Sample] = {}
    for planned in group:
        requests = _entry_requests(planned)
        samples |= requests.samples
        frames[planned.entry.model] = _join(requests.columns, _scores(out, planned.entry))
    ensemble = benchmark(first.benchmark).ensemble
    metrics = ensemble(frames, samples) if ensemble else {}
    rows = [{**_metric_row(first, metric), "model": name} for name, named in metrics.items() for metric in named]
    replaced = tuple(frames) if rows and benchmark(first.benchmark).ensemble_replaces_members else ()
    return EntryResults(metrics=rows, counts=[], answers=[], judge_failed=0, replaced=replaced)


def _entry_requests(planned: PlannedEntry) -> _EntryRequests:
    dataset = Dataset.open(Store(planned.entry.data), planned.entry.benchmark)
    requests = _EntryRequests({name: [] for name in _COLUMNS}, {})
    examples: Counter[tuple[str, str]] = Counter()
    for cut in planned.plans:
        requests.samples |= {sample.sample_id: sample for sample in iter_selected_samples(dataset, cut.entry.selection)}
        for row in cut.plan:
            sample, steps = requests.samples[row.sample_id], row.steps
            request_id = cut.entry.builder.request_id(row)
            identity = (request_id, row.sample_id, row.task, row.setting, row.variant)
            for name, value in zip(_COLUMNS, (*identity, sample.subset, sample.category, sample.cluster), strict=True):
                requests.columns[name].append(value)
            requests.media_keys[request_id] = media_key(steps)
            cell = (row.task, row.setting)
            # A thin, steady choice over the whole set: which answers are shown depends on nothing but their ids.
            if examples[cell] < EXAMPLES_PER_CELL and _is_example(request_id, examples[cell]):
                examples[cell] += 1
                requests.example_texts[request_id] = _text(steps)
    return requests


def _is_example(request_id: str, already: int) -> bool:
    return already == 0 or hashlib.sha256(request_id.encode()).digest()[0] < 16


def _text(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    last = steps[-1]
    return "\n".join([*(p.text for turn in last.turns for p in turn.parts if isinstance(p, Text)), *last.scored])


def _scores(out: Store, entry: ManifestEntry) -> dict[str, dict[str, Any]]:
    """Return score rows by request id; only of parts whose predictions still exist."""
    folder = part_folder("predictions", entry.benchmark, entry.model)
    rows: dict[str, dict[str, Any]] = {}
    for info in out.list(folder, "*.parquet"):
        path = info.path.replace("predictions/", "scores/", 1)
        if not out.exists(path):
            continue
        try:
            rows.update((row["request_id"], row) for row in read_part(out, path).to_pylist())
        except DamagedPartError as error:
            raise DamagedPartError(f"{error}; `vlmsweep score` with the same flags writes it again") from error
    return rows


def _join(planned: Mapping[str, list[str]], scores: Mapping[str, dict[str, Any]]) -> pd.DataFrame:
    """Return one row per planned request, with status `missing` where there is no score."""
    import pandas as pd

    rows = [scores.get(request_id) for request_id in planned["request_id"]]
    frame = pd.DataFrame(dict(planned))
    frame["status"] = [row["status"] if row else "missing" for row in rows]
    for name in _SCORE_COLUMNS:
        frame[name] = pd.Series([row[name] if row else None for row in rows], dtype=object)
    frame["verdict_state"] = frame["verdict_state"].fillna("absent")
    values = [dict(row["values"]) if row else {} for row in rows]
    for name in sorted({name for row_values in values for name in row_values}):
        frame[name] = pd.Series([row_values.get(name) for row_values in values], dtype="float64")
    return frame


def _metric_row(entry: ManifestEntry, metric: Metric) -> dict[str, Any]:
    """Return a row of `metrics.json`; `plain` numbers (differences, lengths, scores) are never printed as percent."""
    unit = metric.unit or "fraction"
    row = {"benchmark": entry.benchmark, "model": entry.model, **asdict(metric), "unit": unit}
    return {**row, "plain": metric.unit not in ("fraction", "count")}


def _counts(entry: ManifestEntry, frame: pd.DataFrame) -> list[CellCount]:
    """Count by task and setting; requests that an imported predictions file does not answer do not count."""
    counts = []
    counted = frame[frame["status"] != "missing"] if entry.external else frame
    for (task, setting), rows in counted.groupby(["task", "setting"], sort=False):
        by_status = Counter(rows["status"])
        counts.append(
            CellCount(
                benchmark=entry.benchmark,
                model=entry.model,
                task=str(task),
                setting=str(setting),
                requests=len(rows),
                ok=by_status["ok"],
                error=by_status["error"],
                excluded=by_status["excluded"],
                missing=by_status["missing"],
            )
        )
    return counts


def _examples(entry: ManifestEntry, out: Store, frame: pd.DataFrame, words: Mapping[str, str]) -> list[ExampleAnswer]:
    chosen = frame[frame["request_id"].isin(list(words))]
    rows = {row["request_id"]: {str(k): v for k, v in row.items()} for row in chosen.to_dict("records")}
    outputs: dict[str, dict[str, Any]] = {}
    for info in out.list(part_folder("predictions", entry.benchmark, entry.model), "*.parquet"):
        for raw in read_part(out, info.path, ["request_id", "output", "error"]).to_pylist():
            if raw["request_id"] in words:
                outputs[raw["request_id"]] = raw
    return [
        _example(entry, rows[request_id], outputs[request_id], text)
        for request_id, text in words.items()
        if request_id in outputs
    ]


def _example(entry: ManifestEntry, row: Mapping[str, Any], raw: Mapping[str, Any], text: str) -> ExampleAnswer:
    from typing import Literal

    import pandas as pd

    right = next((row[name] for name in ("correct", "accepted") if name in row and not pd.isna(row[name])), None)
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"] = "unscored"
    if row["status"] != "ok":
        verdict = "error" if row["status"] == "error" else "excluded"
    elif right is not None:
        verdict = "right" if right else "wrong"
    return ExampleAnswer(
        benchmark=entry.benchmark,
        model=entry.model,
        task=row["task"],
        setting=row["setting"],
        sample_id=row["sample_id"],
        variant=row["variant"],
        question=text,
        output=raw["output"],
        read_as=row["answer"],
        verdict=verdict,
        note=raw["error"] or f"rule: {row['rule']}",
    )

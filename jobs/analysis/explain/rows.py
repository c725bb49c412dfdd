"""The rows of one side of an explanation: what was asked, what came back, and how it was read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from jobs.analysis.explain.requests import Key, PromptStore, StoredRequest, iter_requests
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import Row, Sample, Verdict
from pipelines.decisions.paired_gap import KEY, ScoredEntry
from pipelines.ingest.dataset import Datasets
from pipelines.plan.context import entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.measured import MetricKey
from pipelines.score.rows import ScoringContext, row_of
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

JUDGED: Final = ("accepted", "accepted_authors", "gpteval")  # rest on a judge's verdict: kept when read again
_SAMPLE: Final = ("subset", "category", "cluster")
_READ: Final = ("status", "answer", "rule", "finish_reason", "flags")
_TEXTS: Final = frozenset((*KEY, *_SAMPLE, *_READ, "request_id", "verdict_state"))  # all other columns are numbers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Side(ScoredEntry):
    """One side: the rows of one model on one benchmark, and what is stored of its requests."""

    label: str
    model: str
    rows: Mapping[Key, Row]  # the same, to be read again
    requests: Mapping[Key, StoredRequest]
    prompts: PromptStore | None = None
    fingerprint: Mapping[str, Any] | None = None  # of the model; None where it is not known
    judge: str = ""
    data: str = ""
    notes: tuple[str, ...] = ()
    reported: Mapping[MetricKey, float] = field(default_factory=dict)
    """Numbers that others computed from these rows: an earlier version of ours, or the harness of a log."""

    @property
    def name(self) -> str:
        """Name of the benchmark."""
        return self.definition.name

    def read_again(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows as today's reader reads their outputs; verdicts of judges stay."""
        return read_rows(frame, [self.rows.get(key) for key in keys_of(frame)], self.definition)

    def read_on(self, samples: Mapping[str, Sample], changed: Collection[str], frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows as scored against other samples where these are changed, by id."""
        if not changed:
            return frame
        rows = [self.rows.get(key) if key[2] in changed else None for key in keys_of(frame)]
        moved = [row and replace(row, sample=samples[row.sample.sample_id]) for row in rows]
        return read_rows(frame, moved, self.definition)


def keys_of(frame: pd.DataFrame) -> list[Key]:
    """Return the keys of rows."""
    return list(zip(*(frame[name].tolist() for name in KEY), strict=True))


def read_rows(frame: pd.DataFrame, rows: Sequence[Row | None], definition: BenchmarkDefinition) -> pd.DataFrame:
    """Return scored rows with the answers and scores that a benchmark's reader takes from other rows, None as it is."""
    columns = {str(name): frame[name].tolist() for name in frame}
    for index, row in enumerate(rows):
        if row is not None:
            _read(columns, index, row, definition)
    return frame.assign(**{name: _column(frame, name, values) for name, values in columns.items()})


def scored_rows(rows: Mapping[Key, Row], definition: BenchmarkDefinition) -> pd.DataFrame:
    """Return rows as a benchmark's reader scores them, without verdicts of judges."""
    frame = pd.DataFrame([dict(zip(KEY, key, strict=True)) for key in rows], columns=KEY, dtype=object)
    frame["request_id"] = [row.request_id for row in rows.values()]
    for name, value in (*dict.fromkeys((*_SAMPLE, *_READ), "").items(), ("verdict_state", "absent")):
        frame[name] = pd.Series([value] * len(frame), dtype=object)
    return read_rows(frame, [*rows.values()], definition)


def _column(frame: pd.DataFrame, name: str, values: list[Any]) -> Any:
    is_number = name not in frame or frame[name].dtype == np.float64
    return np.array(values, np.float64) if is_number else pd.Series(values, index=frame.index, dtype=object)


def _read(columns: dict[str, list[Any]], index: int, row: Row, definition: BenchmarkDefinition) -> None:
    """Replace the readings of one row by those of today's reader."""
    verdict_state = columns["verdict_state"][index]
    accepted = [columns[name][index] for name in JUDGED if name in columns]
    verdict = Verdict(state=verdict_state, accepted=any(value > 0 for value in accepted))
    reading = definition.reading(replace(row, verdict=verdict))
    values = {
        name: value
        for name, value in reading.values.items()
        if name not in JUDGED or name not in columns or np.isnan(columns[name][index])
    }
    for name, value in values.items():
        columns.setdefault(name, [np.nan] * len(columns["status"]))[index] = value
    if row.status != "ok":  # a failed request has no score but what its reader gives it
        for name in columns.keys() - _TEXTS:
            columns[name][index] = values.get(name, np.nan)
    sample_values = {name: getattr(row.sample, name) for name in _SAMPLE}
    texts = {"status": row.status, "answer": reading.answer, "rule": reading.rule, **sample_values}
    for name, value in {**texts, "flags": [*row.dropped, *reading.flags]}.items():
        columns[name][index] = value


def read_entry(out: Store, entry: ManifestEntry, store: PlanStore, *, label: str, judge: str = "") -> Side:
    """Read an entry of an output in its first set of prompts; DatasetError where its data are gone."""
    entry = next(iter(entry.by_prompt_set()))
    plans = entry_plans(entry, out, store, Datasets())
    scored = ScoredEntry.read(out, entry, plans)
    planned = {request_id: (key, request) for request_id, key, request in iter_requests(plans)}
    context = ScoringContext(dataset=plans[0].dataset, prompts=entry.prompts)
    rows, sent = _predictions(out, entry, planned, context)
    external = f"{label}: its answers were imported, so what was asked and how it was decoded is not stored"
    return Side(
        label=label,
        model=entry.model,
        definition=scored.definition,
        samples=scored.samples,
        frame=scored.frame,
        rows=rows,
        requests={} if entry.external else sent,
        prompts=PromptStore(plans),
        fingerprint=None if entry.external else entry.target.fingerprint,
        judge=judge,
        data=entry.data,
        notes=(external,) if entry.external else (),
    )


def _predictions(
    out: Store, entry: ManifestEntry, planned: Mapping[str, tuple[Key, StoredRequest]], context: ScoringContext
) -> tuple[dict[Key, Row], dict[Key, StoredRequest]]:
    rows: dict[Key, Row] = {}
    sent: dict[Key, StoredRequest] = {}
    for info in list_parts(out, part_folder("predictions", entry.benchmark, entry.model)):
        for raw in read_part(out, info).to_pylist():
            if raw["request_id"] in planned:
                key, request = planned[raw["request_id"]]
                rows[key] = row_of(raw, context.samples[raw["sample_id"]], context)
                frames, decoding = raw.get("frames_used"), raw.get("decoding") or ""
                sent[key] = replace(request, frames=frames, decoding=decoding)
    return rows, sent

"""Requests and rows of a side, in what two requests for the same row differ, and how others read a row."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from models.entry_fields import identity_fields
from models.messages import Media, Part, Step, Text
from models.spec import ModelSpec
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.readers.harnesses import HARNESS_READERS, HarnessReading
from pipelines.benchmarks.records import Row, Sample, Verdict
from pipelines.decisions.evidence import KEY, ScoredEntry
from pipelines.ingest.dataset import Datasets
from pipelines.logged_answers.matching import prompt_text, words
from pipelines.plan.context import EntryPlan, entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.stored_plan import PlanReader, PlanRow, iter_media
from pipelines.report.metrics_file import MetricKey
from pipelines.score.text_scorers import ScoringContext, row_of
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

Key: TypeAlias = tuple[str, str, str, str]  # task, setting, sample id, variant
Difference: TypeAlias = Literal["prompts", "media", "decoding"]
DIFFERENCES: Final[tuple[Difference, ...]] = ("prompts", "media", "decoding")
_CONTEXT: Final = "max_model_len"  # of `limits`: what it costs shows in `frames_used`


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """One request: of a run by its plan, of a log by the text that it shows."""

    prompt_sha256: str = ""  # '' of a log
    text: str = ""  # the words of a log's prompt; '' where the log has none
    has_media: bool = False
    generation: str = ""  # JSON of all steps' settings
    decoding: str = ""  # how the engine says that it decoded
    frames: int | None = None  # of the clip that were used
    part: str = ""  # of the plan
    index: int = 0  # in the part


class PromptStore:
    """The prompts of an entry's plans, read where two differ."""

    def __init__(self, plans: Sequence[EntryPlan]) -> None:
        """Open the plans."""
        self._readers = {part.path: PlanReader(plan.plan.store) for plan in plans for part in plan.plan.parts}

    def row(self, request: StoredRequest) -> PlanRow:
        """Return the stored request."""
        return next(self._readers[request.part].rows(request.part, [request.index]))


def iter_requests(plans: Sequence[EntryPlan]) -> Iterator[tuple[str, Key, StoredRequest]]:
    """Yield the requests of an entry's plans with their ids, without excluded ones' prompts."""
    for plan in plans:
        target = plan.entry.target
        for part in plan.plan.parts:
            for index, row in plan.plan.iter_part(part, payload=False):
                yield (
                    target.request_id(row),
                    (row.task, row.setting, row.sample_id, row.variant),
                    StoredRequest(
                        prompt_sha256=row.prompt_sha256,
                        has_media=bool(row.media_group),
                        generation=_generation(target, row),
                        part=part.path,
                        index=index,
                    ),
                )


def _generation(target: ModelTarget, row: PlanRow) -> str:
    """Return the settings of all steps as JSON: a greedy answer does not depend on the seed, so 0 stands there."""
    steps = [
        [step.max_new_tokens, step.temperature, step.num_beams, step.seed if step.temperature > 0 else 0]
        for step in target.generations(row)
    ]
    return json.dumps(steps)


def same_weights(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> bool | None:
    """Return whether two models are the same by their fingerprints; None where one has none."""
    if a is None or b is None:
        return None
    return all(a.get(key) == b.get(key) for key in _keys("weights"))


def model_differences(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> dict[Difference, bool]:
    """Return what the entries of two models change for every request, the limits of media for those with media."""
    if a is None or b is None:
        return dict.fromkeys(DIFFERENCES, False)
    return {
        name: any(_without_context(a.get(key)) != _without_context(b.get(key)) for key in _keys(name))
        for name in DIFFERENCES
    }


def _keys(changes: str) -> list[str]:
    """Return the keys of a model's fingerprint that change this."""
    return [mark.key or name for name, mark in identity_fields(ModelSpec) if mark.changes == changes]


def _without_context(value: object) -> object:
    return {key: of for key, of in value.items() if key != _CONTEXT} if isinstance(value, dict) else value


class Comparer:
    """Compares the requests of two sides."""

    def __init__(
        self,
        stores: tuple[PromptStore | None, PromptStore | None],
        fingerprints: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    ) -> None:
        """Take what is stored of each side; None of a log."""
        self._stores = stores
        self._model_differences = model_differences(*fingerprints)
        self._parts: dict[tuple[int, str], tuple[str, str, str]] = {}

    def differences(self, a: StoredRequest | None, b: StoredRequest | None) -> list[Difference]:
        """Return in what two requests differ, of what both sides store."""
        if a is None or b is None:
            return []
        if not a.prompt_sha256 or not b.prompt_sha256:
            texts = [request.text or self._part(side, request)[2] for side, request in enumerate((a, b))]
            return ["prompts"] if all(texts) and texts[0] != texts[1] else []
        prompts = media = False
        if a.prompt_sha256 != b.prompt_sha256:
            first, second = self._part(0, a), self._part(1, b)
            prompts, media = first[0] != second[0], first[1] != second[1]
        frames = a.frames != b.frames and None not in (a.frames, b.frames)
        decoded = a.decoding != b.decoding and bool(a.decoding) and bool(b.decoding)
        limits_differ = self._model_differences["media"] and (a.has_media or b.has_media)
        is_other = (
            prompts or self._model_differences["prompts"],
            media or frames or limits_differ,
            a.generation != b.generation or decoded or self._model_differences["decoding"],
        )
        return list(compress(DIFFERENCES, is_other))

    def _part(self, side: int, request: StoredRequest) -> tuple[str, str, str]:
        """Return hashes of a prompt's text and of its media, and the words of its last step."""
        store = self._stores[side]
        if store is None or not request.prompt_sha256:
            return "", "", ""
        key = (side, request.prompt_sha256)
        if key not in self._parts:
            row = store.row(request)
            media = [[part.kind, part.source, part.frames] for part in iter_media(row.steps)]
            self._parts[key] = _hash(_texts(row.steps)), _hash(media), words(prompt_text(row))
        return self._parts[key]


def _texts(steps: Sequence[Step]) -> object:
    turns = [[(turn.role, [*map(_text, turn.parts)]) for turn in step.turns] for step in steps]
    return [turns, [step.scored for step in steps]]


def _text(part: Part) -> str:
    return part.text if isinstance(part, Text) else "" if isinstance(part, Media) else repr(part)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


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


OURS: Final = "ours"
READINGS: Final = (OURS, *HARNESS_READERS)
_NOTHING: Final = ""  # what our reader is given in place of a reply from which a harness takes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherReading:
    """A number by another reader."""

    reading: str
    value: float
    n_changed: int  # rows whose answer is another than ours
    n_guessed: int  # rows in which the reader guesses


def other_readings(
    side: Side, key: MetricKey, frame: pd.DataFrame, names: Sequence[str] = READINGS
) -> Iterator[OtherReading]:
    """Yield a metric of some rows by each reading that applies: all but ours need letters, or yes and no."""
    ours = side.read_again(frame)
    for name in names:
        guessed, read = (0, ours) if name == OURS else _read_by(name, side, frame)
        value = None if read is None else side.value(key, read)
        if read is not None and value is not None:
            changed = sum(first != second for first, second in zip(read["answer"], ours["answer"], strict=True))
            yield OtherReading(reading=name, value=value, n_changed=changed, n_guessed=guessed)


def _read_by(name: str, side: Side, frame: pd.DataFrame) -> tuple[int, pd.DataFrame | None]:
    """Return rows as a harness reads them, and how many it guesses; None where no row has options."""
    rows = [side.rows.get(key) for key in keys_of(frame)]
    readings = [_harness_reading(name, side, row) for row in rows]
    if not any(readings):
        return 0, None
    read = [
        replace(row, output=reading.answer or _NOTHING, dropped=()) if row and reading else row
        for row, reading in zip(rows, readings, strict=True)
    ]
    return sum(reading.is_guess for reading in readings if reading), read_rows(frame, read, side.definition)


def _harness_reading(name: str, side: Side, row: Row | None) -> HarnessReading | None:
    if row is None or row.status != "ok" or side.definition.options is None:
        return None
    options: Mapping[str, str] = side.definition.options(row)
    return HARNESS_READERS[name](row.output or "", options) if options else None

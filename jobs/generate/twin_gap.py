"""The gap between a run on published MATE and a run on its fresh twin: measured, recorded and shown in the report."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Final

import numpy as np
import pandas as pd

from jobs.generate.twin import shared_parameters
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.mate.rows import is_generated_sample
from pipelines.benchmarks.metrics_kernel.repeats import first_repeats, right_answers
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.tables import TableRow, TableValue
from pipelines.decisions.evidence import ScoredEntry
from pipelines.errors import StoreError, UsageError
from pipelines.json_records import MalformedError, dump_checked, load_checked, read_record
from pipelines.metrics.intervals import DIFFERENCE, Term, interval
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.report.model import Section
from pipelines.report.sections import ReportInputs
from pipelines.report.worded import worded, words_of
from pipelines.storage.store import Store

_BENCHMARK: Final = "mate"
PATH: Final = "twin.json"
MEANING: Final[tuple[str, ...]] = words_of("jobs.generate:twin")["notes"][1:]  # what a gap may mean, and what it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One number of a model on the published scenes and on their twin."""

    model: str
    task: str
    setting: str
    n: int  # rows of both where they are paired, else of the twin
    published: float
    twin: float
    gap: float  # twin minus published
    ci_low: float
    ci_high: float
    is_paired: bool

    @property
    def reading(self) -> str:
        """What the interval says."""
        if self.ci_high < 0:
            return "lower on fresh scenes"
        return "higher on fresh scenes" if self.ci_low > 0 else "no gap shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRecord:
    """What `twin` measured."""

    fingerprint: str  # of the published data: another one makes the record obsolete
    gaps: tuple[Gap, ...]
    shared: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Parameter -> scenes or questions in which it is equal, and of how many."""


def measure_gap(out: Store, other: Store) -> GapRecord:
    """Return the gap in exact match of each model that both outputs have, in each task and setting.

    Raises UsageError where an output has no MATE, the second the same or no generated scenes, or they share no answers.
    """
    published, fresh = (_entries(store) for store in (out, other))
    fingerprint, fresh_fingerprint = (
        next(iter(side.values())).prompts.dataset_fingerprint for side in (published, fresh)
    )
    if fingerprint == fresh_fingerprint:
        raise UsageError(f"{other.uri} asks about the scenes of {out.uri}; name a run on their twin second")
    gaps: list[Gap] = []
    shared: Mapping[str, tuple[int, int]] = {}
    for model in (model for model in published if model in fresh and not is_person(model)):
        old, new = ScoredEntry.read(out, published[model]), ScoredEntry.read(other, fresh[model])
        if not all(map(is_generated_sample, new.samples.values())):
            raise UsageError(
                f"{other.uri}: its scenes are not generated; make a twin with `vlmsweep generate mate --like DATA "
                "--out DIR`, ingest and run it, and name that output second"
            )
        shared = shared or shared_parameters(old.samples, new.samples)
        gaps += _gaps(model, _answers(old.frame), _answers(new.frame))
    if not gaps:
        raise UsageError(
            f"{out.uri} and {other.uri} share no model with answers in one task and setting; run both with the same "
            "models and settings, then `vlmsweep twin` again"
        )
    return GapRecord(fingerprint=fingerprint, gaps=tuple(gaps), shared=shared)


def _entries(out: Store) -> dict[str, ManifestEntry]:
    entries = {entry.model: entry for entry in load_existing_run(out).entries if entry.benchmark == _BENCHMARK}
    if not entries:
        raise UsageError(f"{out.uri} holds no {_BENCHMARK}; a twin is of that benchmark")
    return entries


def _answers(frame: pd.DataFrame) -> pd.DataFrame:
    rows = first_repeats(frame)
    return rows.assign(right=right_answers(rows)).dropna(subset="right")


def _gaps(model: str, published: pd.DataFrame, counterpart: pd.DataFrame) -> Iterator[Gap]:
    """Yield the gap of each task, and of the means over two, in each setting that both have."""
    definition = benchmark(_BENCHMARK)
    tasks = {**{task: (task,) for task in definition.tasks}, **definition.derived_tasks}
    settings = dict.fromkeys(setting for task_settings in definition.tasks.values() for setting in task_settings)
    is_paired = bool({*published["sample_id"]} & {*counterpart["sample_id"]})
    sides = [
        {(str(task), str(setting)): rows for (task, setting), rows in frame.groupby(["task", "setting"])}
        for frame in (published, counterpart)
    ]
    for (task, parts), setting in product(tasks.items(), settings):
        groups = [(part, setting) for part in parts]
        if not all(group in side for side in sides for group in groups):
            continue
        frames = [[side[group] for side in sides] for group in groups]
        if is_paired:
            frames = [
                [a[a["sample_id"].isin(b["sample_id"])], b[b["sample_id"].isin(a["sample_id"])]] for a, b in frames
            ]
        if all(len(frame) for pair in frames for frame in pair):
            yield from _gap(model, (task, setting), frames, is_paired=is_paired)


def _gap(model: str, group: tuple[str, str], frames: list[list[pd.DataFrame]], *, is_paired: bool) -> Iterator[Gap]:
    """Yield the gap of the mean over the parts of a task; scenes, of both sides where paired, are the clusters."""
    terms = [
        _term(frame, weight / len(frames), "" if is_paired else f"{weight:g}/")
        for pair in frames
        for frame, weight in zip(pair, (-1, 1), strict=True)
    ]
    published, counterpart = (
        float(np.mean([frame["right"].mean() for frame in side])) for side in zip(*frames, strict=True)
    )
    if (ends := interval(terms, DIFFERENCE)) is not None:
        yield Gap(
            model=model,
            task=group[0],
            setting=group[1],
            n=sum(len(frame) for _, frame in frames),
            published=published,
            twin=counterpart,
            gap=counterpart - published,
            ci_low=ends.low,
            ci_high=ends.high,
            is_paired=is_paired,
        )


def _term(frame: pd.DataFrame, weight: float, prefix: str) -> Term:
    right = frame["right"].to_numpy(np.float64)
    clusters = np.array([f"{prefix}{name}" for name in frame["sample_id"]])
    return Term(np.stack([right, np.ones(len(right))], axis=1), clusters, weight=weight)


def save_gap(out: Store, record: GapRecord) -> None:
    """Write the record of an output, which its reports show from then on."""
    out.put(PATH, dump_checked(asdict(record)))


def twin_section(inputs: ReportInputs) -> tuple[Section, ...]:
    """Return the page of an output's record; none without one, or with one of other data. StoreError if damaged."""
    out = inputs.out
    if _BENCHMARK not in inputs.benchmarks:
        return ()
    try:
        record = read_record(GapRecord, load_checked(out.get(PATH)))
    except FileNotFoundError:
        return ()
    except MalformedError as error:
        raise StoreError(
            f"{out.uri}/{PATH}: damaged ({error}); move it away, `vlmsweep twin` writes it again"
        ) from error
    if record.fingerprint != inputs.run.datasets[_BENCHMARK].fingerprint:
        return ()
    shares = [
        TableRow(label=name, cells=(equal, total, equal / total if total else None))
        for name, (equal, total) in record.shared.items()
    ]
    tables = (worded("jobs.generate:twin_parameters", shares),) if shares else ()
    gaps = worded("jobs.generate:twin", map(_row, record.gaps))
    return (Section(name="twin", title="Fresh twin of MATE", summary=(gaps,), tables=tables),)


def _row(row: Gap) -> TableRow:
    gap = TableValue(value=row.gap, low=row.ci_low, high=row.ci_high)
    values = (row.task, row.setting, gap, row.reading, row.published, row.twin, row.n, row.is_paired)
    return TableRow(label=row.model, cells=values)

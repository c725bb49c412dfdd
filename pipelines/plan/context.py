"""The stores, data sets and plans that a sweep opens once and passes down."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark_names
from pipelines.ingest.dataset import Dataset, Datasets
from pipelines.plan.plan_store import IdSet, PlanStore, plan_key, plan_parts
from pipelines.plan.prompt_plan import PromptPlan, load_captions
from pipelines.plan.requests import ModelTarget, caption_targets, model_targets
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.stored_plan import StoredPlan
from pipelines.progress import NullProgress, ProgressListener
from pipelines.storage.local_store import is_owned
from pipelines.storage.lock import check_lock
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The locations of data and output, which a worker process opens once."""

    data_uri: str
    out_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepContext:
    """One sweep with all that it has opened."""

    spec: RunSpec
    out: Store
    plans: PlanStore
    datasets: Datasets = field(default_factory=Datasets)
    lock_token: str = ""  # names the run that holds the output's lock; '' for a reader
    progress: ProgressListener = field(default_factory=NullProgress)

    @classmethod
    def open(
        cls,
        spec: RunSpec,
        *,
        datasets: Datasets | None = None,
        lock_token: str = "",
        progress: ProgressListener | None = None,
    ) -> SweepContext:
        """Open a sweep that writes its output."""
        out = Store(spec.out)
        return cls(
            spec=spec,
            out=out,
            plans=PlanStore(out),
            datasets=datasets or Datasets(),
            lock_token=lock_token,
            progress=progress or NullProgress(),
        )

    def worker(self) -> WorkerContext:
        """Return what worker processes need."""
        return WorkerContext(self.spec.data, self.out.uri)

    def model_targets(self, model: str) -> list[tuple[ModelTarget, Dataset]]:
        """Return what a model is to answer, benchmark by benchmark."""
        return model_targets(self.spec, model, self.datasets)

    def caption_targets(self, captioner: str) -> list[tuple[ModelTarget, Dataset]]:
        """Return what a captioner is to describe, benchmark by benchmark."""
        return caption_targets(self.spec, captioner, self.datasets)

    def captions(self, prompts: PromptPlan) -> Mapping[str, str]:
        """Return the captions of this output that prompts may hold, by picture hash."""
        return load_captions(self.out, prompts.benchmark_name, prompts.captioner)

    def entry_plans(self, entry: ManifestEntry) -> list[EntryPlan]:
        """Open the plans of an entry of this output, one per sample selection."""
        return entry_plans(entry, self.out, self.plans, self.datasets)

    def planned_ids(self, entry: ManifestEntry) -> IdSet:
        """Return the requests of an entry in all sets of prompts: an output may hold answers to older prompts too."""
        plans = plans_of_all_sets(entry, self.out, self.plans, self.datasets)
        return IdSet(request_id for plan in plans for request_id in plan.iter_ids())


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """One sample selection of an entry with its plan."""

    entry: ManifestEntry
    plan: StoredPlan
    dataset: Dataset

    def iter_ids(self) -> Iterator[str]:
        """Yield the entry's request ids."""
        request_id = self.entry.target.request_id
        return (request_id(key) for part in self.plan.parts for key in self.plan.read_columns(part).request_keys())


def entry_plans(entry: ManifestEntry, out: Store, plans: PlanStore, datasets: Datasets) -> list[EntryPlan]:
    """Open an entry's plans in its first set of prompts, one per sample selection; DatasetError for other data."""
    dataset = datasets.open(entry.data, entry.benchmark)
    dataset.check_fingerprint(entry.prompts.dataset_fingerprint)
    captions = load_captions(out, entry.benchmark, entry.prompts.captioner)
    return [
        EntryPlan(
            selected_entry, plans.open(dataset, selected_entry.prompts, selected_entry.selection, captions), dataset
        )
        for selected_entry in entry.by_selection()
    ]


def plans_of_all_sets(entry: ManifestEntry, out: Store, plans: PlanStore, datasets: Datasets) -> list[EntryPlan]:
    """Open the plans of an entry in all its sets of prompts."""
    return [plan for in_set in entry.by_prompt_set() for plan in entry_plans(in_set, out, plans, datasets)]


def helper_models(spec: RunSpec) -> dict[str, ModelSpec]:
    """Return the judges and the captioners by name."""
    return dict((*spec.judges, *spec.captioners))


GRACE = timedelta(hours=1)
"""How long a file stays after it was first seen to be obsolete: a reader may have opened its plan before that."""
OBSOLETE = "plan/obsolete.json"  # path -> when a run first saw that nothing needs the file


def prune_plans(context: SweepContext, entries: Iterable[ManifestEntry]) -> None:
    """Delete plan files that have been obsolete for longer than `GRACE`; mark those that are obsolete since now.

    Call it under the output's lock, when `run.json` holds the `entries`. Needed are their plans with the present
    captions, even if their data is gone, and all that this run has opened. Any other plan can be built again.
    FencedError if the run has lost its lock.
    """
    out = context.out
    installed = {*benchmark_names()}
    plans, stored = context.plans.opened, context.plans.files
    paths = [
        path for path in stored.by_path if is_owned(path) and posixpath.basename(path).startswith(("plan-", "part-"))
    ]
    files = {path for path in paths if posixpath.dirname(path).partition("=")[2] in installed}
    keys = {*plans} | {
        plan_key(
            selected_entry.prompts,
            selected_entry.selection,
            load_captions(out, selected_entry.benchmark, selected_entry.prompts.captioner),
        )
        for entry in entries
        if entry.benchmark in installed
        for in_set in entry.by_prompt_set()
        for selected_entry in in_set.by_selection()
    }
    indices = {path: key for path in files if (key := path.rpartition("/plan-")[2].removesuffix(".json")) in keys}
    needed = {*indices}
    for path, key in indices.items():
        needed |= {part.path for part in (plans[key].parts if key in plans else plan_parts(out, path)) or ()}
    now, marks = datetime.now(UTC), _load_marks(out) if OBSOLETE in stored.by_path else {}
    since = {path: marks.get(path, now) for path in files - needed}
    expired = {path for path, start in since.items() if now - start > GRACE}
    remaining = {path: start for path, start in since.items() if path not in expired}
    if not expired and remaining == marks:
        return
    check_lock(out, context.lock_token)
    for path in sorted(expired, reverse=True):  # indices before their parts, so that no index names a missing part
        stored.delete(path)
    if remaining != marks:
        lines = {path: start.isoformat() for path, start in sorted(remaining.items())}
        stored.replace(OBSOLETE, json.dumps(lines, indent=1).encode())


def _load_marks(out: Store) -> dict[str, datetime]:
    """Load the marks of earlier runs; none if the file is absent or unreadable, so that the waiting starts again."""
    try:
        return {path: datetime.fromisoformat(start) for path, start in json.loads(out.get(OBSOLETE)).items()}
    except (FileNotFoundError, ValueError, AttributeError, TypeError):
        return {}

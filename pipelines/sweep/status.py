"""Counts of an output's requests, for `vlmsweep status` and dry runs."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.errors import DatasetError, StoreError
from pipelines.ingest.dataset import Datasets
from pipelines.plan.completed import load_completed
from pipelines.plan.context import EntryPlan, plans_of_all_sets
from pipelines.plan.id_set import IdSet
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.predict.status import read_status
from pipelines.storage.store import Store

FRESH_S = 30  # a run writes its status every few seconds; an older status is replaced by counts from the parts


def status_rows(uri: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the time of an output's counts, and the counts by model and task setting; UsageError if none."""
    out = Store(uri)
    status, run = read_status(out), load_existing_run(out)
    age = datetime.now(UTC) - datetime.fromisoformat(status["updated"]) if status else None
    datasets = Datasets()
    if (age and age < timedelta(seconds=FRESH_S)) or not all(has_same_data(e, datasets) for e in run.entries):
        return status.get("updated", run.updated), status.get("cells", [])
    with PlanStore.reading(out) as plans:
        groups = [
            group
            for entry in run.entries
            for group in count_entry(out, entry, plans_of_all_sets(entry, out, plans, datasets))
        ]
    return datetime.now(UTC).isoformat(timespec="seconds"), groups


def has_same_data(entry: ManifestEntry, datasets: Datasets) -> bool:
    """Return whether an entry's data is unchanged since its predictions were made."""
    try:
        manifest = datasets.open(entry.data, entry.benchmark).manifest
    except (DatasetError, StoreError):
        return False
    return manifest.dataset_fingerprint == entry.prompts.dataset_fingerprint


def count_entry(out: Store, entry: ManifestEntry, plans: Iterable[EntryPlan]) -> list[dict[str, Any]]:
    """Count the requests of an entry from its parts, as a killed run leaves an old `status.json`.

    `plans` are those of all its sets of prompts. Imported answers have no pending requests.
    """
    completed, planned = load_completed(out, entry.benchmark, entry.model), IdSet()
    requests, pending, failed = (Counter[tuple[str, str]]() for _ in range(3))
    for entry_plan in plans:
        plan = plan_model(entry_plan.plan, entry_plan.entry.target, completed, planned=planned)
        requests.update(plan.requests)
        pending.update(plan.pending)
        failed.update(plan.failed)
    return [
        {
            "model": entry.model,
            "benchmark": entry.benchmark,
            "task": group[0],
            "setting": group[1],
            "requests": total - (waiting if entry.external else 0),
            "pending": 0 if entry.external else waiting,
            "running": 0,
            "done": total - waiting - failed[group],
            "failed": failed[group],
        }
        for group, total in requests.items()
        for waiting in [pending[group] - failed[group]]
    ]

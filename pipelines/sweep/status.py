"""Counts of an output's requests, for `vlmsweep status` and dry runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.plan.completed import load_completed
from pipelines.plan.context import EntryPlan, entry_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.predict.status import read_status
from pipelines.storage.store import Store

FRESH_S = 30
"""A run writes its status every few seconds; an older status is replaced by counts from the parts."""


def status_rows(uri: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the time of an output's counts, and the counts by model and task setting; UsageError if none."""
    out = Store(uri)
    status, run = read_status(out), load_run(out)
    if not run:
        raise UsageError(f"{uri}: no run.json; is this the --out of a run?")
    age = datetime.now(UTC) - datetime.fromisoformat(status["updated"]) if status else None
    datasets = Datasets()
    if (age and age < timedelta(seconds=FRESH_S)) or not all(has_same_data(e, datasets) for e in run["entries"]):
        return status.get("updated", run["updated"]), status.get("cells", [])
    with PlanStore.reading(out) as plans:
        cells = [
            cell
            for entry in run["entries"]
            for plan in entry_plans(entry, out, plans, datasets)
            for cell in count_entry(out, plan)
        ]
    return datetime.now(UTC).isoformat(timespec="seconds"), cells


def has_same_data(entry: ManifestEntry, datasets: Datasets) -> bool:
    """Return whether an entry's data is unchanged since its predictions were made."""
    try:
        manifest = datasets.open(entry.data, entry.benchmark).manifest
    except (DatasetError, StoreError):
        return False
    return manifest.dataset_fingerprint == entry.builder.dataset_fingerprint


def count_entry(out: Store, entry_plan: EntryPlan) -> list[dict[str, Any]]:
    """Count the requests of an entry from its parts, as a killed run leaves an old `status.json`.

    Answers made elsewhere have no pending requests.
    """
    entry = entry_plan.entry
    completed = load_completed(out, entry.benchmark, entry.model)
    plan = plan_model(entry_plan.plan, entry.builder, completed)
    return [
        {
            "model": entry.model,
            "benchmark": entry.benchmark,
            "task": task,
            "setting": setting,
            "requests": total - (pending if entry.external else 0),
            "pending": 0 if entry.external else pending,
            "running": 0,
            "done": total - pending - plan.failed[task, setting],
            "failed": plan.failed[task, setting],
        }
        for (task, setting), total in plan.requests.items()
        for pending in [plan.pending[task, setting] - plan.failed[task, setting]]
    ]

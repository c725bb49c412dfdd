"""TODO doc."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.captions import load_captions
from pipelines.plan.planner import load_completed, plan_requests
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.predict.status import read_status
from pipelines.storage.store import Store

FRESH_S = 30
"""A run writes its status every few seconds; an older one is counted again from the parts."""


def status_rows(uri: str) -> tuple[str, list[dict[str, Any]]]:
    """When `status.json` was written, and its cells.

    Raises:
        UsageError: there is no run at this place.
    """
    out = Store(uri)
    told = read_status(out)
    run = load_run(out)
    if not run:
        raise UsageError(f"{uri}: no run.json; is this the --out of a run?")
    fresh = bool(told) and datetime.now(UTC) - datetime.fromisoformat(told["updated"]) < timedelta(seconds=FRESH_S)
    if fresh or any(not same_data(entry) for entry in run["entries"]):
        return told.get("updated", run["updated"]), told.get("cells", [])
    return datetime.now(UTC).isoformat(timespec="seconds"), [
        cell for entry in run["entries"] for one in entry.by_cut() for cell in counted(out, one)
    ]


def same_data(entry: ManifestEntry) -> bool:
    """Whether an entry's data is still what it was asked about."""
    try:
        manifest = Dataset.open(Store(entry.data), entry.benchmark).manifest
    except (DatasetError, StoreError):
        return False
    return manifest.dataset_fingerprint == entry.parsed_asker().dataset_fingerprint


def counted(out: Store, entry: ManifestEntry) -> list[dict[str, Any]]:
    """Counts from the parts themselves: a run that was killed could not write its last word.

    Of answers made elsewhere nothing is pending: what their file has no row for was not asked of it.
    """
    asker = entry.parsed_asker()
    plan = plan_requests(
        Dataset.open(Store(entry.data), entry.benchmark),
        asker,
        load_completed(out, entry.benchmark, entry.model),
        limit=entry.parsed_limit(),
        sample_ids=entry.sample_ids,
        captions=load_captions(out, entry.benchmark, asker.captioner),
    )
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

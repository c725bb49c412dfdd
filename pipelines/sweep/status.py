"""Counts of an output's requests and reasons of failed ones, for `vlmsweep status` and dry runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.compute as pc

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.clean_text import cut, one_line
from pipelines.errors import DatasetError, StoreError
from pipelines.ingest.dataset import Datasets
from pipelines.plan.context import EntryPlan, plans_of_all_sets
from pipelines.plan.plan_store import IdSet, PlanStore
from pipelines.plan.planner import load_completed, plan_model
from pipelines.plan.run_manifest import ManifestEntry, load_existing_run
from pipelines.predict.records import TaskCount
from pipelines.predict.status import read_status
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS: Final = ["request_id", "sample_id", "task", "setting", "status", "error_type", "error"]
_EXAMPLE: Final = ("benchmark", "task", "setting", "sample_id")
_MESSAGE_LENGTH: Final = 200
_AGAIN: Final = "run the same command again: failed rows alone are sent again"
_REMEDIES: Final[Mapping[str, str]] = load_yaml("pipelines.sweep", "words.yaml")["remedies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReason:
    """Failed rows of a model for one reason."""

    model: str
    error_type: str
    rows: int
    example: str  # benchmark, task, setting and sample of the first
    message: str  # of the first
    remedy: str

    @property
    def cause(self) -> str:
        """Which model failed on how many rows, and the first of them, in one line."""
        message = cut(one_line(self.message), _MESSAGE_LENGTH) or "no message"
        return f"{self.model}: {self.rows:,} {self.error_type}, first {self.example}: {message}"


def failure_reasons(out: Store, counts: Sequence[TaskCount], judges: Sequence[str] = ()) -> list[FailureReason]:
    """Return why rows and questions to `judges` failed, the most frequent reason of each model first."""
    parts = [("predictions", count.model, count.benchmark) for count in counts if count.error]
    parts += [("judgements", judge, count.benchmark) for judge in judges for count in counts]
    reasons = []
    for model in dict.fromkeys(model for _, model, _ in parts):
        by_type: dict[str, list[dict[str, Any]]] = {}
        for stage, name in dict.fromkeys((stage, name) for stage, of, name in parts if of == model):
            for row in _failed_rows(out, part_folder(stage, name, model)):
                by_type.setdefault(row["error_type"] or "unknown", []).append({**row, "benchmark": name})
        reasons += [
            FailureReason(
                model=model,
                error_type=kind,
                rows=len(rows),
                example=" ".join(filter(None, (rows[0][name] for name in _EXAMPLE))),
                message=str(rows[0]["error"] or ""),
                remedy=_REMEDIES.get(kind, _AGAIN),
            )
            for kind, rows in sorted(by_type.items(), key=lambda item: -len(item[1]))
        ]
    return reasons


def _failed_rows(out: Store, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a folder's parts that failed, each once, and are answered in no other part."""
    failed: dict[str, dict[str, Any]] = {}
    for _, table in iter_parts(out, folder, _COLUMNS):
        failed |= {row["request_id"]: row for row in table.filter(pc.equal(table["status"], "error")).to_pylist()}
    for _, table in iter_parts(out, folder, ["request_id", "status"]) if failed else ():
        for request_id in table.filter(pc.not_equal(table["status"], "error"))["request_id"].to_pylist():
            failed.pop(request_id, None)
    yield from failed.values()


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

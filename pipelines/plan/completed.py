"""Find the requests that earlier runs committed, and repair what killed ones left behind."""

import logging
from collections.abc import Container, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DamagedPartError
from pipelines.plan.id_set import IdSet
from pipelines.plan.records import CompletedRequests, ModelPlan, Repair
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.storage.parts import iter_parts, move_aside, part_folder, read_part, read_parts, to_parquet
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

_COLUMNS = ["request_id", "status"]


def load_completed(out: Store, benchmark: str, model: str, kind: str = "predictions") -> CompletedRequests:
    """Load which requests of a `kind`, `predictions` or `captions`, earlier runs committed, and what to repair."""
    completed = CompletedRequests(repair=Repair(part_folder(kind, benchmark, model)))
    failed, repair = completed.failed, completed.repair

    def iter_finished() -> Iterator[str]:
        for path, table in read_parts(out, repair.folder, _COLUMNS):
            if isinstance(table, DamagedPartError):
                log.warning("%s; its rows count as pending", table)
                repair.damaged[path] = table
                continue
            # A pattern, because `pc.equal` makes a scalar of a text, for which pyarrow imports pandas.
            has_failed = pc.match_substring_regex(table["status"], "^error$")
            for request_id in table["request_id"].filter(has_failed).to_pylist():
                if failed.setdefault(request_id, path) != path:
                    repair.repeated.add(request_id)
            yield from table["request_id"].filter(pc.invert(has_failed)).to_pylist()

    completed.finished = IdSet(iter_finished())
    answered = {request_id for request_id in failed if request_id in completed.finished}
    repair.repeated |= answered | completed.finished.repeated
    completed.failed = {request_id: path for request_id, path in failed.items() if request_id not in answered}
    return completed


def ids_of_other_prompt_sets(out: Store, entry: ManifestEntry, path: str) -> set[str]:
    """Return the requests of a prediction part that are in another set of prompts than the entry's first."""
    if not (entry.other_prompt_sets or entry.has_stress or entry.prompts.has_captions):
        return set()
    rows = read_part(out, path, ["request_id", "prompt_version", "captioner"]).to_pylist()
    return {
        row["request_id"]
        for row in rows
        if entry.uses_other_prompt_set(row["prompt_version"] or "", row.get("captioner") or "")
    }


def repair_output(out: Store, plans: Iterable[ModelPlan]) -> None:
    """Repair the parts of models before their plans are carried out; only for the owner of the output's lock."""
    for plan in plans:
        repair_parts(out, plan.repair)


def repair_parts(out: Store, repair: Repair) -> None:
    """Move damaged parts aside, and delete rows that are in another part too or go to a new one."""
    for path, error in repair.damaged.items():
        move_aside(out, path, error)
    if repair.repeated:
        _delete_repeated(out, repair.folder, repair.repeated)
    moved: dict[str, set[str]] = {}
    for request_id, path in repair.moved.items():
        moved.setdefault(path, set()).add(request_id)
    for path, ids in moved.items():
        _delete_rows(out, path, ids)


def _delete_repeated(out: Store, folder: str, repeated: Container[str]) -> None:
    """Delete all rows but one of requests that are in several parts: the first that did not fail, or the first."""
    finished: set[str] = set()
    failed: dict[str, str] = {}
    surplus: dict[str, set[str]] = {}
    for path, table in iter_parts(out, folder, _COLUMNS):
        for request_id, status in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
            if request_id not in repeated:
                continue
            if request_id in finished or (request_id in failed and status == "error"):
                surplus.setdefault(path, set()).add(request_id)
            elif status == "error":
                failed[request_id] = path
            else:
                if request_id in failed:
                    surplus.setdefault(failed.pop(request_id), set()).add(request_id)
                finished.add(request_id)
    for path, ids in surplus.items():  # a worker of a dead run committed them late
        log.warning("%s/%s: %d rows are in another part too; deleting them from this one", out.uri, path, len(ids))
        _delete_rows(out, path, ids)


def _delete_rows(out: Store, path: str, ids: set[str]) -> None:
    """Delete rows from a part."""
    rows = read_part(out, path)
    remaining = rows.filter(pa.array([request_id not in ids for request_id in rows["request_id"].to_pylist()]))
    if remaining.num_rows:
        out.put(path, to_parquet(remaining, rows.schema))
    else:
        out.delete(path)

"""Find the requests that earlier runs committed, and repair what a killed run left behind."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.plan.id_set import IdSet
from pipelines.plan.records import CompletedRequests
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.storage.parts import iter_parts, part_folder, read_part, to_parquet
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

_COLUMNS = ["request_id", "status"]


def load_completed(
    out: Store, benchmark: str, model: str, kind: str = "predictions", *, repair: bool = False
) -> CompletedRequests:
    """Load which requests of a `kind`, `predictions` or `captions`, earlier runs committed.

    `repair` moves damaged parts aside and deletes duplicate rows; only for the owner of the output's lock.
    """
    folder = part_folder(kind, benchmark, model)
    failed: dict[str, str] = {}
    repeated: set[str] = set()

    def iter_finished() -> Iterator[str]:
        for path, table in iter_parts(out, folder, _COLUMNS, repair=repair):
            has_failed = pc.equal(table["status"], "error")
            for request_id in table["request_id"].filter(has_failed).to_pylist():
                if failed.setdefault(request_id, path) != path:
                    repeated.add(request_id)
            yield from table["request_id"].filter(pc.invert(has_failed)).to_pylist()

    finished = IdSet(iter_finished())
    repeated |= {request_id for request_id in failed if request_id in finished} | finished.repeated
    if repeated and repair:
        _delete_repeated(out, folder, repeated)
    still_failed = {request_id: path for request_id, path in failed.items() if request_id not in finished}
    return CompletedRequests(finished, still_failed)


def ids_of_other_prompt_sets(out: Store, entry: ManifestEntry, path: str) -> set[str]:
    """Return the requests of a prediction part that are in another set of prompts than the entry's first."""
    if not entry.other_prompt_sets and not entry.prompts.has_captions:
        return set()
    rows = read_part(out, path, ["request_id", "prompt_version", "captioner"]).to_pylist()
    return {
        row["request_id"]
        for row in rows
        if entry.is_of_other_prompt_set(row["prompt_version"] or "", row.get("captioner") or "")
    }


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


def delete_requests(out: Store, paths: Mapping[str, str]) -> None:
    """Delete requests, by id, from the parts that hold them."""
    ids: dict[str, set[str]] = {}
    for request_id, path in paths.items():
        ids.setdefault(path, set()).add(request_id)
    for path, of_part in ids.items():
        _delete_rows(out, path, of_part)


def _delete_rows(out: Store, path: str, ids: set[str]) -> None:
    """Delete rows from a part."""
    rows = read_part(out, path)
    remaining = rows.filter(pa.array([request_id not in ids for request_id in rows["request_id"].to_pylist()]))
    if remaining.num_rows:
        out.put(path, to_parquet(remaining, rows.schema))
    else:
        out.delete(path)

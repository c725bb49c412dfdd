"""Plan a model's work: the rows of a stored plan become media groups and units of work, completed requests skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pyarrow as pa

from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.records import CompletedRequests, ModelPlan
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.stored_plan import PlanRow, StoredPlan
from pipelines.plan.units import Place, Pool, RetryPool, SampleRequests, UnitMaker, retry_units
from pipelines.storage.parts import iter_parts, part_folder, read_part, to_parquet
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

_MAX_NEW_TOKENS = 0
"""Place of this setting in `RequestBuilder.generation_settings`."""


def load_completed(
    out: Store, benchmark: str, model: str, kind: str = "predictions", *, repair: bool = False
) -> CompletedRequests:
    """Load which requests of a `kind`, `predictions` or `captions`, earlier runs committed.

    `repair` moves damaged parts aside and deletes duplicate rows; only for the owner of the output's lock.
    """
    completed = CompletedRequests()
    duplicates: dict[str, set[bytes]] = {}
    for path, table in iter_parts(out, part_folder(kind, benchmark, model), ["request_id", "status"], repair=repair):
        for request_id, status in zip(*(table[name].to_pylist() for name in ("request_id", "status")), strict=True):
            key = bytes.fromhex(request_id)
            if key in completed.finished or (key in completed.failed and status == "error"):
                duplicates.setdefault(path, set()).add(key)
            elif status == "error":
                completed.failed[key] = path
            else:
                if key in completed.failed:
                    duplicates.setdefault(completed.failed.pop(key), set()).add(key)
                completed.finished.add(key)
    if repair:
        for path, keys in duplicates.items():
            _delete_rows(out, path, keys)
    return completed


def _delete_rows(out: Store, path: str, keys: set[bytes]) -> None:
    """Delete from a part the rows that another part has: a worker of a dead run committed them late."""
    log.warning("%s/%s: %d rows are in another part too; deleting them from this one", out.uri, path, len(keys))
    rows = read_part(out, path)
    remaining = rows.filter(pa.array([bytes.fromhex(name) not in keys for name in rows["request_id"].to_pylist()]))
    if remaining.num_rows:
        out.put(path, to_parquet(remaining, rows.schema))
    else:
        out.delete(path)


def plan_model(
    plan: StoredPlan, builder: RequestBuilder, completed: CompletedRequests, *, replicas: int = 1
) -> ModelPlan:
    """Plan one model on one benchmark; the size of units depends on `replicas`, ids and answers do not."""
    work = ModelPlan(builder)
    maker = UnitMaker(builder, replicas, plan.samples)
    retries: RetryPool = {}
    seen: set[str] = set()
    for part in plan.parts:  # no group reaches beyond its part: ids need not be held for longer
        maker.samples += part.samples
        pool: Pool = {}
        for index, row in plan.iter_part(part, payload=False):
            request_id = builder.request_id(row)
            if builder.kind == "caption":
                if request_id in seen:
                    continue
                seen.add(request_id)
            place = (part.path, row.media_group)
            maker.sizes.setdefault(place, row.decoded_bytes)
            cell = (row.task, row.setting)
            work.requests[cell] += 1
            key = bytes.fromhex(request_id)
            if key in completed.finished:
                continue
            work.pending[cell] += 1
            _add_estimate(work, row)
            if key in completed.failed:
                work.failed[cell] += 1
                _add(retries.setdefault(completed.failed[key], {}), place, row.sample_id, index, request_id)
            else:
                _add(pool, place, row.sample_id, index, request_id)
        work.units += maker.units(pool)
    work.units += retry_units(retries, builder.benchmark_name, maker.sizes)
    return work


def _add(pool: Pool, place: Place, sample_id: str, index: int, request_id: str) -> None:
    members = pool.setdefault(place, [])
    if not members or members[-1].sample_id != sample_id:
        members.append(SampleRequests(sample_id))
    members[-1].rows.append(index)
    members[-1].ids.append(request_id)


def _add_estimate(work: ModelPlan, row: PlanRow) -> None:
    if row.excluded:
        return
    generation = work.builder.generation_settings(row)
    work.calls += len(generation)
    work.output_tokens += sum(step[_MAX_NEW_TOKENS] for step in generation)
    work.prompt_tokens += row.prompt_tokens
    work.shared_tokens += row.media_tokens
    if row.media_group and row.media_group not in work.groups:
        work.groups.add(row.media_group)
        work.distinct_media_tokens += row.first_media_tokens


Captions = Callable[[SweepContext, RequestBuilder, Dataset], Mapping[str, str]]


def plan_sweep(context: SweepContext, captions: Captions | None = None) -> dict[str, list[ModelPlan]]:
    """Plan every model of a sweep, benchmark by benchmark; completed requests are skipped.

    Damaged or duplicate rows are repaired by the owner of the output's lock. Without `captions`, the output's are used.
    """
    spec = context.spec
    return {
        model: [
            plan_model(
                context.plans.write(
                    dataset,
                    builder,
                    spec.selection,
                    captions(context, builder, dataset) if captions else context.captions(builder),
                ),
                builder,
                load_completed(context.out, builder.benchmark_name, model, repair=context.can_repair),
                replicas=spec.models[model].replicas.max,
            )
            for builder, dataset in context.model_builders(model)
        ]
        for model in spec.models
    }

"""Plan: samples become media groups, groups become units of work, and what is already done is left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from models.messages import Media
from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.records import CompletedRequests, Plan
from pipelines.plan.requests import PlannedRequest, RequestBuilder
from pipelines.plan.selection import Limit
from pipelines.plan.token_estimate import count_words
from pipelines.plan.units import Place, Pool, UnitMaker, retry_units
from pipelines.storage.parts import iter_parts, part_folder, read_part, to_parquet
from pipelines.storage.store import Store

log = logging.getLogger(__name__)


def load_completed(
    out: Store, benchmark: str, model: str, kind: str = "predictions", *, mend: bool = False
) -> CompletedRequests:
    """What earlier runs committed.

    Args:
        out: the output.
        benchmark: whose.
        model: whose.
        kind: `predictions` or `captions`.
        mend: set damaged parts aside and take out rows that stand in two parts; only for who holds the output.
    """
    done = CompletedRequests()
    doubled: dict[str, set[bytes]] = {}
    for path, table in iter_parts(out, part_folder(kind, benchmark, model), ["request_id", "status"], repair=mend):
        for request_id, status in zip(*(table[name].to_pylist() for name in ("request_id", "status")), strict=True):
            key = bytes.fromhex(request_id)
            if key in done.finished or (key in done.failed and status == "error"):
                doubled.setdefault(path, set()).add(key)
            elif status == "error":
                done.failed[key] = path
            else:
                if key in done.failed:
                    doubled.setdefault(done.failed.pop(key), set()).add(key)
                done.finished.add(key)
    if mend:
        for path, keys in doubled.items():
            _take_out(out, path, keys)
    return done


def _take_out(out: Store, path: str, keys: set[bytes]) -> None:
    """Leave out of a part the rows that another part has: a worker of a dead run committed them late."""
    log.warning("%s/%s: %d rows stand in another part too and are taken out of this one", out.uri, path, len(keys))
    rows = read_part(out, path)
    kept = rows.filter(pa.array([bytes.fromhex(one) not in keys for one in rows["request_id"].to_pylist()]))
    if kept.num_rows:
        out.put(path, to_parquet(kept, rows.schema))
    else:
        out.delete(path)


def plan_requests(  # noqa: PLR0913  one keyword a choice
    dataset: Dataset,
    asker: RequestBuilder,
    done: CompletedRequests,
    *,
    limit: Limit | None = None,
    sample_ids: Sequence[str] = (),
    captions: Mapping[str, str] | None = None,
    replicas: int = 1,
) -> Plan:
    """Plan one model on one benchmark.

    Args:
        dataset: canonical data.
        asker: makes the requests.
        done: what needs not be asked again.
        limit: cut of the samples in canonical order.
        sample_ids: only these samples, when given.
        captions: what the captioner said, by picture hash.
        replicas: engines that the units will be spread over; which unit a request is in may hang on it, its id and its
            answer do not.

    Raises:
        UsageError: a sample id that the dataset does not have.
    """
    plan = Plan(asker)
    maker = UnitMaker(asker, replicas, _selected(dataset, limit, sample_ids))
    pool: Pool = {}
    partial: set[tuple[Place, str]] = set()
    retries: dict[str, dict[Place, dict[str, list[str]]]] = {}
    shown: set[str] = set()
    shard_now = ""
    for shard, sample in selected_samples(dataset, limit, sample_ids):
        if shard != shard_now:  # no group reaches beyond its shard: ids need not be held for longer
            plan.units += maker.units(pool, partial)
            pool, partial, shard_now = {}, set(), shard
        maker.samples += 1
        for asked in asker.ask(sample, captions):
            place = (shard, asked.group)
            if asker.kind == "caption":
                if asked.request_id in shown:
                    partial.add((place, sample.sample_id))
                    continue
                shown.add(asked.request_id)
            plan.requests[asked.columns["task"], asked.columns["setting"]] += 1
            if place not in maker.sizes:
                maker.sizes[place] = decoded_bytes(asked, sample)
            key = bytes.fromhex(asked.request_id)
            if key in done.finished:
                partial.add((place, sample.sample_id))
                continue
            plan.pending[asked.columns["task"], asked.columns["setting"]] += 1
            _count(plan, asked, sample)
            if key in done.failed:
                partial.add((place, sample.sample_id))
                plan.failed[asked.columns["task"], asked.columns["setting"]] += 1
                ids = retries.setdefault(done.failed[key], {}).setdefault(place, {})
                ids.setdefault(sample.sample_id, []).append(asked.request_id)
                continue
            members = pool.setdefault(place, [])
            if not members or members[-1][0] != sample.sample_id:
                members.append((sample.sample_id, []))
            members[-1][1].append(asked.request_id)
    plan.units += maker.units(pool, partial)
    plan.units += retry_units(retries, asker.benchmark_name, maker.sizes)
    return plan


def _selected(dataset: Dataset, limit: Limit | None, sample_ids: Sequence[str]) -> int:
    """How many samples a plan is about."""
    span = limit.span(dataset.manifest.samples) if limit else range(dataset.manifest.samples)
    return min(len(span), len(set(sample_ids))) if sample_ids else len(span)


def selected_samples(dataset: Dataset, limit: Limit | None, sample_ids: Sequence[str]) -> Iterator[tuple[str, Sample]]:
    """The samples that `--limit` and `--sample-id` leave, in canonical order, each with its shard's path."""
    wanted = set(sample_ids)
    span = limit.span(dataset.manifest.samples) if limit else range(dataset.manifest.samples)
    position = 0
    for shard in dataset.manifest.shards:
        if position >= span.stop or position + shard.rows <= span.start:
            position += shard.rows
            continue
        for sample in dataset.read_shard(shard.path):
            if position in span and (not sample_ids or sample.sample_id in wanted):
                wanted.discard(sample.sample_id)
                yield shard.path, sample
            position += 1
    if wanted:
        where = "among the samples that --limit leaves" if limit else f"in {dataset.manifest.benchmark}"
        raise UsageError(f"no sample {min(wanted)!r} {where}")
    if not len(span):
        raise UsageError(f"--limit leaves nothing of the {dataset.manifest.samples} samples")


def decoded_bytes(asked: PlannedRequest, sample: Sample) -> int:
    """Bytes of the pixels that a request's pictures and clips have when they are decoded; single colours have none."""
    sizes = {ref.sha256: ref for ref in sample.media}
    media = [part for step in asked.request.steps for turn in step.turns for part in turn.parts]
    shown = {part for part in media if isinstance(part, Media) and part.source in sizes}
    return sum(max(1, one.frames) * sizes[one.source].width * sizes[one.source].height * 3 for one in shown)


def _count(plan: Plan, asked: PlannedRequest, sample: Sample) -> None:
    """Add what a request that is to do costs; a done one costs nothing more."""
    if asked.excluded:
        return
    plan.calls += len(asked.request.steps)
    new_group = bool(asked.group) and asked.group not in plan.groups
    if asked.group:
        plan.groups.add(asked.group)
    count_words(plan, asked.request, sample, new_group=new_group)

"""Plan: samples become media groups, groups become units of work, and what is already done is left out.

A unit is what one worker loads, one replica answers and one commit writes: a large media group's piece, or several
small groups together. Its name is a hash of the ids in it, so the same work has the same name on every machine.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from models.messages import Media, Text
from pipelines.asking import Asked, Asker
from pipelines.benchmarks.base import Sample
from pipelines.dataset import Dataset
from pipelines.records import healthy_parts, part_folder, read_part, table_bytes
from pipelines.selection import Limit
from pipelines.store import Store

__all__ = ["Done", "Piece", "Plan", "Unit", "make_plan", "read_done", "selected_samples"]

log = logging.getLogger(__name__)

MAX_UNIT_REQUESTS = 256
"""A MAIA clip's 216 questions are one unit; a larger group is cut, so that no commit is worth many minutes."""
PACK_REQUESTS = 64
"""Small groups are put together up to this, so that a store is not filled with tiny files."""
KINDS = {"answer": "predictions", "caption": "captions"}
"""Where parts of each kind go."""
CHARS_PER_TOKEN = 3.5
PIXELS_PER_TOKEN = 28 * 28

_Place: TypeAlias = tuple[str, str]
"""A shard and a media group."""
_Pool: TypeAlias = dict[_Place, list[tuple[str, list[str]]]]
"""What is to be asked: by place, the samples in order with their request ids."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of one shard whose requests share a media group."""

    shard: str
    group: str
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One unit of work, small enough for the driver to hold by the ten thousand."""

    benchmark: str
    part: str
    """Path of the Parquet part that it commits, relative to the output."""
    pieces: tuple[Piece, ...]
    requests: int
    only: tuple[str, ...] = ()
    """Ids that are wanted, when the pieces hold others that are done already; empty: all that the pieces hold."""
    carry: bool = False
    """The part exists and some of its rows failed: they are asked again, the part's other rows are kept."""

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Unit:
        """The inverse of `to_dict`."""
        pieces = tuple(Piece(p["shard"], p["group"], tuple(p["samples"])) for p in raw["pieces"])
        return cls(**{**raw, "pieces": pieces, "only": tuple(raw["only"])})


@dataclass(slots=True)
class Done:
    """What earlier runs left: ids that need nothing more, and failed ids with the parts that hold them."""

    finished: set[bytes] = field(default_factory=set)
    """Ids as 16 bytes, which is a third of their hex in memory."""
    failed: dict[bytes, str] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """All that is to be done for one model on one benchmark, and what is done already."""

    asker: Asker
    units: list[Unit] = field(default_factory=list)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests of the whole plan by (task, setting), done ones too."""
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Pending ones that an earlier run failed at."""
    calls: int = 0
    """Model calls of the whole plan, all steps counted."""
    groups: set[str] = field(default_factory=set)
    """Media groups of the whole plan; text-only requests are in none."""
    prompt_tokens: int = 0
    """Estimate over the whole plan: 3.5 characters a token, 28 x 28 pixels a token, two frames a token's depth."""
    shared_tokens: int = 0
    """Part of the estimate that media make up."""
    distinct_media_tokens: int = 0
    """The same with each media group counted once: what shared prefixes leave to compute."""
    output_tokens: int = 0
    """The most that may be generated."""

    @property
    def total(self) -> int:
        """Requests of the whole plan."""
        return sum(self.requests.values())

    @property
    def to_do(self) -> int:
        """Requests that are not done."""
        return sum(self.pending.values())


def read_done(out: Store, benchmark: str, model: str, kind: str = "predictions", *, mend: bool = False) -> Done:
    """What earlier runs committed.

    Args:
        out: the output.
        benchmark: whose.
        model: whose.
        kind: `predictions` or `captions`.
        mend: set damaged parts aside and take out rows that stand in two parts; only for who holds the output.
    """
    done = Done()
    doubled: dict[str, set[bytes]] = {}
    for path, table in healthy_parts(out, part_folder(kind, benchmark, model), ["request_id", "status"], mend=mend):
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
        out.put(path, table_bytes(kept, rows.schema))
    else:
        out.delete(path)


def make_plan(
    dataset: Dataset,
    asker: Asker,
    done: Done,
    *,
    limit: Limit | None = None,
    sample_ids: Sequence[str] = (),
    captions: Mapping[str, str] | None = None,
) -> Plan:
    """Plan one model on one benchmark.

    Args:
        dataset: canonical data.
        asker: makes the requests.
        done: what needs not be asked again.
        limit: cut of the samples in canonical order.
        sample_ids: only these samples, when given.
        captions: what the captioner said, by picture hash.

    Raises:
        ValueError: a sample id that the dataset does not have.
    """
    plan = Plan(asker)
    pool: _Pool = {}
    partial: set[tuple[_Place, str]] = set()
    retries: dict[str, dict[_Place, dict[str, list[str]]]] = {}
    shown: set[str] = set()
    for shard, sample in selected_samples(dataset, limit, sample_ids):
        for asked in asker.ask(sample, captions):
            place = (shard, asked.group)
            if asker.kind == "caption":
                if asked.request_id in shown:
                    partial.add((place, sample.sample_id))
                    continue
                shown.add(asked.request_id)
            _count(plan, asked, sample)
            key = bytes.fromhex(asked.request_id)
            if key in done.finished:
                partial.add((place, sample.sample_id))
                continue
            plan.pending[asked.columns["task"], asked.columns["setting"]] += 1
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
    plan.units = [*_fresh_units(pool, partial, asker), *_retry_units(retries, asker.benchmark_name)]
    return plan


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
        raise ValueError(f"no sample {min(wanted)!r} {where}")
    if not len(span):
        raise ValueError(f"--limit leaves nothing of the {dataset.manifest.samples} samples")


def _count(plan: Plan, asked: Asked, sample: Sample) -> None:
    plan.requests[asked.columns["task"], asked.columns["setting"]] += 1
    if asked.excluded:
        return
    plan.calls += len(asked.request.steps)
    new_group = bool(asked.group) and asked.group not in plan.groups
    if asked.group:
        plan.groups.add(asked.group)
    sizes = {ref.sha256: ref for ref in sample.media}
    for step in asked.request.steps:
        plan.output_tokens += step.generation.max_new_tokens
        for turn in step.turns:
            for part in turn.parts:
                if isinstance(part, Text):
                    plan.prompt_tokens += round(len(part.text) / CHARS_PER_TOKEN)
                elif isinstance(part, Media):
                    ref = sizes.get(part.source)
                    pixels = ref.width * ref.height if ref else 640 * 360
                    tokens = round(pixels / PIXELS_PER_TOKEN) * max(1, (part.frames + 1) // 2)
                    plan.prompt_tokens += tokens
                    plan.shared_tokens += tokens
                    plan.distinct_media_tokens += tokens if new_group else 0
                    new_group = False


def _fresh_units(pool: _Pool, partial: set[tuple[_Place, str]], asker: Asker) -> Iterator[Unit]:
    """Cut large groups at samples, put small ones of one shard together."""
    packed: list[tuple[Piece, list[str]]] = []
    size = 0
    shard_now = ""
    for (shard, group), members in pool.items():
        for names, ids in _cut(members):
            if packed and (size + len(ids) > PACK_REQUESTS or shard != shard_now):
                yield _unit(packed, partial, asker)
                packed, size = [], 0
            packed.append((Piece(shard, group, names), ids))
            size += len(ids)
            shard_now = shard
    if packed:
        yield _unit(packed, partial, asker)


def _cut(members: list[tuple[str, list[str]]]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    names: list[str] = []
    ids: list[str] = []
    for name, own in members:
        if ids and len(ids) + len(own) > MAX_UNIT_REQUESTS:
            yield tuple(names), ids
            names, ids = [], []
        names.append(name)
        ids = ids + own
    yield tuple(names), ids


def _unit(packed: list[tuple[Piece, list[str]]], partial: set[tuple[_Place, str]], asker: Asker) -> Unit:
    ids = sorted(request_id for _, own in packed for request_id in own)
    pieces = tuple(piece for piece, _ in packed)
    folder = part_folder(KINDS[asker.kind], asker.benchmark_name, asker.model)
    filtered = any(((piece.shard, piece.group), name) in partial for piece in pieces for name in piece.samples)
    return Unit(
        benchmark=asker.benchmark_name,
        part=f"{folder}/{unit_name(ids)}.parquet",
        pieces=pieces,
        requests=len(ids),
        only=tuple(ids) if filtered else (),
    )


def unit_name(request_ids: Sequence[str]) -> str:
    """The name of the unit that holds exactly these requests."""
    return hashlib.sha256("".join(sorted(request_ids)).encode()).hexdigest()[:24]


def _retry_units(retries: dict[str, dict[_Place, dict[str, list[str]]]], benchmark: str) -> Iterator[Unit]:
    for part, places in retries.items():
        ids = [one for samples in places.values() for own in samples.values() for one in own]
        pieces = tuple(Piece(shard, group, tuple(samples)) for (shard, group), samples in places.items())
        yield Unit(benchmark=benchmark, part=part, pieces=pieces, requests=len(ids), only=tuple(ids), carry=True)

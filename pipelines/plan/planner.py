"""Plan a model's work: the rows of a stored plan become media groups and units of work, completed requests skipped.

A part of the plan is in memory at a time, and all its rows are handled together, as columns.
"""

import hashlib
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from models.messages import Generation
from pipelines.errors import DamagedPartError, UsageError
from pipelines.hashing import ID_DIGITS, stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import IdSet
from pipelines.plan.prompt_plan import CHARS_PER_TOKEN, LEAST_CACHED_TOKENS
from pipelines.plan.records import CompletedRequests, ModelPlan, Repair
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.stored_plan import Codes, Mask, Numbers, PlanColumns, PlanPart, PlanRow, RequestKey, StoredPlan
from pipelines.plan.units import GroupKey, Pool, RetryPool, SampleRequests, UnitFile, UnitList, UnitMaker, retry_units
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


_WORD = "word"


def plan_model(  # noqa: PLR0913  what is left out has two sides
    plan: StoredPlan,
    target: ModelTarget,
    completed: CompletedRequests,
    *,
    replicas: int = 1,
    file: UnitFile | None = None,
    planned: IdSet | None = None,
    within: Container[str] | None = None,
) -> ModelPlan:
    """Plan one model on one benchmark; the size of units depends on `replicas`, ids and answers do not.

    Its units are written to `file`, which the plans of a sweep share. Requests that are in `planned` are left out, and
    the others are added to it. Units hold requests of the samples `within` alone, if given; counts are of all.
    """
    if target.prompts.kind == "caption":  # the same picture is in several samples
        planned = IdSet()
    maker = UnitMaker(target, replicas, plan.samples)
    work = ModelPlan(target, UnitList(file=file), repair=completed.repair)
    planner = _Planner(work, completed, maker, planned, within)
    for part in plan.parts:  # no group reaches beyond its part: ids need not be held for longer
        planner.maker.samples += part.samples
        columns = plan.read_columns(part)
        if columns.rows:
            planner.add(part, columns)
    work.units.extend(retry_units(planner.retries, target.prompts.benchmark_name, planner.retry_sizes))
    return work


@dataclass(slots=True)
class _Planner:
    work: ModelPlan
    completed: CompletedRequests
    maker: UnitMaker
    planned: IdSet | None  # requests planned so far, where plans may share some
    within: Container[str] | None = None  # the samples whose requests go into units; None for all
    retries: RetryPool = field(default_factory=dict)
    retry_sizes: dict[GroupKey, int] = field(default_factory=dict)
    groups: IdSet = field(default_factory=IdSet)  # hashes of the media groups planned so far

    def add(self, part: PlanPart, columns: PlanColumns) -> None:
        """Plan the rows of one part."""
        keys = list(columns.request_keys())
        ids = [*map(self.work.target.request_id, keys)]
        planned = np.ones(len(ids), dtype=bool) if self.planned is None else self.planned.add(ids)
        pending = planned & ~self.completed.finished.contains(ids)
        by_setting = columns.groups()
        self.work.requests.update(dict(by_setting.counts(planned)))
        self.work.pending.update(dict(by_setting.counts(pending)))
        samples = columns.codes("sample_id")
        if self.within is not None:
            is_within = np.array([name in self.within for name in samples.values], dtype=bool)
            pending &= is_within[samples.codes]
        if not pending.any():
            return
        groups = columns.codes("media_group")
        self._add_estimates(columns, groups, keys, pending)
        sizes = columns.numbers("decoded_bytes")
        first_rows = groups.first_rows(planned).tolist()
        self.maker.sizes = {(part.path, groups.values[groups.codes[row]]): int(sizes[row]) for row in first_rows}
        if self.completed.failed:
            pending &= ~self._add_retries(part, groups, keys, ids, pending)
        if pending.any():
            pool = _pool(part, groups, samples, ids, pending)
            self.work.units.extend(self.maker.units(pool))

    def _add_estimates(self, columns: PlanColumns, groups: Codes[str], keys: Sequence[RequestKey], mask: Mask) -> None:
        work, mask = self.work, mask & columns.codes("excluded").equal("")
        generations = columns.codes("generation")
        for row in generations.first_rows(mask).tolist():
            steps = work.target.generations(keys[row])
            if work.prompts.repeats > 1:
                _check_sampling(work.target, keys[row], steps)
            requests = int(np.count_nonzero(mask & generations.equal(keys[row].generation)))
            work.calls += requests * len(steps)
            work.output_tokens += requests * sum(step.max_new_tokens for step in steps)
        work.prompt_tokens += int(columns.numbers("prompt_tokens")[mask].sum())
        work.shared_tokens += int(columns.numbers("media_tokens")[mask].sum())
        work.pictures += int(columns.numbers("pictures")[mask].sum())
        first_rows = groups.first_rows(mask & ~groups.equal(""))
        names = [groups.values[code] for code in groups.codes[first_rows]]
        is_new = self.groups.add([hashlib.sha256(name.encode()).hexdigest()[:ID_DIGITS] for name in names])
        work.groups += int(np.count_nonzero(is_new))
        first_media = columns.numbers("first_media_tokens")
        work.distinct_media_tokens += int(first_media[first_rows][is_new].sum())
        work.cacheable_tokens += _long_prefixes(first_media[mask])
        work.distinct_cacheable_tokens += _long_prefixes(first_media[first_rows][is_new])

    def _add_retries(
        self, part: PlanPart, groups: Codes[str], keys: Sequence[RequestKey], ids: Sequence[str], pending: Mask
    ) -> Mask:
        """Add the failed ones of the pending rows to the parts that hold them; return which they are."""
        retried = np.zeros(len(ids), dtype=bool)
        for row in np.flatnonzero(pending).tolist():
            path = self.completed.failed.get(ids[row])
            if path is None:
                continue
            retried[row] = True
            key = (part.path, groups.values[groups.codes[row]])
            self.retry_sizes[key] = self.maker.sizes[key]
            self.work.failed[keys[row].task, keys[row].setting] += 1
            members = self.retries.setdefault(path, {}).setdefault(key, [])
            if not members or members[-1].sample_id != keys[row].sample_id:
                members.append(SampleRequests(keys[row].sample_id))
            members[-1].rows.append(row)
            members[-1].ids.append(ids[row])
        return retried


def _check_sampling(target: ModelTarget, key: RequestKey, steps: Sequence[Generation]) -> None:
    """Raise UsageError where repeats of a request would all have one answer."""
    if target.fingerprint.get("engine") != "random" and not any(step.temperature > 0 for step in steps):
        where = f"{target.model} answers {target.prompts.benchmark_name} {key.task} {key.setting} at temperature 0"
        raise UsageError(
            f"--repeats: {where}, so all repeats would be equal; give its entry `generation: {{temperature: 0.7}}`, or "
            "leave --repeats out"
        )


def _long_prefixes(tokens: Numbers) -> int:
    return int(tokens[tokens >= LEAST_CACHED_TOKENS].sum())


def _pool(part: PlanPart, groups: Codes[str], samples: Codes[str], ids: Sequence[str], mask: Mask) -> Pool:
    """Return the selected rows by media group, in the order of their first rows, and by sample."""
    rank = np.empty(len(groups.values), dtype=np.int64)
    first_rows = groups.first_rows(mask)
    rank[groups.codes[first_rows]] = np.arange(len(first_rows))
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(rank[groups.codes[rows]], kind="stable")]
    pool: Pool = {}
    for start, end in _runs(groups.codes[rows], samples.codes[rows]):
        row = rows[start]
        members = pool.setdefault((part.path, groups.values[groups.codes[row]]), [])
        indices = rows[start:end].tolist()
        members.append(SampleRequests(samples.values[samples.codes[row]], indices, [ids[index] for index in indices]))
    return pool


def _runs(*columns: Numbers) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of rows that are equal in all columns."""
    is_start = np.zeros(len(columns[0]), dtype=bool)
    is_start[:1] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(is_start).tolist()
    return zip(starts, [*starts[1:], len(is_start)], strict=True)


Captions = Callable[[SweepContext, ModelTarget, Dataset], Mapping[str, str]]


def plan_sweep(
    context: SweepContext, captions: Captions | None = None, within: Mapping[str, Container[str]] | None = None
) -> dict[str, list[ModelPlan]]:
    """Plan every model of a sweep, benchmark by benchmark; completed requests are skipped.

    What is to be repaired is in the plans. Without `captions`, the output's are used. Units are of the samples `within`
    alone, by benchmark, if given.
    """
    file = UnitFile()
    return {model: list(_model_plans(context, model, file, captions, within)) for model in context.spec.models}


def store_plans(context: SweepContext) -> dict[str, list[ModelPlan]]:
    """Store the plans of every model of a sweep without reading what is completed, for a report; return no units."""
    return {
        model: [_stored(context, target, dataset) for target, dataset in context.model_targets(model)]
        for model in context.spec.models
    }


def _stored(context: SweepContext, target: ModelTarget, dataset: Dataset) -> ModelPlan:
    context.plans.write(dataset, target.prompts, context.spec.selection, context.captions(target.prompts))
    return ModelPlan(target)


def _model_plans(
    context: SweepContext,
    model: str,
    file: UnitFile,
    captions: Captions | None,
    within: Mapping[str, Container[str]] | None,
) -> Iterator[ModelPlan]:
    """Plan a model by benchmark and set of prompts; a request that several sets share is in the first one's plan."""
    spec = context.spec
    for name, group in groupby(context.model_targets(model), lambda pair: pair[0].prompts.benchmark_name):
        targets, completed = list(group), load_completed(context.out, name, model)
        planned, repair, retried_parts = IdSet(), completed.repair, set[str]()
        for target, dataset in targets:
            texts = captions(context, target, dataset) if captions else context.captions(target.prompts)
            # Two units may not write one part: what failed in a part that an earlier set repeats goes to a new part.
            moved = {
                key: path for key, path in completed.failed.items() if path in retried_parts and key not in planned
            }
            failed = {key: path for key, path in completed.failed.items() if key not in moved}
            completed = replace(completed, failed=failed, repair=replace(repair, moved=moved))
            plan = plan_model(
                context.plans.write(dataset, target.prompts, spec.selection, texts),
                target,
                completed,
                replicas=spec.models[model].replicas.max,
                file=file,
                planned=planned if len(targets) > 1 else None,
                within=within[name] if within else None,
            )
            repair = Repair(repair.folder)
            if failed and len(targets) > 1:
                retried_parts |= {unit.part for unit in plan.units if unit.retried}
            yield plan


def placeholder_captions(context: SweepContext, target: ModelTarget, dataset: Dataset) -> dict[str, str]:
    """Return captions by picture hash: existing ones, and text of the greatest length in place of the others."""
    captions, name = dict(context.captions(target.prompts)), target.prompts.captioner_name
    word = stable_id({"captioner": target.prompts.captioner})[: len(_WORD)]  # two captioners hardly write the same
    for caption_target, _ in context.caption_targets(name) if name else []:
        if caption_target.prompts.benchmark_name == target.prompts.benchmark_name:
            plan = context.plans.open(dataset, caption_target.prompts, context.spec.selection)
            for row in plan.iter_columns():
                captions.setdefault(row.variant, longest_text(caption_target, row, word))
    return captions


def longest_text(target: ModelTarget, row: PlanRow, word: str = _WORD) -> str:
    """Return a word repeated to the greatest length of the answer to a request."""
    steps = target.generations(row)
    characters = steps[-1].max_new_tokens * CHARS_PER_TOKEN if steps else 0
    return " ".join([word] * max(1, round(characters / len(f"{word} "))))

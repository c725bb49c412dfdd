"""Which pairs of model and benchmark are due, in which order, and which of them the budget can pay by estimates."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from jobs.nightly.history import History, run_time
from jobs.nightly.records import PairStatus
from models.fingerprint import answer_fingerprint
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset, Datasets
from pipelines.plan.context import SweepContext
from pipelines.plan.cost_model import model_workload, planned_dollars
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import placeholder_captions, plan_sweep
from pipelines.plan.records import ModelPlan
from pipelines.plan.requests import ModelTarget, captioner_keys, model_targets
from pipelines.plan.run_manifest import versions
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store

_SUFFIXES = (".py", ".csv", ".txt", ".json")


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Return a hash of the code that predicts and scores, and of its libraries' versions."""
    total = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    for package in ("models", "pipelines"):
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            shows_only = name.startswith("pipelines/report/") or path.name == "published.csv"
            if path.is_file() and path.suffix in _SUFFIXES and not shows_only:
                total.update(json.dumps([name, hashlib.sha256(path.read_bytes()).hexdigest()]).encode())
    return total.hexdigest()[:16]


def pair_fingerprint_parts(spec: RunSpec, target: ModelTarget, dataset: Dataset) -> dict[str, str]:
    """Return the hashes of one model on one benchmark, by part."""
    name = target.prompts.benchmark_name
    cut = {key: getattr(spec, key) for key in ("limit", "sample_ids", "seed")}
    return {
        "code": code_fingerprint(),
        "dataset": dataset.manifest.dataset_fingerprint[:16],
        "model": _hash({"fingerprint": dict(target.fingerprint), "generation": dict(target.generation)}),
        "prompt": _hash(
            {
                **benchmark(name).prompt_texts,
                **target.prompts.wording,
                "instead": dict(target.prompts.prompt_versions),
                **({"sets": spec.prompt_sets[name]} if name in spec.prompt_sets else {}),
            }
        ),
        "cells": _hash({"cells": [[group.task, group.setting] for group in target.prompts.task_settings], "cut": cut}),
        "captioner": ",".join(captioner_keys(spec, target.model)),
        "judge": _hash({judge: answer_fingerprint(model) for judge, model in spec.judges}) if spec.judges else "",
        "scorers": _hash(
            {
                scorer.kind: [scorer.model, scorer.layer, scorer.named, *filter(None, [scorer.loaded_revision])]
                for scorer in spec.scorers_for(name)
            }
        ),
    }


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts whose hashes differ."""
    return [name for name in sorted({*before, *now}) if before.get(name, "") != now.get(name, "")]


def _hash(fields: Mapping[str, object]) -> str:
    return stable_id(dict(fields))[:16]


def due_pairs(
    spec: RunSpec, history: History, *, refresh_days: float | None = None, now: datetime | None = None
) -> list[PairStatus]:
    """Return all pairs of a configuration with the reason to run each, or ''.

    With `refresh_days`, a pair that was last measured so many days before `now` is due although nothing changed.
    Raises DatasetError if a benchmark was not ingested.
    """
    datasets = Datasets()
    targets = {
        (model, target.prompts.benchmark_name): (target, dataset)
        for model in spec.models
        for target, dataset in reversed(model_targets(spec, model, datasets))  # of several sets of prompts the first
    }
    last = history.last_pairs(targets)
    oldest = (now or datetime.now(UTC)) - timedelta(days=refresh_days) if refresh_days is not None else None
    statuses = []
    for (model, name), (target, dataset) in targets.items():
        parts = pair_fingerprint_parts(spec, target, dataset)
        status = PairStatus(model=model, benchmark=name, parts=parts, why="", before=last.get((model, name)))
        statuses.append(replace(status, why=_reason(status, oldest)))
    return statuses


def _reason(status: PairStatus, oldest: datetime | None) -> str:
    """Return why a pair is due, '' if it is not."""
    before = status.before
    if before is None or not (before.parts or before.measured):
        return "new"
    if before.fingerprint != status.fingerprint:
        changed = changed_parts(before.parts, status.parts)
        return f"changed: {', '.join(changed)}" if changed else "failed the last time"
    if oldest is None or not before.measured or run_time(before.measured) > oldest:
        return ""
    return f"not measured since {run_time(before.measured):%Y-%m-%d}"


def run_order(due: Iterable[PairStatus]) -> list[PairStatus]:
    """Order due pairs: never evaluated, then changed, then oldest; of each the longest unmeasured first.

    Among these, pairs that failed the last time come last, so that a model that is away all week delays no other.
    """

    def rank(status: PairStatus) -> tuple[int, bool, str]:
        before = status.before
        if before is None or not before.measured:
            return 0, before is not None and before.state == "failed", ""
        return (2 if before.fingerprint == status.fingerprint else 1), before.state == "failed", before.measured

    return sorted(due, key=rank)


_CALLS_PER_MINUTE = 60.0
"""Assumed of an endpoint without `requests_per_minute`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a pair may take; `usd` is None without a price."""

    seconds: float
    usd: float | None

    def __str__(self) -> str:
        hours = f"{self.seconds / 3600:.2f} h"
        return hours if self.usd is None else f"{hours} and ${self.usd:,.2f}"


Estimates = Mapping[tuple[str, str], Estimate]  # by model and benchmark


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """A pair of the configuration with what it may take; `estimate` is None without a budget, or if it is not due."""

    status: PairStatus
    why: str  # it is due, and what it waits for; '' if it is unchanged
    estimate: Estimate | None = None
    is_waiting: bool = False  # for a later night: the budget is spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a night may take; None is no limit."""

    usd: float | None = None
    hours: float | None = None
    gpu_hour_usd: float | None = None

    def allows(self, seconds: float, usd: float) -> bool:
        """Return whether a night may take so much."""
        return (self.hours is None or seconds <= self.hours * 3600) and (self.usd is None or usd <= self.usd)

    def plan(self, ordered: Iterable[PairStatus], estimates: Estimates) -> list[PlannedPair]:
        """Return pairs in this order, each with its estimate and whether the budget is spent before it."""
        planned = []
        seconds = usd = 0.0
        for status in ordered:
            estimate = estimates[status.model, status.benchmark]
            cost, why = estimate.usd or 0.0, status.why
            if is_waiting := not self.allows(seconds + estimate.seconds, usd + cost):
                why += f"; waits for the budget: needs about {estimate}"
                why += "" if self.allows(estimate.seconds, cost) else ", more than the whole budget"
            else:
                seconds, usd = seconds + estimate.seconds, usd + cost
            planned.append(PlannedPair(status, why, estimate, is_waiting))
        return planned


def plan_due(specs: Sequence[RunSpec], due: Iterable[PairStatus], out: str, budget: Budget) -> list[PlannedPair]:
    """Return the due pairs in the order of the night; without a limit nothing is estimated and nothing waits."""
    ordered = run_order(due)
    if (budget.usd is None and budget.hours is None) or not ordered:
        return [PlannedPair(status, status.why) for status in ordered]
    estimates: dict[tuple[str, str], Estimate] = {}
    for spec in specs:
        if spec_statuses := [status for status in ordered if status.model in spec.models]:
            estimates |= estimate_pairs(spec, spec_statuses, out, budget.gpu_hour_usd)
    return budget.plan(ordered, estimates)


def estimate_pairs(spec: RunSpec, due: Sequence[PairStatus], out: str, gpu_hour_usd: float | None) -> Estimates:
    """Estimate due pairs from the plan of what `out` lacks, by the speed and price of the last night that ran them.

    A pair that never ran whole is estimated as by `--dry-run`: without judge and captioner, at the most by price.
    """
    part = spec.part((status.model for status in due), dict.fromkeys(status.benchmark for status in due))
    store = Store(out)
    with PlanStore.reading(store) as plans:
        context = SweepContext(spec=replace(part, out=out), out=store, plans=plans)
        planned = plan_sweep(context, placeholder_captions)
    return {
        (status.model, status.benchmark): _estimate(
            status,
            spec.models[status.model],
            [plan for plan in planned[status.model] if plan.prompts.benchmark_name == status.benchmark],
            gpu_hour_usd,
        )
        for status in due
    }


def _estimate(status: PairStatus, spec: ModelSpec, plans: Sequence[ModelPlan], gpu_hour_usd: float | None) -> Estimate:
    requests = sum(plan.to_do for plan in plans)
    before = status.before
    if before is not None and before.seconds_per_request:
        usd = before.usd_per_request
        return Estimate(requests * before.seconds_per_request, None if usd is None else requests * usd)
    seconds, calls = 0.0, sum(plan.calls for plan in plans)
    if spec.is_endpoint:
        seconds = calls * 60.0 / (spec.requests_per_minute or _CALLS_PER_MINUTE) / spec.replicas.max
    elif spec.runs_locally and calls:
        work = model_workload(status.model, plans, spec)
        seconds = work.load_s + sum(work.units) / spec.replicas.max
    costs = []
    if price := spec.billed_price:
        costs.append(sum(planned_dollars(plan, spec, price) for plan in plans))
    if gpu_hour_usd is not None and spec.can_use_gpu:
        costs.append(seconds / 3600 * spec.max_gpus * gpu_hour_usd)
    return Estimate(seconds, sum(costs) if costs else None)

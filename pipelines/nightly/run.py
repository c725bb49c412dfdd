"""The nightly run: run changed pairs of model and benchmark, and compare their metrics with the previous night."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cluster.errors import ClusterError
from cluster.lazy import open_cluster
from models.errors import ModelError
from pipelines.errors import DamagedPartError, DatasetError, LockedError, ModelUnavailableError, UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.nightly.cost import cost, token_difference, usage
from pipelines.nightly.fingerprints import changed_parts, code_fingerprint, pair_fingerprint_parts
from pipelines.nightly.history import History, Pair, night_name
from pipelines.nightly.records import MetricShift, NightlyResult, PairStatus
from pipelines.nightly.summary import summary
from pipelines.plan.requests import model_builders
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import CellCount
from pipelines.progress import NullProgress, ProgressListener
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import part_folder
from pipelines.storage.store import Store
from pipelines.sweep.revisions import PinnedSweep, pin_newest
from pipelines.sweep.run import run_sweep

log = logging.getLogger(__name__)

_ERRORS_OF_ONE_MODEL = (
    *(ModelUnavailableError, ModelError, ClusterError),
    *(UsageError, DatasetError, DamagedPartError, LockedError),
)  # any other error, such as an unreachable store or a bug, ends the night
_KEY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")


def due_pairs(spec: RunSpec, history: History) -> list[PairStatus]:
    """Return all pairs of a configuration with the reason to run each, or ''; DatasetError if one was not ingested."""
    datasets = Datasets()
    builders = {
        (model, builder.benchmark_name): (builder, dataset)
        for model in spec.models
        for builder, dataset in reversed(model_builders(spec, model, datasets))  # of several sets of prompts the first
    }
    last = history.last_pairs(builders)
    statuses = []
    for (model, name), (builder, dataset) in builders.items():
        before = last.get((model, name))
        parts = pair_fingerprint_parts(spec, builder, dataset)
        status = PairStatus(model=model, benchmark=name, parts=parts, why="", before=before)
        statuses.append(replace(status, why=_reason(before, status)))
    return statuses


def _reason(before: Pair | None, status: PairStatus) -> str:
    if before is None:
        return "new"
    if before.fingerprint == status.fingerprint:
        return ""
    changed = changed_parts(before.parts, status.parts)
    return f"changed: {', '.join(changed)}" if changed else "failed the last time"


def pin_tonight(spec: RunSpec) -> PinnedSweep:
    """Return a configuration with today's commits; where the hub is unreachable, with those of the last nights.

    A branch that moved changes its model, which is run again.
    """
    models: dict[str, Any] = {}
    for model in spec.models:
        models |= load_run(Store(_output_of(spec, model))).get("models", {})
    return pin_newest(spec, {"models": models})


def run_night(
    spec: RunSpec,
    history: History,
    *,
    gpu_hour_usd: float | None = None,
    progress: ProgressListener | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> NightlyResult:
    """Run the due pairs, compare their metrics, and record the night.

    Each model has an output of its own under `spec.out` for each version of the code, so that results of different code
    are never mixed; a night that was killed resumes in the same folder. Raises DatasetError if a benchmark was never
    ingested, LockedError if another night is running, StoreError and ClusterError.
    """
    history.store.check_writable()
    night = NightlyResult(name=night_name(clock()), gpu_hour_usd=gpu_hour_usd)
    with run_lock(history.store):  # two concurrent nights would each miss the other's result
        _run_due_pairs(spec, history, night, progress or NullProgress())
    return night


def _run_due_pairs(spec: RunSpec, history: History, night: NightlyResult, progress: ProgressListener) -> None:
    pinned = pin_tonight(spec)
    spec = pinned.spec
    night.warnings += pinned.warnings
    statuses = due_pairs(spec, history)
    night.pairs = [_unchanged(night.name, status) for status in statuses if not status.why]
    with open_cluster(spec.address) if any(status.why for status in statuses) else nullcontext():
        for model in spec.models:
            due = [status for status in statuses if status.model == model and status.why]
            if due:
                _run_model(spec, model, due, night, progress)
    night.shifts = list(_shifts(night, statuses, history))
    night.summary = summary(night, {pair.model for pair in statuses if spec.models[pair.model].is_random})
    history.write(night.name, night.pairs, night.metrics, night.summary)


def _unchanged(night: str, status: PairStatus) -> Pair:
    assert status.before is not None
    pair = replace(status.before, night=night, state="unchanged", why="", cost_usd=0.0, seconds=0.0)
    return replace(pair, input_tokens=0, output_tokens=0)


def _run_model(
    spec: RunSpec, model: str, due: Sequence[PairStatus], night: NightlyResult, progress: ProgressListener
) -> None:
    """Run one model on its due benchmarks; an error is recorded in its pairs and stops no other model."""
    out = _output_of(spec, model)
    benchmarks = tuple(status.benchmark for status in due)
    sets = {name: names for name, names in spec.prompt_sets.items() if name in benchmarks}
    sweep = replace(spec, models={model: spec.models[model]}, benchmarks=benchmarks, prompt_sets=sets, out=out)
    before = usage(sweep)
    start = time.monotonic()
    try:
        result = run_sweep(sweep, progress=progress)
    except _ERRORS_OF_ONE_MODEL as error:
        if not isinstance(error, ModelUnavailableError):  # the sweep has logged that one
            log.error("%s: %s", model, error)  # noqa: TRY400  the message is for people
        night.pairs += [_failed(night.name, status, str(error), out) for status in due]
        return
    night.warnings += [warning for warning in result.warnings if warning not in night.warnings]
    seconds = time.monotonic() - start
    within_budget = spec.fail_on_error.allows(result.failed, max(result.requests, 1))
    if not within_budget:
        night.over_budget.append(model)
    used = {key: token_difference(tokens, before[key]) for key, tokens in usage(sweep).items()}
    for status in due:
        counts = [count for count in result.counts if count.benchmark == status.benchmark]
        share = sum(count.requests for count in counts) / max(result.requests, 1)
        night.pairs.append(
            replace(
                _ran(night.name, status, counts, within_budget=within_budget),
                seconds=round(seconds * share, 3),
                input_tokens=sum(tokens[0] for key, tokens in used.items() if key[1] == status.benchmark),
                output_tokens=sum(tokens[1] for key, tokens in used.items() if key[1] == status.benchmark),
                cost_usd=cost(sweep, status.benchmark, used, seconds * share, night.gpu_hour_usd),
                out=out,
            )
        )
    night.metrics += [dict(row) for row in result.metrics if row["benchmark"] in benchmarks]


def _output_of(spec: RunSpec, model: str) -> str:
    return f"{spec.out.rstrip('/')}/{part_folder('', '', model).rpartition('model=')[2]}/{code_fingerprint()}"


def _ran(night: str, status: PairStatus, counts: Sequence[CellCount], *, within_budget: bool) -> Pair:
    """Return the record of a pair that ran; without a fingerprint, it runs again the next night."""
    return Pair(
        **_identity(night, status),
        state="ran",
        why=status.why,
        fingerprint=status.fingerprint if within_budget else "",
        measured=night,
        requests=sum(count.requests for count in counts),
        failed=sum(count.error for count in counts),
    )


def _failed(night: str, status: PairStatus, message: str, out: str) -> Pair:
    return Pair(
        **_identity(night, status),
        state="failed",
        why=" ".join(message.split())[:500],
        measured=status.before.measured if status.before else "",
        out=out,
    )


def _identity(night: str, status: PairStatus) -> dict[str, Any]:
    return {"night": night, "model": status.model, "benchmark": status.benchmark, "parts": status.parts}


def _shifts(night: NightlyResult, statuses: Sequence[PairStatus], history: History) -> Iterator[MetricShift]:
    """Compare the numbers of tonight with those of the last night that measured the same pair."""
    now = {tuple(str(row[name]) for name in _KEY): row for row in night.metrics}
    ran = {(pair.model, pair.benchmark) for pair in night.pairs_in("ran")}
    earlier: dict[str, list[dict[str, Any]]] = {}
    for status in statuses:
        since = status.before.measured if status.before else ""
        if not since or (status.model, status.benchmark) not in ran:
            continue
        if since not in earlier:
            earlier[since] = history.metrics(since)
        for row in earlier[since]:
            if (row["model"], row["benchmark"]) != (status.model, status.benchmark):
                continue
            if row["value"] is None or row["ci_low"] is None or row["ci_high"] is None:
                continue
            key = tuple(str(row[name]) for name in _KEY)
            value = now.get(key, {}).get("value")
            if value is None or not row["ci_low"] <= value <= row["ci_high"]:
                yield MetricShift(
                    key=key, before=row["value"], now=value, interval=(row["ci_low"], row["ci_high"]), since=since
                )

"""A night: every model on every benchmark, of which only what changed is run, compared with the night before."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cluster.connect import connect
from cluster.errors import ClusterError
from models.errors import ModelError
from pipelines.errors import DamagedPartError, DatasetError, LockedError, ModelUnavailableError, UsageError
from pipelines.nightly.cost import cost, token_difference, usage
from pipelines.nightly.fingerprints import changed_parts, code_fingerprint, pair_fingerprint_parts
from pipelines.nightly.history import History, Pair, night_name
from pipelines.nightly.records import MetricShift, NightlyResult, PairStatus
from pipelines.nightly.summary import summary
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import CellCount
from pipelines.progress import NullProgress, ProgressListener
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import part_folder
from pipelines.sweep.run import SweepResult, run_sweep

log = logging.getLogger(__name__)

_ERRORS_OF_ONE_MODEL = (
    *(ModelUnavailableError, ModelError, ClusterError),
    *(UsageError, DatasetError, DamagedPartError, LockedError),
)
"""Errors that stop one model of a night; any other, such as a store out of reach or a bug, ends the night."""
_KEY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")


def due_pairs(spec: RunSpec, history: History) -> list[PairStatus]:
    """All pairs of a configuration with the reason to run each, if there is one.

    Raises:
        DatasetError: a benchmark was never ingested.
    """
    asked = {(model, one[0].benchmark_name): one for model in spec.models for one in spec.askers(model)}
    last = history.last_pairs(asked)
    found = []
    for (model, name), (asker, dataset) in asked.items():
        before = last.get((model, name))
        due = PairStatus(
            model=model, benchmark=name, parts=pair_fingerprint_parts(spec, asker, dataset), why="", before=before
        )
        found.append(replace(due, why=_why(before, due)))
    return found


def _why(before: Pair | None, due: PairStatus) -> str:
    if before is None:
        return "new"
    if before.fingerprint == due.fingerprint:
        return ""
    changed = changed_parts(before.parts, due.parts)
    return f"changed: {', '.join(changed)}" if changed else "failed the last time"


def run_night(
    spec: RunSpec,
    history: History,
    *,
    gpu_hour_usd: float | None = None,
    watcher: ProgressListener | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> NightlyResult:
    """Run what is due, compare, and record the night.

    Each model has an output of its own under `spec.out`, one for each state of the code: what code asked and scored is
    never mixed with what other code did, and a night that was killed goes on in the same folder.

    Args:
        spec: all models and benchmarks of the configuration.
        history: where nights are kept.
        gpu_hour_usd: price of one GPU for an hour, for models that run on GPUs of ours.
        watcher: is told of progress.
        clock: tells the time (UTC).

    Raises:
        DatasetError: a benchmark was never ingested.
        LockedError: another night is under way.
        StoreError, ClusterError: the store or the cluster cannot be reached.
    """
    history.store.check_writable()
    night = NightlyResult(name=night_name(clock()), gpu_hour_usd=gpu_hour_usd)
    with run_lock(history.store):  # two nights at once would each miss the other
        _through(spec, history, night, watcher or NullProgress())
    return night


def _through(spec: RunSpec, history: History, night: NightlyResult, watcher: ProgressListener) -> None:
    due = due_pairs(spec, history)
    night.pairs = [_unchanged(night.name, one) for one in due if not one.why]
    with connect(spec.address) if any(one.why for one in due) else nullcontext():
        for model in spec.models:
            wanted = [one for one in due if one.model == model and one.why]
            if wanted:
                _run_model(spec, model, wanted, night, watcher)
    night.moves = list(_moves(night, due, history))
    night.summary = summary(night, {pair.model for pair in due if spec.models[pair.model].is_random})
    history.write(night.name, night.pairs, night.metrics, night.summary)


def _unchanged(night: str, due: PairStatus) -> Pair:
    assert due.before is not None
    kept = replace(due.before, night=night, state="unchanged", why="", cost_usd=0.0, seconds=0.0)
    return replace(kept, input_tokens=0, output_tokens=0)


def _run_model(
    spec: RunSpec, model: str, due: Sequence[PairStatus], night: NightlyResult, watcher: ProgressListener
) -> None:
    """One model on the benchmarks that are due; what goes wrong is told in its pairs and stops no other model."""
    out = f"{spec.out.rstrip('/')}/{part_folder('', '', model).rpartition('model=')[2]}/{code_fingerprint()}"
    own = replace(spec, models={model: spec.models[model]}, benchmarks=tuple(one.benchmark for one in due), out=out)
    before = usage(own)
    start = time.monotonic()
    try:
        outcome = run_sweep(own, watcher=watcher)
    except _ERRORS_OF_ONE_MODEL as error:
        if not isinstance(error, ModelUnavailableError):  # of that one the sweep has told
            log.error("%s: %s", model, error)  # noqa: TRY400  the message is for people
        night.pairs += [_failed(night.name, one, str(error), out) for one in due]
        return
    night.warnings += [warning for warning in outcome.warnings if warning not in night.warnings]
    seconds = time.monotonic() - start
    within = spec.fail_on_error.allows(outcome.failed, max(outcome.requests, 1))
    if not within:
        night.over_budget.append(model)
    used = {key: token_difference(tokens, before[key]) for key, tokens in usage(own).items()}
    for one in due:
        counts = [count for count in outcome.counts if count.benchmark == one.benchmark]
        share = sum(count.requests for count in counts) / max(outcome.requests, 1)
        night.pairs.append(
            replace(
                _ran(night.name, one, counts, within=within),
                seconds=round(seconds * share, 3),
                input_tokens=sum(tokens[0] for key, tokens in used.items() if key[1] == one.benchmark),
                output_tokens=sum(tokens[1] for key, tokens in used.items() if key[1] == one.benchmark),
                cost_usd=cost(own, one.benchmark, used, seconds * share, night.gpu_hour_usd),
                out=out,
            )
        )
    night.metrics += _of(outcome, due)


def _of(outcome: SweepResult, due: Sequence[PairStatus]) -> list[dict[str, Any]]:
    names = {one.benchmark for one in due}
    return [dict(row) for row in outcome.metrics if row["benchmark"] in names]


def _ran(night: str, due: PairStatus, counts: Sequence[CellCount], *, within: bool) -> Pair:
    """Rows that failed beyond the budget are asked again the next night: such a pair keeps no fingerprint."""
    failed = sum(count.error for count in counts)
    return Pair(
        night=night,
        model=due.model,
        benchmark=due.benchmark,
        state="ran",
        why=due.why,
        fingerprint=due.fingerprint if within else "",
        parts=due.parts,
        measured=night,
        requests=sum(count.requests for count in counts),
        failed=failed,
    )


def _failed(night: str, due: PairStatus, message: str, out: str) -> Pair:
    return Pair(
        night=night,
        model=due.model,
        benchmark=due.benchmark,
        state="failed",
        why=" ".join(message.split())[:500],
        parts=due.parts,
        measured=due.before.measured if due.before else "",
        out=out,
    )


def _moves(night: NightlyResult, due: Sequence[PairStatus], history: History) -> Iterator[MetricShift]:
    """Numbers measured tonight against the last night that measured the same pair."""
    now = {tuple(str(row[name]) for name in _KEY): row for row in night.metrics}
    ran = {(pair.model, pair.benchmark) for pair in night.of_state("ran")}
    nights: dict[str, list[dict[str, Any]]] = {}
    for one in due:
        since = one.before.measured if one.before else ""
        if not since or (one.model, one.benchmark) not in ran:
            continue
        if since not in nights:
            nights[since] = history.metrics(since)
        for row in nights[since]:
            if (row["model"], row["benchmark"]) != (one.model, one.benchmark):
                continue
            if row["value"] is None or row["ci_low"] is None or row["ci_high"] is None:
                continue
            key = tuple(str(row[name]) for name in _KEY)
            value = now.get(key, {}).get("value")
            if value is None or not row["ci_low"] <= value <= row["ci_high"]:
                yield MetricShift(
                    key=key, before=row["value"], now=value, interval=(row["ci_low"], row["ci_high"]), since=since
                )

"""Which pairs of model and benchmark are due, why, and in which order."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobs.nightly.fingerprints import changed_parts, pair_fingerprint_parts
from jobs.nightly.history import History, Pair, run_time
from jobs.nightly.records import PairStatus
from pipelines.ingest.dataset import Datasets
from pipelines.plan.requests import model_targets
from pipelines.plan.run_spec import RunSpec

NEW = "new"


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
        before = last.get((model, name))
        parts = pair_fingerprint_parts(spec, target, dataset)
        status = PairStatus(model=model, benchmark=name, parts=parts, why="", before=before)
        statuses.append(replace(status, why=_reason(before, status, oldest)))
    return statuses


def _reason(before: Pair | None, status: PairStatus, oldest: datetime | None) -> str:
    if before is None or not (before.parts or before.measured):
        return NEW
    if before.fingerprint == status.fingerprint:
        return _age(before, oldest)
    changed = changed_parts(before.parts, status.parts)
    return f"changed: {', '.join(changed)}" if changed else "failed the last time"


def _age(before: Pair, oldest: datetime | None) -> str:
    if oldest is None or not before.measured or run_time(before.measured) > oldest:
        return ""
    return f"not measured since {run_time(before.measured):%Y-%m-%d}"


def run_order(due: Iterable[PairStatus]) -> list[PairStatus]:
    """Order due pairs: never evaluated, then changed, then oldest; of each the longest unmeasured first.

    Among these, pairs that failed the last time come last, so that a model that is away all week delays no other.
    """
    return sorted(due, key=_rank)


def _rank(status: PairStatus) -> tuple[int, bool, str]:
    before = status.before
    if before is None or not before.measured:
        return 0, before is not None and before.state == "failed", ""
    return (2 if before.fingerprint == status.fingerprint else 1), before.state == "failed", before.measured

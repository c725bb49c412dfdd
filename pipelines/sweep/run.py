"""A sweep from plan to report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from cluster.lazy import LazyCluster, open_cluster
from pipelines.errors import ModelUnavailableError
from pipelines.ingest.human_files import check_human
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep, store_plans
from pipelines.plan.prune import prune_plans
from pipelines.plan.requests import check_data
from pipelines.plan.run_manifest import RunManifest, load_run, record_spending
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.stage import caption, predict
from pipelines.predict.status import StatusWriter
from pipelines.progress import ProgressListener
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import owns_lock, run_lock
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import STAGES, score_and_report, score_human_entries
from pipelines.sweep.human_entries import add_human_entries
from pipelines.sweep.record import record_sweep, sweep_warnings
from pipelines.sweep.result import SweepResult
from pipelines.sweep.revisions import pin_revisions


def run_sweep(
    spec: RunSpec, *, stages: Sequence[str] = STAGES, progress: ProgressListener | None = None
) -> SweepResult:
    """Run the `stages` (`predict`, `score`, `report`) of a sweep; completed work is not repeated.

    Raises:
        DatasetError, StoreError, ClusterError: data, output or cluster are unavailable.
        LockedError: another run writes the same output.
        UsageError: a row of a human file cannot be used.
        UnknownRevisionError: the hub does not know a model or its revision.
        ModelUnavailableError: the judge, a named scorer, or every model of the sweep is unavailable.
    """
    context = SweepContext.open(spec, progress=progress)
    out = context.out
    if not is_remote(out.uri):  # the lock of an object store is written anyway
        out.check_writable()
    check_data(spec, context.datasets)
    check_human(spec.human, Store(spec.data))
    with run_lock(out) as context.lock_token, _without_temporary_files(out):
        earlier = load_run(out)
        pinned = pin_revisions(spec, earlier, stages)
        context.spec = spec = pinned.spec
        result = SweepResult(warnings=[*pinned.warnings, *sweep_warnings(spec)], spending=CostTracker(spec.cost_limit))
        with open_cluster(spec.address) as cluster:
            _run_stages(context, earlier, cluster, result, stages)
    return result


def _run_stages(
    context: SweepContext, earlier: RunManifest, cluster: LazyCluster, result: SweepResult, stages: Sequence[str]
) -> None:
    """Run the stages of a sweep whose output is locked and has `earlier` as `run.json`; fill in the result."""
    spec, out = context.spec, context.out
    if "predict" in stages:
        caption(context, cluster, result.spending)  # first: prompts hold captions, and ids hash prompts
    plans = store_plans(context) if {*stages} == {"report"} else plan_sweep(context)
    run = record_sweep(context, earlier, plans, result.warnings)
    prune_plans(context, run.entries)
    status = StatusWriter(out, plans, is_new=earlier.is_new)
    try:
        if "predict" in stages:
            result.unavailable = predict(context, cluster, plans, status, result.spending)
        if len(result.unavailable) == len(spec.models):
            raise ModelUnavailableError("; ".join(result.unavailable))
        run, human_entries = add_human_entries(context, run)
        if "score" not in stages:
            score_human_entries(context, human_entries, cluster)
        score_and_report(context, run, cluster, result, stages=stages)
    finally:
        status.close()
        if result.spending.tokens and owns_lock(out, context.lock_token):
            record_spending(out, run, result.spending.record())
    result.counts = [count for count in result.counts if count.model in spec.models] or status.counts()


@contextlib.contextmanager
def _without_temporary_files(out: Store) -> Iterator[None]:
    """Delete unfinished files of killed writers, before and after the run."""
    out.remove_temporary()
    try:
        yield
    finally:
        out.remove_temporary()

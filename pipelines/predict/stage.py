"""The models of a sweep are asked: captioners first, then each model about all its benchmarks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from cluster.connect import ClusterInfo
from cluster.errors import RunCancelledError
from cluster.placement import gpus_of_nodes
from cluster.scheduling.concurrent import run_concurrently
from cluster.scheduling.gpu_scheduler import GpuScheduler, can_run_concurrently, choose_schedule
from models.spec import ModelSpec
from pipelines.errors import CostLimitReachedError, ModelUnavailableError
from pipelines.logging_context import log_context
from pipelines.plan.cost_model import model_workload
from pipelines.plan.planner import load_completed, plan_requests
from pipelines.plan.records import Plan
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.executor import run_units
from pipelines.predict.loader import UnitLoaderSpec
from pipelines.predict.metrics import count_commit, count_spent, count_waiting
from pipelines.predict.records import Job, Receipt, count_statuses
from pipelines.predict.status import StatusWriter
from pipelines.progress import ProgressListener
from pipelines.storage.store import Store

log = logging.getLogger(__name__)


def caption(spec: RunSpec, cluster: ClusterInfo, watcher: ProgressListener, spending: CostTracker) -> bool:
    """Ask each captioner about every picture that it has not seen; says whether anything was asked.

    Raises:
        ModelUnavailableError: the one that was named cannot be had.
    """
    asked = False
    for name, model in spec.captioners.items():
        try:
            asked |= _caption_by(name, model, spec, cluster, watcher, spending)
        except ModelUnavailableError:
            if not spec.own_captions:
                raise  # a model without its own captions is told about when it is to predict
    return asked


def _caption_by(  # noqa: PLR0917  what a run consists of
    name: str, model: ModelSpec, spec: RunSpec, cluster: ClusterInfo, watcher: ProgressListener, spending: CostTracker
) -> bool:
    plans = caption_plans(spec, name)
    job = _job(spec, name, model, plans)
    if job.units:
        run_job(f"caption {name}", job, cluster, watcher, spending)
    return bool(job.units)


def caption_plans(spec: RunSpec, name: str) -> list[Plan]:
    """What a captioner is still to be asked, benchmark by benchmark; mends the output only for a run that holds it."""
    out = Store(spec.out)
    return [
        plan_requests(
            dataset,
            asker,
            load_completed(out, asker.benchmark_name, name, "captions", mend=bool(spec.lock)),
            limit=spec.limit,
            sample_ids=spec.sample_ids,
            replicas=spec.captioners[name].replicas.max,
        )
        for asker, dataset in spec.caption_askers(name)
    ]


def predict(  # noqa: PLR0917  what a run consists of
    spec: RunSpec,
    cluster: ClusterInfo,
    plans: Mapping[str, Sequence[Plan]],
    board: StatusWriter,
    watcher: ProgressListener,
    spending: CostTracker,
) -> list[str]:
    """All benchmarks of a model by the same replicas; a model that cannot be had stops no other.

    Models follow one another. Where there are GPUs they run beside each other as far as that is reckoned to pay, but
    for a run with a cost limit: what one may spend hangs on what the one before has left.
    """
    jobs = {model: job for model, own in plans.items() if (job := _job(spec, model, spec.models[model], own)).units}
    problems = []

    def ask(
        model: str,
        cluster: ClusterInfo,
        watcher: ProgressListener,
        check: Callable[[Receipt], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        board.begin(model)
        try:
            job = replace(jobs[model], stopped=stopped)
            run_job(f"predict {model}", job, cluster, watcher, spending, check)
        except CostLimitReachedError:
            raise
        except ModelUnavailableError as error:
            log.error("%s", error)  # noqa: TRY400  the message is for people; the trace says nothing more
            problems.append(str(error))
        finally:
            board.end(model)

    nodes = cluster.max_gpu_nodes or (gpus_of_nodes() if cluster.gpus else ())
    if can_run_concurrently(len(jobs), nodes, spending.limit):
        works = [model_workload(model, plans[model], spec.models[model]) for model in jobs]
        watcher.phase(f"predict {', '.join(jobs)}", sum(unit.requests for job in jobs.values() for unit in job.units))
        predict_concurrently(choose_schedule(works, nodes), cluster, watcher, board, ask)
    else:
        for model in jobs:
            ask(model, cluster, watcher, partial(board.note, model))
    return problems


def _job(spec: RunSpec, name: str, model: ModelSpec, plans: Sequence[Plan]) -> Job:
    limits = model.limits
    loader = UnitLoaderSpec(
        data=spec.data,
        out=spec.out,
        askers=tuple(plan.asker.to_json() for plan in plans),
        max_pixels=limits.max_pixels,
        max_frames=limits.max_frames,
    )
    units = [unit for plan in plans for unit in plan.units]
    return Job(model=name, spec=model, loader=loader, out=spec.out, units=units, lock=spec.lock)


def run_job(  # noqa: PLR0917  what a run consists of
    title: str,
    job: Job,
    cluster: ClusterInfo,
    watcher: ProgressListener,
    spending: CostTracker,
    note: Callable[[Receipt], None] | None = None,
) -> None:
    """Ask one model, telling the watcher of rows, and the spending of what they cost.

    Raises:
        CostLimitReachedError: the run may cost no more; what was committed stays.
        ModelUnavailableError: as it says.
    """
    waiting = sum(unit.requests for unit in job.units)

    def on_receipt(receipt: Receipt) -> None:
        nonlocal waiting
        if note:
            note(receipt)
        rows, failed = count_statuses(receipt)
        waiting -= rows
        count_commit(job.model, receipt)
        count_waiting(job.model, waiting)
        watcher.advance(rows, failed)
        spending.note(job.model, job.spec, receipt.tokens)
        count_spent(job.model, spending.dollars.get(job.model, 0.0))
        spending.check(job.model, stopped=receipt.out_of_money)

    watcher.phase(title, waiting)
    spending.check(job.model, stopped=False)
    with log_context(run=job.lock, model=job.model):
        log.info("%s: %d requests in %d units", title, waiting, len(job.units))
        count_waiting(job.model, waiting)
        try:
            run_units(replace(job, spec=spending.limited(job.spec)), cluster, on_receipt)
        finally:
            count_waiting(job.model, 0)


class _Rows(Protocol):
    def advance(self, rows: int, failed: int) -> None: ...


class _Shared:
    """A watcher for threads: the phase is everybody's and was begun before, rows are told one after the other."""

    def __init__(self, watcher: _Rows) -> None:
        self._watcher, self._lock = watcher, threading.Lock()

    def phase(self, title: str, total: int) -> None:
        """Nothing."""

    def advance(self, rows: int, failed: int) -> None:
        """So many more rows are done."""
        with self._lock:
            self._watcher.advance(rows, failed)


def predict_concurrently(
    book: GpuScheduler,
    cluster: ClusterInfo,
    watcher: _Rows,
    board: StatusWriter,
    ask: Callable[[str, ClusterInfo, _Shared, Callable[[Receipt], None], Callable[[], bool]], None],
) -> None:
    """Ask all models of a book; returns when each has ended.

    Args:
        book: who begins when, on which share of the GPUs.
        cluster: what there is in all.
        watcher: is told of rows.
        board: is told of commits.
        ask: asks one model, given its name, its share of the cluster, a watcher, what to call with each receipt, and
            what tells whether it shall end.

    Raises:
        Exception: the first that `ask` raised; the other models are stopped at their next commit.
    """
    shared, gpus = _Shared(watcher), {work.name: work.gpus for work in book.works}

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        def note(receipt: Receipt) -> None:
            board.note(name, receipt)
            if stop.is_set():
                raise RunCancelledError(name)

        share = replace(cluster, gpus=float(replicas * gpus[name]), max_gpu_nodes=()) if gpus[name] else cluster
        ask(name, share, shared, note, stop.is_set)

    run_concurrently(book, run)

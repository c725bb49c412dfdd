"""Predict: captioners run first, then each model on all its benchmarks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from time import monotonic
from typing import Final

from cluster.connection import ClusterInfo
from cluster.errors import RunCancelledError
from cluster.lazy import LazyCluster
from cluster.placement import gpus_of_nodes
from cluster.scheduling.gpu_scheduler import GpuScheduler, can_run_concurrently, choose_schedule, run_concurrently
from cluster.threads import in_background
from models.spec import ModelSpec
from pipelines.errors import CostLimitReachedError, ModelUnavailableError
from pipelines.logging_context import log_context
from pipelines.plan.context import SweepContext
from pipelines.plan.cost_model import model_workload
from pipelines.plan.planner import load_completed, plan_model, repair_output
from pipelines.plan.records import ModelPlan
from pipelines.plan.units import UnitList, count_requests
from pipelines.predict.batches.runner import run_in_batches, warn_of_batches
from pipelines.predict.clip_sharing import NO_CLIPS, ClipSharing, clip_sharing
from pipelines.predict.concurrent_judges import ConcurrentJudges, IdleGpus
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.executor import run_in_process, run_units
from pipelines.predict.loader import UnitLoaderSpec
from pipelines.predict.metrics import count_commit, count_spent, count_waiting
from pipelines.predict.records import Job, KeptReplicas, Receipt, count_statuses
from pipelines.predict.status import StatusWriter
from pipelines.progress import ProgressListener, Rate

log = logging.getLogger(__name__)

_CAPTION: Final = "caption {}"


def caption(context: SweepContext, cluster: LazyCluster, costs: CostTracker) -> None:
    """Caption every picture without a caption; ModelUnavailableError if the captioner of a flag is unavailable.

    Captioners run as the models of `predict` do: concurrently where that pays.
    """
    models = context.spec.caption_models
    plans = {name: caption_plans(context, name) for name in models}
    repair_output(context.out, chain.from_iterable(plans.values()))
    ModelRuns(context, cluster, costs, _CAPTION, _pending_jobs(context, models, plans), plans).run()


def caption_plans(context: SweepContext, captioner: str) -> list[ModelPlan]:
    """Plan a captioner's pending requests, benchmark by benchmark."""
    spec = context.spec
    return [
        plan_model(
            context.plans.write(dataset, target.prompts, spec.selection),
            target,
            load_completed(context.out, target.prompts.benchmark_name, captioner, "captions"),
            replicas=spec.caption_models[captioner].replicas.max,
        )
        for target, dataset in context.caption_targets(captioner)
    ]


def predict(  # noqa: PLR0913  the parts of a sweep, which this room does not know
    context: SweepContext,
    cluster: LazyCluster,
    plans: Mapping[str, Sequence[ModelPlan]],
    status: StatusWriter,
    costs: CostTracker,
    *,
    kept: KeptReplicas | None = None,
    judges: ConcurrentJudges | None = None,
) -> dict[str, str]:
    """Run every model on all its benchmarks with the same replicas; return why models are unavailable, by name.

    Replicas stay loaded in `kept`, if given and only one model is asked, until the caller closes it. Where models run
    concurrently, `judges` judge those that have ended.
    On GPUs, models run concurrently if that is estimated to be faster. Models in batches run in parallel with the
    others, except with a cost limit: what one may spend depends on what the one before has left.
    """
    with nullcontext(kept.clips) if kept else clip_sharing(cluster, plans, context.spec.models) as clips:
        jobs = _pending_jobs(context, context.spec.models, plans, clips)
        if kept and len(jobs) == 1:
            jobs = {name: replace(job, kept=kept) for name, job in jobs.items()}
        elif kept and jobs:
            kept.close()
        return ModelRuns(context, cluster, costs, "predict {}", jobs, plans, status, judges=judges).run()


@dataclass(slots=True)
class ModelRuns:
    """The runs of the models of a sweep, or of its captioners or a round of its judges, which have no `status`."""

    context: SweepContext
    cluster: LazyCluster
    costs: CostTracker
    title: str  # with `{}` for the names of models
    jobs: Mapping[str, Job]
    plans: Mapping[str, Sequence[ModelPlan]]
    status: StatusWriter | None = None
    problems: dict[str, str] = field(default_factory=dict)  # why models are unavailable, by name
    tried: dict[str, float] = field(default_factory=dict)  # when models that share the cluster were first tried
    has_failed: Callable[[], bool] = lambda: False
    """Whether a model in batches has ended the run, so that the others stop."""
    judges: ConcurrentJudges | None = None  # those that judge models which have ended while others answer, on GPUs
    ended: set[str] = field(default_factory=set)

    def run(self) -> dict[str, str]:
        """Run all models, those in batches in parallel, as they mostly wait; return why some are unavailable."""
        jobs = self.jobs
        waiting = [name for name, job in jobs.items() if job.spec.batch and len(jobs) > 1 and self.costs.limit is None]
        shared = self._begin_shared(jobs) if waiting else None
        runs = {name: partial(self._run_model, name, self.cluster, shared) for name in waiting}
        with in_background(runs) as self.has_failed:
            self._run_together([name for name in jobs if name not in runs], shared)
        return self.problems

    def _begin_shared(self, jobs: Mapping[str, Job]) -> SharedProgress:
        total = sum(count_requests(job.units) for job in jobs.values())
        self.context.progress.phase(self.title.format(", ".join(jobs)), total)
        return SharedProgress(self.context.progress)

    def _run_together(self, names: Sequence[str], shared: SharedProgress | None) -> None:
        """Run models concurrently on GPUs where that is estimated to be faster, else one after another."""
        jobs = {name: self.jobs[name] for name in names}
        capacity = None
        if not all(_runs_in_driver(job, self.cluster) for job in jobs.values()):
            if not shared:
                self.context.progress.phase("start Ray" if self.cluster.is_embedded else "ask the cluster", 0)
            capacity = self.cluster.connect()
        nodes = (capacity.max_gpu_nodes or (gpus_of_nodes() if capacity.gpus else ())) if capacity else ()
        if capacity and can_run_concurrently(len(jobs), nodes, self.costs.limit):
            workloads = [model_workload(name, self.plans[name], job.spec) for name, job in jobs.items()]
            shared = shared or self._begin_shared(jobs)
            self._run_schedule(choose_schedule(workloads, nodes), capacity, shared)
        else:
            for name in jobs:
                self._run_model(name, self.cluster, shared, self.has_failed)

    def _run_schedule(self, scheduler: GpuScheduler, cluster: ClusterInfo, shared: SharedProgress) -> None:
        """Run all models of a schedule; the first exception is raised, and the others stop at their next commit."""
        gpus = {workload.name: workload.gpus for workload in scheduler.workloads}

        def run(name: str, replicas: int, stop: threading.Event) -> None:
            share = replace(
                cluster,
                gpus=float(replicas * gpus[name]),
                max_gpu_nodes=(),
                is_shared=True,
                node_sizes=scheduler.node_sizes_of(name),
            )
            at = share if gpus[name] else cluster
            self._run_model(name, at, shared, lambda: stop.is_set() or self.has_failed())

        def judge(idle: Sequence[tuple[int, int]], leave: threading.Event, stop: threading.Event) -> None:
            def is_stopped() -> bool:
                return stop.is_set() or self.has_failed()

            assert self.judges is not None
            gpus = IdleGpus(cluster=cluster, idle=idle, leave=leave, is_stopped=is_stopped)
            with shared.judges() as listener:
                self.judges.run(
                    self.jobs.keys() - self.ended,
                    gpus,
                    lambda title, job, at: run_job(title, job, at, listener(title), self.costs),
                )

        run_concurrently(scheduler, run, judge if self.judges else None)

    def _run_model(
        self,
        name: str,
        cluster: LazyCluster | ClusterInfo,
        shared: SharedProgress | None,
        is_stopped: Callable[[], bool],
    ) -> None:
        if self.status:
            self.status.begin(name)
        listener = shared.model(name) if shared else self.context.progress
        try:
            job = replace(self.jobs[name], is_stopped=is_stopped)
            if isinstance(cluster, ClusterInfo) and cluster.is_shared:
                job = replace(job, waits_since=self.tried.setdefault(name, monotonic()))
            on_commit = partial(self.status.record, name) if self.status else None
            run_job(self.title.format(name), job, cluster, listener, self.costs, on_commit=on_commit)
        except CostLimitReachedError:
            raise
        except ModelUnavailableError as error:
            if self.title == _CAPTION and not self.context.spec.own_captions:
                raise  # a model without its own captions is reported when it is to predict
            if self.title != _CAPTION and len(self.jobs) > 1:  # others go on; an only one's is that of the run's end
                log.error("%s", error)  # noqa: TRY400  the message is for people; the trace says nothing more
            self.problems[name] = str(error)
        finally:
            if self.status:
                self.status.end(name)
        self.ended.add(name)


def _pending_jobs(
    context: SweepContext,
    models: Mapping[str, ModelSpec],
    plans: Mapping[str, Sequence[ModelPlan]],
    clips: ClipSharing = NO_CLIPS,
) -> dict[str, Job]:
    jobs = {name: model_job(context, name, models[name], model_plans, clips) for name, model_plans in plans.items()}
    return {name: job for name, job in jobs.items() if job.units}


def _runs_in_driver(job: Job, cluster: LazyCluster | ClusterInfo) -> bool:
    return job.spec.batch or (cluster.is_embedded and job.spec.needs_no_isolation)


def model_job(
    context: SweepContext, name: str, model: ModelSpec, plans: Sequence[ModelPlan], clips: ClipSharing = NO_CLIPS
) -> Job:
    """Return the pending work of a model's plans as one job."""
    loader = UnitLoaderSpec(
        context=context.worker(),
        targets=tuple(plan.target for plan in plans),
        max_pixels=model.limits.max_pixels,
        max_frames=model.limits.max_frames,
        clip_folder=clips.folder,
        keeps_clips=model.limits.max_frames in clips.shared_limits,
    )
    units = UnitList(unit for plan in plans for unit in plan.units)
    return Job(
        model=name,
        spec=model,
        loader=loader,
        out=context.out.uri,
        units=units,
        lock_token=context.lock_token,
        wait_for_nodes_s=context.spec.wait_for_nodes_s,
    )


def run_job(
    title: str,
    job: Job,
    cluster: LazyCluster | ClusterInfo,
    progress: ProgressListener,
    costs: CostTracker,
    *,
    on_commit: Callable[[Receipt], None] | None = None,
) -> None:
    """Run one model's units on the cluster, or here if its engine needs no isolation; report rows and tokens.

    Raises:
        CostLimitReachedError: the run's limit is reached; committed rows stay.
        ModelUnavailableError: the model is unavailable.
    """
    waiting = count_requests(job.units)

    def on_receipt(receipt: Receipt) -> None:
        nonlocal waiting
        if on_commit:
            on_commit(receipt)
        rows, failed = count_statuses(receipt)
        waiting -= rows
        count_commit(job.model, receipt)
        count_waiting(job.model, waiting)
        progress.advance(rows, failed)
        costs.add(job.model, job.spec, receipt.tokens, receipt.device, reserved_dollars=receipt.reserved_dollars)
        costs.warn(job.model, receipt.warnings)
        count_spent(job.model, costs.dollars.get(job.model, 0.0))
        costs.check(job.model, is_refused=receipt.cost_limit_reached)
        if job.is_stopped() and not job.spec.batch:  # a batch that is cancelled commits what is answered
            raise RunCancelledError(job.model)

    progress.phase(title, waiting)
    costs.check(job.model, is_refused=False)
    if job.spec.is_endpoint and not job.spec.batch:
        warn_of_batches(job)
    with log_context(run=job.lock_token, model=job.model):
        log.info("%s: %d requests in %d units", title, waiting, len(job.units))
        count_waiting(job.model, waiting)
        try:
            job = replace(job, spec=costs.limited(job.spec))
            if job.spec.batch:
                run_in_batches(job, on_receipt, progress.note)
            elif _runs_in_driver(job, cluster):
                run_in_process(job, on_receipt, progress.note)
            else:
                capacity = cluster if isinstance(cluster, ClusterInfo) else cluster.connect()
                run_units(job, capacity, on_receipt, progress.note)
        finally:
            count_waiting(job.model, 0)


class SharedProgress:
    """A thread-safe progress listener of a phase that has begun; its note has a line for each unfinished model."""

    def __init__(self, progress: ProgressListener) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._models: dict[str, _ModelProgress] = {}

    def model(self, name: str) -> _ModelProgress:
        """Return the listener of one model."""
        return _ModelProgress(self, name)

    @contextmanager
    def judges(self) -> Iterator[Callable[[str], _ModelProgress]]:
        """Yield what returns the listener of a concurrent judge; its rows do not count in this phase."""
        listeners = dict[str, _ModelProgress]()
        try:
            yield lambda title: listeners.setdefault(title, _ModelProgress(self, title, is_counted=False))
        finally:
            with self._lock:
                for title in listeners:
                    self._models.pop(title, None)
                self._show_lines()

    def show(self, model: _ModelProgress, rows: int = 0, failed: int = 0) -> None:
        """Add rows, and show the lines of all models after one has changed."""
        with self._lock:
            if rows and model.is_counted:
                self._progress.advance(rows, failed)
            self._models[model.rate.title] = model
            self._show_lines()

    def _show_lines(self) -> None:
        unfinished = [entry for entry in self._models.values() if entry.rate.done < entry.rate.total]
        self._progress.note("\n".join(entry.text() for entry in unfinished))


class _ModelProgress:
    """The progress of one of several models."""

    def __init__(self, shared: SharedProgress, name: str, *, is_counted: bool = True) -> None:
        self._shared, self._waits_for, self.is_counted = shared, "", is_counted
        self.rate = Rate(name, 0)

    def phase(self, _title: str, total: int) -> None:
        if self.is_counted:
            self.rate = Rate(self.rate.title, total)
        else:  # a judge is asked a part of its questions at a time
            self.rate.total += total
        self._shared.show(self)

    def advance(self, rows: int, failed: int) -> None:
        self.rate.advance(rows, failed)
        self._shared.show(self, rows, failed)

    def note(self, text: str) -> None:
        self._waits_for = text
        self._shared.show(self)

    def text(self) -> str:
        """Return the line of the model."""
        return "; ".join(filter(None, (f"{self.rate.title}: {self.rate.text()}", self._waits_for)))

"""Judge finished models while others still answer, on GPUs that no model needs."""

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError, RunCancelledError
from cluster.scheduling.gpu_scheduler import ModelWorkload
from models.errors import ModelError
from models.spec import ModelSpec
from pipelines.errors import FencedError, InternalError, LockedError, PipelineError
from pipelines.plan.cost_model import model_workload
from pipelines.plan.records import ModelPlan
from pipelines.predict.records import Job, KeptReplicas

log = logging.getLogger(__name__)

RunJobs: TypeAlias = Callable[[str, Mapping[str, Job], Mapping[str, Sequence[ModelPlan]]], Mapping[str, str]]
"""Run the jobs of judges, with a title whose `{}` is for their names; return why some are unavailable, by name."""
JudgeEnded: TypeAlias = Callable[[Collection[str], Callable[[ModelSpec], bool], RunJobs], None]
"""Ask the judges that can run about all models but the unfinished ones."""
RunJob: TypeAlias = Callable[[str, Job, ClusterInfo], None]
"""Run the units of one judge, with its title and its share of the cluster."""

_LATER = "it is asked when all models have ended"
SLICE_UNITS = 16
"""Units of a judge that are asked at a time, for each replica: when the models end, it ends after these."""
CAPACITY_WAIT_S = 60.0  # for a replica's node, if none is on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGpus:
    """GPUs that no model of a schedule needs for now."""

    cluster: ClusterInfo
    idle: Sequence[tuple[int, int]]  # GPUs and free ones of each node that has some
    leave: threading.Event  # a model waits for them, or none runs any more
    is_stopped: Callable[[], bool]  # whether the sweep ends early

    def share(self, spec: ModelSpec) -> ClusterInfo | None:
        """Return what a judge may use now; None in batches, and with a limit of dollars, which each job has anew."""
        if self.leave.is_set() or spec.batch or spec.cost_limit:
            return None
        if not spec.needs_gpu(has_gpus=self.cluster.has_gpus):
            return self.cluster
        gpus = math.ceil(spec.replica_gpus)
        replicas = sum(free // gpus for _, free in self.idle)
        sizes = tuple(sorted({size for size, free in self.idle if free >= gpus}))
        shared = replace(self.cluster, gpus=float(replicas * gpus), max_gpu_nodes=(), is_shared=True, node_sizes=sizes)
        return shared if replicas else None

    def pays(self, work: ModelWorkload) -> bool:
        """Return whether to load a judge now: where nodes come for it, only if it computes for as long as it loads."""
        return not work.gpus or not self.cluster.max_gpu_nodes or work.seconds >= work.load_s


@dataclass(slots=True)
class ConcurrentJudges:
    """The judges of a sweep, run while models answer: one after another, each with all idle GPUs."""

    judge_ended: JudgeEnded
    is_off: bool = False  # an error has ended it: the rest is asked when all models have ended

    def run(self, unfinished: Collection[str], gpus: IdleGpus, run_job: RunJob) -> None:
        """Judge the models that have ended, until all is judged, a model needs the GPUs, or none runs any more.

        Raises:
            InternalError: the code has a bug.
            LockedError, FencedError: another run has the output.
            RunCancelledError: the sweep ends early.
        """
        if self.is_off:
            return

        def run_jobs(
            title: str, jobs: Mapping[str, Job], plans: Mapping[str, Sequence[ModelPlan]]
        ) -> Mapping[str, str]:
            return {name: _LATER for name, job in jobs.items() if not _ask(title, job, plans[name], gpus, run_job)}

        try:
            self.judge_ended(unfinished, lambda spec: gpus.share(spec) is not None, run_jobs)
        except RunCancelledError:
            if gpus.is_stopped():
                raise
        except (FencedError, InternalError, LockedError):
            raise
        except (ClusterError, ModelError, PipelineError) as error:
            # What is asked ahead ends no sweep that goes on; an error that stays is met once more after all models.
            self.is_off = True
            log.warning("judging is postponed until all models have finished: %s", error)


def _ask(title: str, job: Job, plans: Sequence[ModelPlan], gpus: IdleGpus, run_job: RunJob) -> bool:
    """Ask one judge, and return True, if that pays; raise RunCancelledError where it is to leave."""
    share = gpus.share(job.spec)
    if share is None or not gpus.pays(model_workload(job.model, plans, job.spec)):
        return False
    size = SLICE_UNITS * (min(_replicas(job.spec, share), job.spec.replicas.max))
    with closing(KeptReplicas()) as kept:
        for start in range(0, len(job.units), size):
            if gpus.leave.is_set() or gpus.is_stopped():
                raise RunCancelledError(job.model)
            part = replace(job, units=job.units[start : start + size], kept=kept, is_stopped=gpus.is_stopped)
            run_job(title.format(job.model), replace(part, wait_for_nodes_s=CAPACITY_WAIT_S), share)
    return True


def _replicas(spec: ModelSpec, share: ClusterInfo) -> int:
    if not spec.needs_gpu(has_gpus=share.has_gpus):
        return spec.replicas.max
    return int(share.gpus) * spec.replicas_per_gpu // spec.tensor_parallel

"""One sweep of an output: opened, checked, locked, its revisions resolved, and cleaned up."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cluster.lazy import LazyCluster, open_cluster
from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Datasets
from pipelines.ingest.human_files import check_human
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import RunManifest, load_run, record_work
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.plan.selection import selected_groups
from pipelines.predict.cost_tracker import CostTracker
from pipelines.progress import ProgressListener
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import owns_lock, run_lock
from pipelines.storage.store import Store
from pipelines.sweep.revisions import pin_revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep whose output this process has locked."""

    context: SweepContext
    stages: frozenset[Stage]
    earlier: RunManifest  # `run.json` as earlier runs left it
    warnings: tuple[str, ...]  # revisions that could not be resolved, a sentence each
    cluster: LazyCluster
    costs: CostTracker

    def record_work(self, run: RunManifest) -> None:
        """Add to `run.json` what this run cost, if anything and while it holds the output."""
        if self.costs.tokens and owns_lock(self.context.out, self.context.lock_token):
            record_work(self.context.out, run, self.costs.record(), self.costs.warnings)


@contextlib.contextmanager
def open_sweep(
    spec: RunSpec,
    stages: Collection[Stage] = tuple(Stage),
    *,
    benchmarks: Collection[str] | None = None,
    progress: ProgressListener | None = None,
) -> Iterator[Sweep]:
    """Open the output of a sweep for some stages, whose checkpoints get the commits that the output was begun with.

    `benchmarks` are those whose data must be there; None for all of the spec.

    Raises:
        DatasetError, StoreError, ClusterError: data, output or cluster are unavailable.
        LockedError: another run writes the same output.
        UsageError: a row of a human file cannot be used.
        UnknownRevisionError: the hub does not know a model or its revision.
    """
    out, datasets = Store(spec.out), Datasets()
    if not is_remote(out.uri):  # the lock of an object store is written anyway
        out.check_writable()
    for name in spec.benchmarks if benchmarks is None else benchmarks:
        if selected_groups(benchmark(name), spec.tasks, spec.settings):
            datasets.open(spec.data, name)
    check_human(spec.human, Store(spec.data))
    with run_lock(out) as lock_token, _without_temporary_files(out):
        earlier = load_run(out)
        pinned = pin_revisions(spec, earlier, stages)
        context = SweepContext.open(pinned.spec, datasets=datasets, lock_token=lock_token, progress=progress)
        with open_cluster(spec.address) as cluster:
            yield Sweep(
                context=context,
                stages=frozenset(stages),
                earlier=earlier,
                warnings=pinned.warnings,
                cluster=cluster,
                costs=CostTracker(spec.cost_limit),
            )


@contextlib.contextmanager
def _without_temporary_files(out: Store) -> Iterator[None]:
    """Delete unfinished files of killed writers, before and after the run."""
    out.remove_temporary()
    try:
        yield
    finally:
        out.remove_temporary()

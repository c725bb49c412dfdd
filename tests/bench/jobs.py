"""A model's units run on an embedded Ray, with what each replica did when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cluster.connection import ClusterInfo, connect
from models.spec import ModelSpec
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.predict import executor
from pipelines.predict.loader import UnitLoaderSpec
from pipelines.predict.records import Job, Receipt

__all__ = ["busy_shares", "run_units"]


def run_units(data: Path, out: Path, model: ModelSpec, settings: tuple[str, ...], *, cpus: float = 0) -> list[Receipt]:
    """Predict MAIA with one model; return the receipts of all units in the order of their commits.

    Args:
        data: ingested.
        out: an empty folder.
        model: who answers.
        settings: of MAIA.
        cpus: how many cores the run shall believe in; 0 for those that are there.
    """
    spec = RunSpec(data=str(data), out=str(out), models={"bench": model}, benchmarks=("maia",), settings=settings)
    context = SweepContext.open(spec)
    (plan,) = plan_sweep(context)["bench"]
    loader = UnitLoaderSpec(
        context=context.worker(),
        targets=(plan.target,),
        max_pixels=model.limits.max_pixels,
        max_frames=model.limits.max_frames,
    )
    job = Job(model="bench", spec=model, loader=loader, out=spec.out, units=plan.units)
    receipts: list[Receipt] = []
    with connect(None) as cluster:
        executor.run_units(job, ClusterInfo("", cpus or cluster.cpus, cluster.gpus), receipts.append)
    return receipts


def busy_shares(receipts: Sequence[Receipt]) -> dict[str, float]:
    """Return each replica's busy share of the time from first to last unit, without the first unit.

    The first unit holds what happens once in a process: kernels are chosen, libraries loaded.
    """
    shares = {}
    for replica in {receipt.replica for receipt in receipts}:
        receipts_of_replica = sorted(
            (receipt for receipt in receipts if receipt.replica == replica), key=lambda receipt: receipt.began
        )
        if len(receipts_of_replica) > 2:
            span = receipts_of_replica[-1].ended - receipts_of_replica[0].ended
            shares[replica] = sum(item.ended - item.began for item in receipts_of_replica[1:]) / span
    return shares

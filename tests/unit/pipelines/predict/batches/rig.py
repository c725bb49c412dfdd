"""A job of one model behind an endpoint with batches, and what it leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from models.spec import ModelSpec
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep, repair_output
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.batches.runner import run_in_batches
from pipelines.predict.records import Job, Receipt
from pipelines.predict.stage import model_job
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store
from tests.support.endpoint import BatchEndpoint
from tests.unit.models.engines.endpoints.rig import PATHS

REQUESTS = 4 * 8
"""Of the job that `job_of` returns without more arguments."""


def entry(endpoint: BatchEndpoint, **fields: Any) -> ModelSpec:
    """Return the entry of a model at an endpoint, with more fields."""
    address = endpoint.address + PATHS[endpoint.engine]
    plain = {"engine": endpoint.engine, "model": "m-1", "base_url": address, "batch": True, "batch_poll_s": 0.01}
    return ModelSpec.model_validate({**plain, **fields})


def job_of(
    data: str, out: Path, endpoint: BatchEndpoint, *, samples: int = 4, setting: str = "1-frame", **fields: Any
) -> Job:
    """Return the pending work of a model `m` on MAIA, with fields of its entry."""
    spec = entry(endpoint, **fields)
    run = RunSpec(
        data=data, out=str(out), models={"m": spec}, benchmarks=("maia",), tasks=("vsv",), settings=(setting,),
        limit=str(samples),
    )  # fmt: skip
    context = SweepContext.open(run)
    plans = plan_sweep(context)["m"]
    repair_output(context.out, plans)
    job = model_job(context, "m", spec, plans)
    return Job(model=job.model, spec=spec, loader=job.loader, out=job.out, units=job.units)


def run(job: Job) -> list[Receipt]:
    """Run a job; return its receipts."""
    receipts = list[Receipt]()
    run_in_batches(job, receipts.append, lambda _: None)
    return receipts


def rows(out: Path) -> list[dict[str, Any]]:
    """Return all predictions of the model."""
    parts = iter_parts(Store(str(out)), part_folder("predictions", "maia", "m"))
    return [row for _, table in parts for row in table.to_pylist()]


def records(out: Path) -> list[Path]:
    """Return the files that batches leave in the output."""
    return sorted(path for path in (out / "batches").rglob("*") if path.is_file())


def check_complete(out: Path, endpoint: BatchEndpoint) -> None:
    """Check that each request has one answered row and was billed once, and that nothing of the batches is left."""
    committed = rows(out)
    assert Counter(row["status"] for row in committed) == {"ok": REQUESTS}
    assert len({row["request_id"] for row in committed}) == REQUESTS
    assert len(endpoint.batches.billed) == REQUESTS
    assert set(endpoint.batches.billed.values()) == {1}
    assert records(out) == []

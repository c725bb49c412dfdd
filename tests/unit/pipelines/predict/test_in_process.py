"""Jobs of the guessing model and of endpoints run in the driver, with the rows that a cluster would give."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.lazy import open_cluster
from models.engines import build_engine
from models.engines.base import Engine
from models.entry_fields import Replicas
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError, StoreError
from pipelines.plan.context import SweepContext
from pipelines.plan.planner import plan_sweep
from pipelines.plan.run_spec import RunSpec
from pipelines.predict import unit_pipeline, unit_runner
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.executor import run_in_process
from pipelines.predict.records import AnsweredUnit, Job, Receipt
from pipelines.predict.stage import model_job, predict
from pipelines.predict.status import StatusWriter
from pipelines.predict.unit_pipeline import Committer, UnitPipeline
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store
from tests.support.endpoint import ScriptedEndpoint, always

GUESSING = ModelSpec(engine="random")


def run_spec(data: str, out: Path, spec: ModelSpec = GUESSING) -> RunSpec:
    return RunSpec(data=data, out=str(out), models={"m": spec}, benchmarks=("maia",), limit="4")


def job_of(data: str, out: Path, spec: ModelSpec = GUESSING) -> Job:
    context = SweepContext.open(run_spec(data, out, spec))
    return model_job(context, "m", spec, plan_sweep(context)["m"])


def test_each_request_is_committed_once_and_reported(maia_data: str, tmp_path: Path) -> None:
    job, receipts = job_of(maia_data, tmp_path), list[Receipt]()
    run_in_process(job, receipts.append)
    out = Store(str(tmp_path))
    ids = [
        request_id
        for _, rows in iter_parts(out, part_folder("predictions", "maia", "m"), ["request_id"])
        for request_id in rows["request_id"].to_pylist()
    ]
    planned = sum(unit.requests for unit in job.units)
    assert len(ids) == len(set(ids)) == planned == sum(sum(receipt.counts.values()) for receipt in receipts)


def test_answered_rows_are_noted_at_once(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_runner, "REPORT_EVERY_S", -1.0)
    job, notes = job_of(maia_data, tmp_path), list[str]()
    run_in_process(job, lambda _: notes.append("stored"), notes.append)
    count = job.units[0].requests
    expected = [f"{rows} rows answered of units that are not stored yet" for rows in range(1, count + 1)]
    assert notes[: count + 2] == [*expected, "stored", ""]


def test_device_is_in_the_rows_the_receipt_and_the_runs_record(maia_data: str, tmp_path: Path) -> None:
    job, costs = job_of(maia_data, tmp_path), CostTracker()
    for unit in job.units:
        receipt = UnitPipeline(job.work, "r", device="H100").run(unit)
        costs.add("m", job.spec, receipt.tokens, receipt.device)
    rows = [row for _, rows in iter_parts(Store(str(tmp_path)), part_folder("predictions", "maia", "m"), ["device"])
            for row in rows["device"].to_pylist()]  # fmt: skip
    assert set(rows) == {"H100"}
    assert costs.record().models["m"].devices == ("H100",)
    assert PREDICTIONS.names.index("device") > PREDICTIONS.names.index("repairs")


def test_predict_starts_no_cluster_for_guesses(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.lazy.connect", lambda address: pytest.fail(f"Ray was started ({address})"))
    context = SweepContext.open(run_spec(maia_data, tmp_path))
    plans = plan_sweep(context)
    with open_cluster(None) as cluster:
        predict(context, cluster, plans, StatusWriter(context.out, plans), CostTracker(None))


def test_endpoint_is_asked_here_and_its_connections_are_closed(maia_data: str, tmp_path: Path) -> None:
    with ScriptedEndpoint(always("A")) as endpoint:
        spec = ModelSpec(engine="openai", model="m", base_url=endpoint.base_url)
        job, receipts = job_of(maia_data, tmp_path, spec), list[Receipt]()
        run_in_process(job, receipts.append)
        planned = sum(unit.requests for unit in job.units)
        assert len(endpoint.requests) == planned == sum(sum(receipt.counts.values()) for receipt in receipts)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("endpoint of")]


def test_each_replica_of_an_endpoint_has_connections_of_its_own(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = list[object]()

    def build(name: str, spec: ModelSpec, **options: Any) -> Engine:
        engines.append(build_engine(name, spec, **options))
        return engines[-1]  # type: ignore[return-value]

    monkeypatch.setattr(unit_pipeline, "build_engine", build)
    with ScriptedEndpoint(always("A")) as endpoint:
        spec = ModelSpec(engine="openai", model="m", base_url=endpoint.base_url, replicas=Replicas(max=3))
        job, receipts = job_of(maia_data, tmp_path, spec), list[Receipt]()
        run_in_process(job, receipts.append)
        assert 1 < len(engines) <= 3
        planned = sum(unit.requests for unit in job.units)
        assert len(endpoint.requests) == planned == sum(sum(receipt.counts.values()) for receipt in receipts)


def test_endpoint_that_is_away_is_no_model(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(ModelUnavailableError, match=r"model 'm': .*127\.0\.0\.1:9"):
        run_in_process(job_of(maia_data, tmp_path, spec), lambda _: None)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    keyed = spec.model_copy(update={"api_key_env": "NO_SUCH_KEY"})
    with pytest.raises(ModelUnavailableError, match="NO_SUCH_KEY"):
        run_in_process(job_of(maia_data, tmp_path, keyed), lambda _: None)


def test_refusing_store_ends_the_job(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(committer: Committer, answered: AnsweredUnit, *, counted: int) -> Receipt:
        raise StoreError(f"{answered.unit.part}: access denied")

    monkeypatch.setattr(Committer, "commit", refuse)
    monkeypatch.setattr("pipelines.storage.errors.RETRY_PAUSES_S", (0.0,))
    with pytest.raises(StoreError, match="access denied"):
        run_in_process(job_of(maia_data, tmp_path), lambda _: None)

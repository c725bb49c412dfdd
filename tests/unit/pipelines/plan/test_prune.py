"""Obsolete plan files are deleted by the owner of the lock, when no reader can still need them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.spec import ModelSpec
from pipelines.errors import FencedError
from pipelines.ingest.dataset import Dataset
from pipelines.plan import context
from pipelines.plan.context import GRACE, OBSOLETE, SweepContext, prune_plans
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_sweep
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import SampleSelection
from pipelines.schemas import PREDICTIONS
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.record import record_sweep
from pipelines.sweep.status import status_rows

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The current time of runs: the last item."""
    times = [START]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            del tz
            return times[-1]

    monkeypatch.setattr(context, "datetime", Clock)
    return times


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    models = {"a": ModelSpec(engine="random")}
    return RunSpec(data=maia_data, out=str(tmp_path / "out"), models=models, benchmarks=("maia",))


@pytest.fixture
def reworded(spec: RunSpec) -> RunSpec:
    return replace(spec, prompts={"maia": {"vsv-it-v1": "Quale? {a} {b}"}})


def sweep(spec: RunSpec) -> SweepContext:
    """Plan and record a sweep as a run does."""
    with run_lock(Store(spec.out)) as lock_token:
        context = SweepContext.open(spec, lock_token=lock_token)
        prune_plans(context, record_sweep(context, load_run(context.out), plan_sweep(context))[0].entries)
    return context


def files(spec: RunSpec) -> set[str]:
    return {info.path for info in Store(spec.out).list("plan") if info.path != OBSOLETE}


def indices(paths: set[str]) -> int:
    return sum(path.endswith(".json") for path in paths)


def test_replaced_plan_is_deleted_after_an_hour(spec: RunSpec, clock: list[datetime], reworded: RunSpec) -> None:
    sweep(spec)
    old = files(spec)
    sweep(reworded)
    new = files(spec) - old
    assert indices(old) == indices(new) == 1
    clock.append(START + GRACE)
    sweep(reworded)
    assert files(spec) == old | new
    clock.append(START + 2 * GRACE)
    sweep(reworded)
    assert files(spec) == new
    assert json.loads(Store(spec.out).get(OBSOLETE)) == {}


def test_part_that_a_current_plan_shares_with_an_obsolete_one_stays(spec: RunSpec, clock: list[datetime]) -> None:
    sweep(spec)
    old = files(spec)
    for hours in (0, 2):
        clock.append(START + hours * GRACE)
        sweep(replace(spec, captioners=(("eye", ModelSpec(engine="random")),)))  # MAIA's prompts hold no captions
    assert {path for path in old if path in files(spec)} == {path for path in old if path.endswith(".parquet")}
    assert indices(files(spec)) == 1


def test_plan_that_is_needed_again_waits_anew(spec: RunSpec, clock: list[datetime], reworded: RunSpec) -> None:
    sweep(spec)
    sweep(reworded)
    every = files(spec)
    for hours, current in ((2, spec), (4, reworded)):
        clock.append(START + hours * GRACE)
        sweep(current)
    marks = json.loads(Store(spec.out).get(OBSOLETE))
    assert {*marks.values()} == {clock[-1].isoformat()}
    assert files(spec) == every


def test_plans_of_all_entries_stay(spec: RunSpec, clock: list[datetime]) -> None:
    """Another model, other samples of another task, and data that is absent today leave the plans in use."""
    sweep(replace(spec, tasks=("vsv",), limit="2"))
    sweep(replace(spec, tasks=("oevqa",), limit="1"))
    sweep(replace(spec, tasks=("oevqa",), models={"b": ModelSpec(engine="random", seed=1)}, limit="3"))
    before = files(spec)
    assert indices(before) == 3
    clock.append(START + 2 * GRACE)
    sweep(replace(spec, tasks=("oevqa",), models={"b": ModelSpec(engine="random", seed=1)}, limit="3"))
    assert files(spec) == before
    assert {group["model"] for group in status_rows(spec.out)[1]} == {"a", "b"}


def test_plan_with_older_captions_is_obsolete(spec: RunSpec, clock: list[datetime]) -> None:
    spec = replace(spec, captioners=(("eye", ModelSpec(engine="random")),))
    context = sweep(spec)
    before = files(spec)
    ((target, _),) = context.model_targets("a")
    row = {
        "request_id": "r", "variant": "p", "prompt_version": target.prompts.captioner, "status": "ok",
        "output": "a dog",
    }  # fmt: skip
    context.out.put(
        "captions/benchmark=maia/model=eye/37a680133bd09342f934afb8.parquet", to_parquet([row], PREDICTIONS)
    )
    sweep(spec)
    assert indices(files(spec) - before) == 1
    clock.append(START + 2 * GRACE)
    sweep(spec)
    assert indices(files(spec) & before) == 0


def test_run_without_the_lock_deletes_nothing(spec: RunSpec, clock: list[datetime]) -> None:
    sweep(spec)
    context = SweepContext.open(replace(spec, seed=7))
    run, _ = record_sweep(context, load_run(context.out), plan_sweep(context))
    before = files(spec)
    clock.append(START + 2 * GRACE)
    with pytest.raises(FencedError):
        prune_plans(replace(context, lock_token="lost"), run.entries)
    assert files(spec) == before


def test_plan_opened_by_a_run_stays(spec: RunSpec, clock: list[datetime], target: ModelTarget, maia_data: str) -> None:
    context = sweep(spec)
    dataset = Dataset.open(Store(maia_data), "maia")
    selection = SampleSelection(sample_ids=(next(iter(dataset.samples())).sample_id,))
    plan = context.plans.write(dataset, target.prompts, selection)
    with run_lock(context.out) as lock_token:
        context = replace(context, lock_token=lock_token)
        prune_plans(context, [])
        clock.append(START + 2 * GRACE)
        prune_plans(context, [])
    assert len(list(plan)) > 0
    assert {part.path for part in plan.parts} <= files(spec)


def test_unreadable_marks_only_delay_the_deletion(spec: RunSpec, clock: list[datetime], reworded: RunSpec) -> None:
    sweep(spec)
    sweep(reworded)
    before = files(spec)
    Store(spec.out).put(OBSOLETE, b'{"plan')
    clock.append(START + 2 * GRACE)
    sweep(reworded)
    assert files(spec) == before


def test_plans_of_a_benchmark_that_is_not_installed_stay(spec: RunSpec, clock: list[datetime]) -> None:
    context = sweep(spec)
    other = "plan/benchmark=other/plan-1.json"
    context.out.put(other, b"{}")
    for hours in (2, 4):
        clock.append(START + hours * GRACE)
        sweep(spec)
    assert context.out.exists(other)


def test_reader_opens_a_deleted_plan(
    spec: RunSpec, clock: list[datetime], target: ModelTarget, maia_data: str, reworded: RunSpec
) -> None:
    sweep(spec)
    for hours in (0, 2):
        clock.append(START + hours * GRACE)
        sweep(reworded)
    with PlanStore.reading(Store(spec.out)) as plans:
        assert (
            len(list(plans.open(Dataset.open(Store(maia_data), "maia"), target.prompts).iter_columns())) == 3 * 216 * 2
        )

"""Plans are written once and opened by their inputs."""

import errno
import gc
import os
import random
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.spec import ModelSpec
from pipelines.errors import StoreError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import IdSet, PlanStore, plan_key
from pipelines.plan.planner import plan_sweep
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import Limit, SampleSelection
from pipelines.plan.units import MediaGroupSlice, UnitFile, UnitList, WorkUnit, count_requests
from pipelines.storage.store import Store

ALL = SampleSelection()


@pytest.fixture
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


@pytest.fixture
def out(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "out"))


def files(out: Store) -> dict[str, bytes]:
    return {info.path: out.get(info.path) for info in out.list("plan")}


def test_one_plan_serves_all_models(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("abc")}
    calls = []
    plan_rows = PromptPlan.rows
    monkeypatch.setattr(PromptPlan, "rows", lambda *args: calls.append(1) or plan_rows(*args))
    spec = RunSpec(data=maia_data, out=out.uri, models=models, benchmarks=("maia",))
    works = plan_sweep(SweepContext.open(spec))
    assert {work.total for (work,) in works.values()} == {3 * 216 * 2}
    assert len(calls) == 48
    assert sum(path.endswith(".json") for path in files(out)) == 1


@pytest.mark.parametrize("damage", ["missing part", "damaged part", "damaged index"])
def test_incomplete_plan_is_written_again(out: Store, dataset: Dataset, target: ModelTarget, damage: str) -> None:
    PlanStore(out).write(dataset, target.prompts)
    before = files(out)
    path = next(path for path in before if path.endswith(".json" if damage == "damaged index" else ".parquet"))
    if damage == "missing part":
        out.delete(path)
    else:
        out.put(path, before[path][:-20])
    write = PlanStore(out).write if damage == "damaged part" else PlanStore(out).open
    write(dataset, target.prompts)
    assert files(out) == before


def test_plan_is_written_once_and_opened_without_building_its_prompts(
    out: Store, dataset: Dataset, target: ModelTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PlanStore.reading(out) as plans:
        assert len(list(plans.open(dataset, target.prompts).iter_columns())) == 3 * 216 * 2
    assert files(out) == {}
    plan = PlanStore(out).write(dataset, target.prompts)
    assert list(plan) == [row for sample in dataset.samples() for row in target.prompts.rows(sample)]
    assert plan.samples == dataset.manifest.samples
    written = PlanStore(out).write(dataset, target.prompts)
    monkeypatch.setattr(PromptPlan, "rows", lambda *_: pytest.fail("built again"))
    other_model = replace(target, model="n", fingerprint={"x": 1}, generation={"max_new_tokens": 3})
    assert PlanStore(out).open(dataset, other_model.prompts).parts == written.parts


def test_plan_key_depends_on_all_that_decides_the_prompts(target: ModelTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    captioned = target.with_prompts(captioner="eye@1")
    keys = {
        plan_key(target.prompts, ALL, {}),
        plan_key(target.with_prompts(seed=7).prompts, ALL, {}),
        plan_key(target.with_prompts(dataset_fingerprint="g").prompts, ALL, {}),
        plan_key(target.with_prompts(wording={"vsv-it-v1": "{a} {b}"}).prompts, ALL, {}),
        plan_key(target.with_prompts(task_settings=target.prompts.task_settings[:1]).prompts, ALL, {}),
        plan_key(target.prompts, SampleSelection(Limit.parse("2")), {}),
        plan_key(target.prompts, SampleSelection(sample_ids=("a",)), {}),
        plan_key(captioned.prompts, ALL, {}),
        plan_key(captioned.prompts, ALL, {"p": "a dog"}),
    }
    assert len(keys) == 9
    assert plan_key(replace(target, model="n", generation={"seed": 1}).prompts, ALL, {}) in keys
    changed = replace(target.prompts.benchmark, version="other")
    monkeypatch.setattr("pipelines.plan.prompt_plan.benchmark", lambda _: changed)
    assert plan_key(target.prompts, ALL, {}) not in keys


ids = st.lists(st.integers(0, 40).map(lambda number: f"{number << 100:032x}"), max_size=30)


@given(held=ids, others=ids)
def test_set_holds_what_a_python_set_holds(held: list[str], others: list[str]) -> None:
    digests = IdSet(held)
    assert len(digests) == len(set(held))
    assert digests.contains(others).tolist() == [name in set(held) for name in others]
    assert digests.repeated == {name for name in held if held.count(name) > 1}
    assert digests == IdSet(reversed(held))


@given(held=ids, others=ids)
def test_add_tells_which_ids_are_new(held: list[str], others: list[str]) -> None:
    digests, seen = IdSet(held), set(held)
    expected = []
    for name in others:
        expected.append(name not in seen)
        seen.add(name)
    assert digests.add(others).tolist() == expected
    assert digests == IdSet(seen)


def test_set_finds_its_ids_alone() -> None:
    whole = IdSet(["ab" + "0" * 30])
    assert "ab" + "0" * 30 in whole
    assert "ab" + "0" * 29 + "1" not in whole
    assert "0" * 32 not in whole
    with pytest.raises(ValueError, match="hexadecimal"):
        IdSet(["not an id"])
    draw = random.Random(0)
    names = [f"{draw.getrandbits(128):032x}" for _ in range(20_000)]
    digests = IdSet(names[::2])
    assert digests.contains(names).tolist() == [True, False] * 10_000


def unit(number: int, rows: tuple[int, ...] = (3, 4, 5, 9, 1), retried: tuple[str, ...] = ()) -> WorkUnit:
    slices = (MediaGroupSlice("plan/part", f"video:{number}:1", rows), MediaGroupSlice("plan/part", "è", (number,)))
    return WorkUnit(
        benchmark="maia", part=f"p{number}", slices=slices, requests=len(rows) + 1, media_bytes=7, retried=retried
    )


def test_lists_give_back_their_units_in_order_and_may_share_a_file() -> None:
    units = [unit(number, tuple(range(number)), ("a",) * (number % 2)) for number in range(40)]
    listed = UnitList(units)
    assert [*listed] == units
    assert (listed[7], listed[-1], listed[3:5]) == (units[7], units[-1], units[3:5])
    assert count_requests(listed) == count_requests(units) == listed.requests
    assert not UnitList()
    file = UnitFile()
    first, second = UnitList(file=file), UnitList(file=file)
    for number in range(10):
        first.extend([unit(2 * number)])
        second.extend([unit(2 * number + 1), unit(100)])
    assert [entry.part for entry in first] == [f"p{2 * number}" for number in range(10)]
    assert [entry.part for entry in second[::2]] == [f"p{2 * number + 1}" for number in range(10)]


def test_threads_read_and_write_one_file() -> None:
    file, lists = UnitFile(), []

    def fill(start: int) -> None:
        units = UnitList(file=file)
        for number in range(start, start + 200):
            units.extend([unit(number)])
        lists.append([*units] == [unit(number) for number in range(start, start + 200)])

    threads = [threading.Thread(target=fill, args=(1000 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lists == [True] * 4


def test_file_has_no_name_and_is_closed_with_its_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def open_files() -> list[Path]:
        targets = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
        return [target for target in targets if target.is_relative_to(tmp_path)]

    units = UnitList([unit(1)])
    assert len(open_files()) == 1
    assert [*tmp_path.iterdir()] == []
    del units
    gc.collect()
    assert open_files() == []


def test_full_temporary_folder_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError, match=r"temporary folder /.*: the disk is full .* free some space"):
        UnitList([unit(1)])

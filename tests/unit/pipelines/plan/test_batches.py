from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.plan.batches import (
    MAX_BATCH_UNITS,
    SMALL_BATCH_BYTES,
    SMALL_BATCHES_PER_REPLICA,
    ExclusiveGroups,
    batch_units,
)
from pipelines.plan.requests import ModelTarget
from pipelines.plan.units import (
    MAX_LIGHT_UNIT_REQUESTS,
    MAX_UNIT_REQUESTS,
    MIN_UNIT_REQUESTS,
    PACK_BYTES,
    PACK_REQUESTS,
    MediaGroupSlice,
    SampleRequests,
    UnitMaker,
    WorkUnit,
)
from tests.support.requests import target_of


def target(engine: str) -> ModelTarget:
    return target_of(
        benchmark_name="maia", dataset_fingerprint="", model="m", fingerprint={"engine": engine},
        task_settings=(), seed=1,
    )  # fmt: skip


def cut(
    groups: Sequence[int], replicas: int, per_sample: int = 1, group_bytes: int = 0, engine: str = "vllm"
) -> list[WorkUnit]:
    """Return units of groups with so many samples and bytes of pixels each, all in one part of the plan."""
    pool = {}
    row = 0
    for index, samples in enumerate(groups):
        members = pool["part", f"video:{index}"] = []
        for n in range(samples):
            ids = [f"{index:08x}{n:020x}{k:04x}" for k in range(per_sample)]
            members.append(SampleRequests(f"{index}/{n}", list(range(row, row + per_sample)), ids))
            row += per_sample
    sizes = dict.fromkeys(pool, group_bytes)
    maker = UnitMaker(target(engine), replicas, expected=sum(groups), samples=sum(groups), sizes=sizes)
    return list(maker.units(pool))


def groups_of(units: Sequence[WorkUnit]) -> set[str]:
    return {media_slice.group for unit in units for media_slice in unit.slices}


def test_large_group_uses_all_replicas_in_one_batch_where_balance_allows() -> None:
    for replicas in (1, 2, 8, 64):
        batches = batch_units(cut([10_000], replicas), replicas)
        assert len(batches) >= replicas
        sizes = [sum(unit.requests for unit in batch) for batch in batches]
        assert sum(sizes) == 10_000
        assert max(sizes) <= 1.1 * 10_000 / replicas
        assert max(unit.requests for batch in batches for unit in batch) <= MAX_UNIT_REQUESTS
    units = cut([2000, *[216] * 200], 4, group_bytes=PACK_BYTES)
    batches = batch_units(units, 4)
    large = [batch for batch in batches if batch[0].slices[0].group == "video:0"]
    assert len(large) == 1
    assert len(large[0]) == 8
    assert batches[0] == large[0], "the largest goes first, so that smaller work fills the gaps at the end"
    assert len(groups_of(units)) == 201
    limit = 45_200 / 4 / SMALL_BATCHES_PER_REPLICA
    assert all(sum(unit.requests for unit in batch) <= limit for batch in batches[1:])


def test_units_are_sized_by_group_replicas_pixels_and_engine() -> None:
    units = cut([24] * 5, 1, per_sample=9, group_bytes=PACK_BYTES)
    assert [unit.requests for unit in units] == [216] * 5
    assert [unit.requests for unit in cut([300], 1)] == [150, 150]
    assert len(cut([1] * 1024, 1)) == 1024 // MAX_LIGHT_UNIT_REQUESTS
    assert len(cut([1] * 512, 4)) == 512 // MIN_UNIT_REQUESTS
    assert len(cut([1] * 512, 1, group_bytes=PACK_BYTES // 512)) == 512 // MAX_LIGHT_UNIT_REQUESTS
    assert len(cut([1] * 512, 1, group_bytes=PACK_BYTES // PACK_REQUESTS)) == 512 // PACK_REQUESTS
    assert [unit.requests for unit in cut([20] * 12, 1, group_bytes=PACK_BYTES)] == [60] * 4
    assert [unit.requests for unit in cut([20] * 12, 1, group_bytes=PACK_BYTES // 5)] == [100, 100, 40]
    assert len(cut([1] * 512, 1, engine="openai")) == 512 // PACK_REQUESTS
    assert [unit.requests for unit in cut([216] * 2, 1, engine="openai")] == [216] * 2


@given(
    groups=st.lists(st.integers(1, 700), min_size=1, max_size=12),
    replicas=st.integers(1, 70),
    per_sample=st.integers(1, 9),
)
@settings(max_examples=40)
def test_requests_are_in_one_unit_and_units_in_one_batch(groups: list[int], replicas: int, per_sample: int) -> None:
    units = cut(groups, replicas, per_sample)
    batches = batch_units(units, replicas)
    assert sorted(unit.part for batch in batches for unit in batch) == sorted(unit.part for unit in units)
    assert len({unit.part for unit in units}) == len(units)
    rows = [row for unit in units for media_slice in unit.slices for row in media_slice.rows]
    assert sorted(rows) == list(range(sum(groups) * per_sample))
    assert all(unit.requests <= max(MAX_LIGHT_UNIT_REQUESTS, per_sample) for unit in units)
    assert all(len(batch) <= MAX_BATCH_UNITS for batch in batches)
    total = sum(unit.requests for unit in units)
    for batch in batches:
        one_group = len(batch) == 1 or len(groups_of(batch)) == 1
        assert one_group or sum(unit.requests for unit in batch) <= total / (replicas * SMALL_BATCHES_PER_REPLICA)


def test_requests_without_media_fill_larger_units() -> None:
    ids = [f"{n:032x}" for n in range(2 * MAX_LIGHT_UNIT_REQUESTS)]
    pool = {("part", ""): [SampleRequests(str(n), [n], [name]) for n, name in enumerate(ids)]}
    maker = UnitMaker(target("vllm"), 1, expected=len(ids), samples=len(ids))
    assert [unit.requests for unit in maker.units(pool)] == [MAX_LIGHT_UNIT_REQUESTS] * 2


def small_unit(number: int, count: int = 64, media_bytes: int = 0) -> WorkUnit:
    media_slice = MediaGroupSlice("part", f"image:{number}:0", (number,))
    return WorkUnit(
        benchmark="vague", part=f"p{number}", slices=(media_slice,), requests=count, media_bytes=media_bytes
    )


def test_short_plans_and_units_with_many_pixels_have_batches_of_their_own() -> None:
    units = [small_unit(number) for number in range(SMALL_BATCHES_PER_REPLICA)]
    assert [*batch_units(units, 1)] == [(unit,) for unit in units]
    units = [small_unit(number, media_bytes=SMALL_BATCH_BYTES // 2 + 1) for number in range(320)]
    assert [*batch_units(units, 1)] == [(unit,) for unit in units]
    quarters = [small_unit(number, media_bytes=SMALL_BATCH_BYTES // 4) for number in range(320)]
    assert max(len(batch) for batch in batch_units(quarters, 1)) == 4


def test_long_plan_of_small_units_is_batched_in_order() -> None:
    units = [small_unit(number) for number in range(20 * MAX_BATCH_UNITS)]
    batches = batch_units(units, 1)
    assert [unit for batch in batches for unit in batch] == units
    sizes = [len(batch) for batch in batches]
    assert sizes[:5] == [MAX_BATCH_UNITS] * 5
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-SMALL_BATCHES_PER_REPLICA:] == [1] * SMALL_BATCHES_PER_REPLICA
    assert len(batches) < len(units) / 4
    assert max(len(batch) for batch in batch_units(units, 10)) == 2


def test_exclusive_media_groups_are_in_one_batch_alone() -> None:
    batches = [
        (small_unit(1), small_unit(2)),
        (small_unit(2), small_unit(3)),
        (replace(small_unit(4), slices=(MediaGroupSlice("part", "", (4,)),)),),
    ]
    exclusive = ExclusiveGroups(batches)
    assert [exclusive.of(batch) for batch in batches] == [["image:1:0"], ["image:3:0"], []]

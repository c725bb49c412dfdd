"""Which pieces travel together, and how large they are."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.plan.batches import CONVOY_UNITS, SMALL_BYTES, SMALL_SHARES, batch_units, exclusive_media_groups
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.units import LEAST_UNIT_REQUESTS, MAX_UNIT_REQUESTS, MediaGroupSlice, UnitMaker, WorkUnit


def asker() -> RequestBuilder:
    return RequestBuilder(
        benchmark_name="maia", dataset_fingerprint="", model="m", model_fingerprint={}, generation={}, cells=(),
        prompts={}, instead={}, seed=1,
    )  # fmt: skip


def cut(groups: Sequence[int], replicas: int, per_sample: int = 1) -> list[WorkUnit]:
    """Units of groups with so many samples each, all in one shard."""
    pool = {
        ("s", f"video:{index}"): [
            (f"{index}/{n}", [f"{index:08x}{n:020x}{k:04x}" for k in range(per_sample)]) for n in range(samples)
        ]
        for index, samples in enumerate(groups)
    }
    maker = UnitMaker(asker(), replicas, expected=sum(groups), samples=sum(groups))
    return list(maker.units(pool, set()))


def test_one_clip_with_ten_thousand_questions_uses_all_replicas() -> None:
    for replicas in (1, 2, 8, 64):
        convoys = batch_units(cut([10_000], replicas), replicas)
        assert len(convoys) >= replicas
        sizes = [sum(unit.requests for unit in convoy) for convoy in convoys]
        assert sum(sizes) == 10_000
        assert max(sizes) <= 1.1 * 10_000 / replicas
        assert max(unit.requests for convoy in convoys for unit in convoy) <= MAX_UNIT_REQUESTS


def test_a_clip_is_not_split_where_balance_does_not_ask_for_it() -> None:
    units = cut([2000, *[216] * 200], 4)
    convoys = batch_units(units, 4)
    large = [convoy for convoy in convoys if convoy[0].pieces[0].group == "video:0"]
    assert len(large) == 1
    assert len(large[0]) == 8
    assert convoys[0] == large[0], "the largest goes first, so that smaller work fills the gaps at the end"
    assert len({piece.group for unit in units for piece in unit.pieces}) == 201
    assert all(sum(unit.requests for unit in convoy) <= 45_200 / 4 / SMALL_SHARES for convoy in convoys[1:])


def test_the_default_group_stays_whole() -> None:
    units = cut([24] * 5, 1, per_sample=9)
    assert [unit.requests for unit in units] == [216] * 5


def test_pieces_of_a_large_group_are_even() -> None:
    assert [unit.requests for unit in cut([300], 1)] == [150, 150]


@given(
    groups=st.lists(st.integers(1, 700), min_size=1, max_size=12),
    replicas=st.integers(1, 70),
    per_sample=st.integers(1, 9),
)
@settings(deadline=None, max_examples=40)
def test_every_request_travels_once(groups: list[int], replicas: int, per_sample: int) -> None:
    units = cut(groups, replicas, per_sample)
    convoys = batch_units(units, replicas)
    assert sorted(unit.part for convoy in convoys for unit in convoy) == sorted(unit.part for unit in units)
    assert len({unit.part for unit in units}) == len(units)
    names = [name for unit in units for piece in unit.pieces for name in piece.samples]
    assert sorted(names) == sorted(set(names))
    assert len(names) == sum(groups)
    assert all(unit.requests <= max(MAX_UNIT_REQUESTS, per_sample) for unit in units)
    assert all(len(convoy) <= CONVOY_UNITS for convoy in convoys)
    total = sum(unit.requests for unit in units)
    for convoy in convoys:
        one_group = len(convoy) == 1 or len({piece.group for unit in convoy for piece in unit.pieces}) == 1
        assert one_group or sum(unit.requests for unit in convoy) <= total / (replicas * SMALL_SHARES)


def test_small_work_is_shared_out_in_smaller_units() -> None:
    assert len(cut([1] * 512, 1)) == 8
    assert len(cut([1] * 512, 4)) == 512 // LEAST_UNIT_REQUESTS


def small(number: int, count: int = 64, media_bytes: int = 0) -> WorkUnit:
    piece = MediaGroupSlice("s", f"image:{number}:0", (str(number),))
    return WorkUnit(benchmark="vague", part=f"p{number}", pieces=(piece,), requests=count, media_bytes=media_bytes)


def test_a_short_plan_of_small_units_is_handed_out_unit_by_unit() -> None:
    units = [small(number) for number in range(SMALL_SHARES)]
    assert batch_units(units, 1) == [(unit,) for unit in units]


def test_small_units_of_a_long_plan_travel_together_in_their_order() -> None:
    units = [small(number) for number in range(20 * CONVOY_UNITS)]
    convoys = batch_units(units, 1)
    assert [unit for convoy in convoys for unit in convoy] == units
    sizes = [len(convoy) for convoy in convoys]
    assert sizes[:5] == [CONVOY_UNITS] * 5
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-SMALL_SHARES:] == [1] * SMALL_SHARES
    assert len(convoys) < len(units) / 4
    assert max(len(convoy) for convoy in batch_units(units, 10)) == 2


def test_units_that_take_long_to_load_travel_alone() -> None:
    units = [small(number, media_bytes=SMALL_BYTES // 2 + 1) for number in range(320)]
    assert batch_units(units, 1) == [(unit,) for unit in units]
    halves = [small(number, media_bytes=SMALL_BYTES // 4) for number in range(320)]
    assert max(len(convoy) for convoy in batch_units(halves, 1)) == 4


def test_groups_that_one_convoy_alone_is_about() -> None:
    convoys = [
        (small(1), small(2)),
        (small(2), small(3)),
        (replace(small(4), pieces=(MediaGroupSlice("t", "", ("4",)),)),),
    ]
    assert exclusive_media_groups(convoys) == [["image:1:0"], ["image:3:0"], []]

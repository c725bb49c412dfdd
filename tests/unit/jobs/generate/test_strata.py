"""Questions of a requested difficulty: strata fill evenly where scenes allow, by changing only appearances."""

import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.generate.generate import ask_all
from jobs.generate.objects import Layout, make_layout, placement_holds
from jobs.generate.parameters import Options, Plan, stream
from jobs.generate.questions import STRATA, Balance, Pair, build, pools_of
from pipelines.benchmarks.mate.scene import FILE_KINDS, VISUAL, linking, unique_values


@functools.cache
def layouts(count: int, examples: int) -> tuple[Plan, list[Layout]]:
    plan = Plan(counts=(count,), examples=examples, seed=8, options=Options(stratify="links"))
    plan.check()
    return plan, [make_layout(plan, index) for index in range(examples)]


@pytest.mark.parametrize(("count", "examples"), [(7, 32), (10, 32), (30, 16), (40, 8)])
def test_strata_fill_evenly_at_any_number_of_objects(count: int, examples: int) -> None:
    plan, placed = layouts(count, examples)
    balance, questions = ask_all(plan, placed)
    for task in FILE_KINDS["mm"]:
        used = [balance.used_strata[count, task, links] for links in STRATA]
        assert sum(used) == examples // 2
        assert max(used) - min(used) <= 1
    for before, example in zip(placed, questions, strict=True):
        after = example.layout
        assert after.positions == before.positions
        assert [appearance.size for appearance in after.object_set.appearances] == [
            appearance.size for appearance in before.object_set.appearances
        ]
        assert placement_holds(after.object_set.appearances, after.positions, after.camera, plan.options)
        for attribute in VISUAL:
            assert set(after.object_set.keys(attribute)) <= set(unique_values(after.scene, attribute))


def test_without_strata_coordinates_take_over_as_scenes_fill() -> None:
    plan, placed = layouts(30, 16)
    balance, questions = ask_all(dataclasses.replace(plan, options=Options()), placed)
    used = sum(balance.used_strata[30, task, 0] for task in FILE_KINDS["mm"])
    assert used > 8
    assert [example.layout for example in questions] == placed


@pytest.mark.parametrize("link_count", STRATA)
@pytest.mark.parametrize("count", [4, 10, 30])
def test_built_object_has_the_requested_links(count: int, link_count: int) -> None:
    _, placed = layouts(count, 16)
    rng, built = stream("build", count, link_count), 0
    for layout in placed:
        for hidden, shown in (("color", "shape"), ("shape", "color")):
            index = rng.randrange(count)
            object_set = build(rng, layout, index, attribute=shown, link_count=link_count)
            if object_set is None:
                continue
            built += 1
            changed = dataclasses.replace(layout, object_set=object_set)
            links = linking(changed.scene, index, (hidden,)).k
            assert links == link_count
            assert [appearance.radius for appearance in object_set.appearances] == [
                appearance.radius for appearance in layout.object_set.appearances
            ]
            assert (object_set.key_colors, object_set.key_shapes) == (
                layout.object_set.key_colors,
                layout.object_set.key_shapes,
            )
    assert built >= (1 if count == 4 else 16)


def test_object_is_built_only_where_keys_sizes_and_free_values_allow_it() -> None:
    _, (layout, *_) = layouts(10, 32)
    index = next(
        i
        for i, appearance in enumerate(layout.object_set.appearances)
        if appearance.color in layout.object_set.key_colors
    )
    rng = stream("key")
    assert build(rng, layout, index, attribute="color", link_count=1) == layout.object_set
    assert all(build(rng, layout, index, attribute="color", link_count=link_count) is None for link_count in (2, 3, 0))
    index = next(
        i
        for i, appearance in enumerate(layout.object_set.appearances)
        if appearance.shape not in layout.object_set.key_shapes
    )
    alone = dataclasses.replace(
        layout.object_set,
        appearances=tuple(
            dataclasses.replace(appearance, radius=0.35 if number == index else 0.7)
            for number, appearance in enumerate(layout.object_set.appearances)
        ),
    )
    odd = dataclasses.replace(layout, object_set=alone)
    rng = stream("sizes")
    assert all(build(rng, odd, index, attribute="shape", link_count=link_count) is None for link_count in (2, 3, 0))
    everyone = dataclasses.replace(
        alone,
        appearances=tuple(dataclasses.replace(appearance, radius=0.35) for appearance in layout.object_set.appearances),
    )
    same = dataclasses.replace(layout, object_set=everyone)
    assert build(rng, same, index, attribute="shape", link_count=3) is None
    plan = Plan(counts=(10,), examples=1, seed=8, options=Options(max_key_shapes=3))
    layout = make_layout(plan, 0)
    assert build(stream("full"), layout, index, attribute="shape", link_count=1) is None


@given(st.integers(3, 12), st.integers(0, 10), st.integers(1, 200))
def test_tasks_of_a_kind_are_equal_whatever_the_number_of_scenes(low: int, more: int, examples: int) -> None:
    plan = Plan(counts=tuple(range(low, low + more + 1)), examples=examples, seed=1, options=Options())
    balance = Balance(plan.options.tasks)
    for index in range(examples):
        count, turn = plan.scene_at(index)
        for kind in FILE_KINDS.values():
            task = balance.next_task(count, kind, plan.first_task(count, turn))
            assert task is not None
            balance.used_tasks[count, task] += 1
    for kind in FILE_KINDS.values():
        first, second = ([balance.used_tasks[count, task] for count in plan.counts] for task in kind)
        assert abs(sum(first) - sum(second)) == examples % 2
        assert all(abs(a - b) <= 1 for a, b in zip(first, second, strict=True))
        if examples % (2 * len(plan.counts)) == 0:
            assert first == second


def test_pairs_and_tasks_come_least_used_first_and_in_order() -> None:
    layout = layouts(6, 1)[1][0]
    pools = pools_of(layout.scene, layout.object_set)
    balance = Balance(("img2txt", "txt2img", "img2img", "txt2txt"))
    assert balance.next_task(6, FILE_KINDS["mm"]) == "img2txt"
    assert balance.next_task(6, FILE_KINDS["um"]) == "img2img"
    assert Balance(("txt2txt",)).next_task(6, FILE_KINDS["mm"]) is None
    targets = ["name", "3d_coords", "rotation", *(["size"] if pools["size"] else [])]
    expected: list[Pair] = [(target, pointer) for target in targets for pointer in ("color", "shape")]
    assert balance.next_pairs(6, "img2txt", pools) == expected
    balance.used_pairs[6, "img2txt", ("name", "color")] += 1
    assert balance.next_pairs(6, "img2txt", pools) == [*expected[1:], expected[0]]
    assert all(target != pointer for target, pointer in balance.next_pairs(6, "txt2txt", pools))
    assert balance.next_strata(6, "img2txt") == [1, 2, 3, 0]

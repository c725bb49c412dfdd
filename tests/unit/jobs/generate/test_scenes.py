import colorsys
import dataclasses
import itertools
import math
import statistics

import numpy as np
import pytest

from jobs.generate import objects
from jobs.generate.geometry import far_to_near, number_image, outline, unoccluded_pixels, visible_pixels
from jobs.generate.objects import FAIR_GAP, Layout, least_visible, make_layout, must_stand_apart, placement_holds
from jobs.generate.parameters import Options, Plan, margin, stream
from jobs.generate.picture import draw_picture
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, VISUAL, unique_values
from pipelines.errors import UsageError

HUES = {"red": 0, "brown": 28, "yellow": 55, "green": 114, "cyan": 180, "blue": 229, "purple": 275}


def plan_for(*counts: int, examples: int = 1, seed: int = 5, **options: object) -> Plan:
    plan = Plan(counts=counts, examples=examples, seed=seed, options=Options(**options))  # type: ignore[arg-type]
    plan.check()
    return plan


SMALL = plan_for(*range(3, 11), examples=80)
LAYOUTS = [make_layout(SMALL, index) for index in range(SMALL.examples)] + [
    make_layout(plan_for(20, 50), index) for index in (0, 1, 2)
]


@pytest.fixture(params=LAYOUTS, ids=lambda layout: f"{layout.count}-{layout.turn}")
def layout(request: pytest.FixtureRequest) -> Layout:
    scene_layout = request.param
    assert isinstance(scene_layout, Layout)
    return scene_layout


def test_objects_stand_apart(layout: Layout) -> None:
    least = margin(layout.count)
    for first, second in itertools.combinations(zip(layout.object_set.appearances, layout.positions, strict=True), 2):
        (appearance, position), (look2, spot2) = first, second
        dx, dy = abs(position[0] - spot2[0]), abs(position[1] - spot2[1])
        assert min(dx, dy) >= least
        assert math.hypot(dx, dy) - appearance.radius - look2.radius >= 0.25
        if must_stand_apart(appearance, look2):
            assert max(dx, dy) >= FAIR_GAP
    assert all(
        position[2] == appearance.radius
        for appearance, position in zip(layout.object_set.appearances, layout.positions, strict=True)
    )


def test_every_object_is_visible_enough_and_shows_its_color(layout: Layout) -> None:
    outlines = [outline(item, layout.camera) for item in layout.solids]
    painted = number_image(outlines, far_to_near(layout.solids, layout.camera), layout.camera).histogram()
    for index, polygon in enumerate(outlines):
        alone = number_image([polygon], [0], layout.camera).histogram()[1]
        assert painted[index + 1] >= 120
        assert painted[index + 1] >= 0.35 * alone
    picture = draw_picture(layout.solids, layout.camera)
    numbers = number_image(outlines, far_to_near(layout.solids, layout.camera), layout.camera)
    pixels, owners = np.asarray(picture), np.asarray(numbers)
    for index, appearance in enumerate(layout.object_set.appearances):
        middle = np.median(pixels[owners == index + 1], axis=0) / 255
        hue, saturation, _ = colorsys.rgb_to_hsv(*middle)
        if appearance.color == "gray":
            assert saturation < 0.15
        else:
            assert saturation > 0.4
            assert abs((hue * 360 - HUES[appearance.color] + 180) % 360 - 180) <= 12


def test_pointer_values_are_unique_and_at_most_one_per_object(layout: Layout) -> None:
    object_set = layout.object_set
    assert len(object_set.key_colors) == min(3, layout.count - 1)
    assert len(object_set.key_shapes) == 1
    owners = []
    for attribute in VISUAL:
        for value in object_set.keys(attribute):
            holders = [
                index
                for index, appearance in enumerate(object_set.appearances)
                if getattr(appearance, attribute) == value
            ]
            assert len(holders) == 1
            assert value in unique_values(layout.scene, attribute)
            owners += holders
    assert len(set(owners)) == len(owners)


def test_sizes_have_one_spelling_a_class_except_for_one_object() -> None:
    odd = 0
    for layout in LAYOUTS:
        for radius in (0.35, 0.7):
            spelled = [appearance.size for appearance in layout.object_set.appearances if appearance.radius == radius]
            assert {round(size, 2) for size in spelled} <= {radius}
            rare = min(spelled.count(size) for size in set(spelled)) if len(set(spelled)) == 2 else 0
            assert rare <= 1
            odd += rare
    assert 0.3 * len(LAYOUTS) < odd < 0.7 * len(LAYOUTS)


def test_scenes_depend_on_seed_and_number_alone_and_hold_every_shape() -> None:
    again = {index: make_layout(SMALL, index) for index in (37, 2, 19)}
    assert all(layout == LAYOUTS[index] for index, layout in again.items())
    pictures = [draw_picture(LAYOUTS[2].solids, LAYOUTS[2].camera).tobytes() for _ in range(2)]
    assert pictures[0] == pictures[1]
    other = make_layout(plan_for(*range(3, 11), seed=6), 0)
    distinct = {layout.positions for layout in [*LAYOUTS, other]}
    assert len(distinct) == len(LAYOUTS) + 1
    appearances = [appearance for layout in LAYOUTS for appearance in layout.object_set.appearances]
    assert {appearance.shape for appearance in appearances} == set(SHAPES)
    assert {appearance.color for appearance in appearances} == set(COLORS)
    share = statistics.fmean(appearance.material == "metal" for appearance in appearances)
    assert abs(share - 0.5) < 3 * 0.5 / math.sqrt(len(appearances))


def test_options_of_scenes_hold() -> None:
    layout = make_layout(plan_for(10, coords_decimals=2), 0)
    assert all(round(part, 2) == part for position in layout.positions for part in position)
    assert len(unique_values(layout.scene, "3d_coords")) == 10
    assert [item.coords for item in layout.solids] == list(layout.positions)
    layout = make_layout(plan_for(10, max_key_colors=7, max_key_shapes=3), 0)
    assert len(unique_values(layout.scene, "color")) == 7
    assert len(unique_values(layout.scene, "shape")) == 3
    assert len(layout.object_set.free("color")) == len(layout.object_set.free("shape")) == 1
    layout = make_layout(plan_for(10, min_visible_share=0.9), 0)
    outlines = [outline(item, layout.camera) for item in layout.solids]
    pixels = visible_pixels(outlines, far_to_near(layout.solids, layout.camera), layout.camera)
    assert all(count >= 0.9 * unoccluded_pixels(polygon) for count, polygon in zip(pixels, outlines, strict=True))


def test_unsatisfiable_rule_ends_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "place_objects", lambda *_: None)
    with pytest.raises(UsageError, match=r"no scene of 10 objects in \d+ attempts shows 120 pixels and 35% of each"):
        make_layout(plan_for(10), 0)


def test_an_attempt_ends_when_moving_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LAYOUTS[0]
    rng, appearances, options = stream("moves"), layout.object_set.appearances, SMALL.options
    assert objects.place_objects(rng, appearances, layout.camera, options) is not None
    monkeypatch.setattr(objects, "least_visible", lambda *_: 0)
    assert objects.place_objects(rng, appearances, layout.camera, options) is None
    positions = iter([*layout.positions, None])
    monkeypatch.setattr(objects._Floor, "find_position", lambda *_: next(positions))
    assert objects.place_objects(rng, appearances, layout.camera, options) is None
    assert next(positions, "all taken") == "all taken"


def test_least_visible_object_is_moved_and_rules_are_checked_again() -> None:
    layout = LAYOUTS[0]
    options = SMALL.options
    assert least_visible(layout.solids, layout.camera, options) is None
    behind = dataclasses.replace(layout.solids[0], radius=0.35, coords=(-2.0, 0.0, 0.35))
    before = dataclasses.replace(layout.solids[0], radius=0.7, coords=(-0.5, 0.0, 0.7), shape="cube", rotation=0.0)
    aside = dataclasses.replace(layout.solids[0], radius=0.7, coords=(1.0, 3.0, 0.7))
    assert least_visible([before, behind, aside], layout.camera, options) == 1
    layout = next(item for item in LAYOUTS if item.count == 10)
    appearances, options = list(layout.object_set.appearances), SMALL.options
    assert placement_holds(appearances, layout.positions, layout.camera, options)
    close = min(
        itertools.combinations(range(10), 2),
        key=lambda pair: math.dist(layout.positions[pair[0]], layout.positions[pair[1]]),
    )
    moved = list(layout.positions)
    moved[close[0]] = (moved[close[1]][0] + 0.1, *moved[close[0]][1:])
    assert not placement_holds(appearances, moved, layout.camera, options)

import dataclasses
import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.generate import geometry
from jobs.generate.geometry import LOCATION, Point, Solid, camera_for, scale_for
from pipelines.benchmarks.mate.scene import SHAPES

CAMERA = camera_for(10, 480, 320)


def stand(shape: str, x: float = 0.0, y: float = 0.0, radius: float = 0.7, rotation: float = 0.0) -> Solid:
    return Solid(shape=shape, material="metal", color="red", radius=radius, rotation=rotation, coords=(x, y, radius))


SOLIDS = st.builds(
    stand, st.sampled_from(SHAPES), st.floats(-4, 4), st.floats(-4, 4), st.sampled_from([0.35, 0.7]), st.floats(0, 360)
)


@pytest.mark.parametrize(
    ("point", "px", "py", "depth"),
    [
        ((0, 0, 0), 240.00, 160.00, 11.26),
        ((0.58085, 2.31656, 0.35), 354.88, 158.39, 10.59),
        ((1.00310, -2.24159, 0.7), 122.89, 152.67, 10.05),
        ((3.23855, -1.07024, 0.35), 171.87, 238.20, 8.25),
        ((-4.24, 0, 0.35), 240.00, 77.88, 14.83),
        ((4.24, 0, 0.35), 240.00, 281.42, 7.37),
    ],
)
def test_projection(point: Point, px: float, py: float, depth: float) -> None:
    assert CAMERA.project(point) == pytest.approx((px, py), abs=0.006)
    assert CAMERA.depth(point) == pytest.approx(depth, abs=0.006)


def test_up_to_ten_objects_have_the_published_camera() -> None:
    for count in (3, 10):
        camera = camera_for(count, 480, 320)
        assert (camera.location, camera.width, camera.height) == (LOCATION, 480, 320)


@pytest.mark.parametrize("count", [11, 40, 100])
def test_beyond_ten_objects_keep_their_size_in_pixels(count: int) -> None:
    scale, camera = scale_for(count), camera_for(count, 480, 320)
    assert (camera.width, camera.height) == (round(480 * scale), round(320 * scale))
    for point in ((0.0, 0.0, 0.35), (2.0, -1.0, 0.7)):
        x, y, z = (part * scale for part in point)
        assert camera.pixels_per_unit((x, y, z)) == pytest.approx(CAMERA.pixels_per_unit(point), rel=2e-3)


def surface(solid: Solid) -> list[Point]:
    """Return points of a solid drawn at random, the outermost included."""
    rng, (x, y, z), r = random.Random(3), solid.coords, solid.radius
    points = []
    for _ in range(4000):
        turn, height = rng.uniform(0, 2 * math.pi), rng.uniform(-1, 1)
        if solid.shape == "sphere":
            wide = math.sqrt(1 - height * height)
        elif solid.shape == "cone":
            wide = (1 - height) / 2
        else:
            wide = 1.0
        a, b = math.cos(turn) * wide, math.sin(turn) * wide
        if solid.shape == "cube":
            u, v = math.sin(rng.uniform(-2, 2)), math.sin(rng.uniform(-2, 2))
            height = math.sin(2 * height)
            cos, sin = math.cos(solid.rotation), math.sin(solid.rotation)
            a, b = u * cos - v * sin, u * sin + v * cos
        points.append((x + r * a, y + r * b, z + r * height))
    return points


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("x", "y", "radius", "rotation"), [(0, 0, 0.7, 1.0), (4.1, -2.0, 0.35, 200.0)])
def test_an_outline_encloses_its_solid_only(shape: str, x: float, y: float, radius: float, rotation: float) -> None:
    solid = stand(shape, x, y, radius, rotation)
    outline = geometry.outline(solid, CAMERA)
    sampled = [CAMERA.project(point) for point in surface(solid)]
    assert geometry.area(geometry.hull([*outline, *sampled])) == pytest.approx(geometry.area(outline), rel=0.005)
    assert geometry.area(geometry.hull(sampled)) == pytest.approx(geometry.area(outline), rel=0.04)


@given(SOLIDS)
def test_an_outline_is_convex(solid: Solid) -> None:
    outline = geometry.outline(solid, CAMERA)
    around = [*outline, *outline[:2]]
    turns = [geometry._turn(*around[at : at + 3]) for at in range(len(outline))]
    assert all(turn > 0 for turn in turns)
    assert len(outline) >= 4 or solid.shape == "cone"


@given(st.floats(-4, 4), st.floats(-4, 4), st.floats(0, 360))
def test_a_cube_shows_its_top_and_one_or_two_sides_that_fill_its_outline(x: float, y: float, rotation: float) -> None:
    solid = stand("cube", x, y, 0.7, rotation)
    faces = geometry.cube_faces(solid, CAMERA)
    assert len(faces) in {2, 3}
    assert sum(face.normal == (0, 0, 1) for face in faces) == 1
    assert all(math.hypot(*face.normal) == pytest.approx(1) for face in faces)
    whole = geometry.area(geometry.outline(solid, CAMERA))
    assert sum(geometry.area(face.corners) for face in faces) == pytest.approx(whole, rel=1e-6)


def inside(solid: Solid, x: float, y: float) -> bool:
    if solid.shape == "cube":
        u, v = geometry._in_frame(solid, (x, y))
        return max(abs(u), abs(v)) < solid.radius
    return math.dist((x, y), solid.coords[:2]) < solid.radius


@given(SOLIDS, st.sampled_from(SHAPES), st.floats(0, 360), st.floats(0, 6.3), st.floats(0.2, 2.5))
def test_footprints_share_ground(solid: Solid, shape: str, rotation: float, towards: float, away: float) -> None:
    x, y, _ = solid.coords
    other = stand(shape, x + away * math.cos(towards), y + away * math.sin(towards), 0.35, rotation)
    grid = [(x + i / 20, y + j / 20) for i in range(-40, 41) for j in range(-40, 41)]
    shared = sum(inside(solid, *position) and inside(other, *position) for position in grid)
    meets = geometry.footprints_meet(solid, other)
    assert meets == geometry.footprints_meet(other, solid)
    assert not shared or meets
    # A grid cannot see an overlap thinner than its mesh: let both grow a little for the other direction.
    grown = dataclasses.replace(other, radius=other.radius + 0.08)
    larger = dataclasses.replace(solid, radius=solid.radius + 0.08)
    assert not meets or any(inside(larger, *position) and inside(grown, *position) for position in grid)


def test_nearer_solids_cover_farther_ones() -> None:
    scene = [stand("cube", 2.0), stand("sphere", 0.0), stand("cone", -2.0, 3.0)]
    order = geometry.far_to_near(scene, CAMERA)
    assert order == [2, 1, 0]
    outlines = [geometry.outline(item, CAMERA) for item in scene]
    pixels = geometry.visible_pixels(outlines, order, CAMERA)
    areas = [geometry.area(outline) for outline in outlines]
    assert pixels[0] == pytest.approx(areas[0], rel=0.05)
    assert pixels[1] < 0.8 * areas[1]
    assert pixels[2] == pytest.approx(areas[2], rel=0.1)


@given(SOLIDS)
def test_pixels_of_an_outline_are_counted_as_the_picture_paints_them(solid: Solid) -> None:
    polygon = geometry.outline(solid, CAMERA)
    wide = dataclasses.replace(CAMERA, width=CAMERA.width + 1200, height=CAMERA.height + 1200)
    moved = [(x + 600, y + 600) for x, y in polygon]
    painted = geometry.number_image([moved], [0], wide).histogram()[1]
    assert geometry.unoccluded_pixels(polygon) == pytest.approx(
        painted, abs=3
    )  # Pillow rounds by where the outline lies


def test_area_and_hull_of_known_figures() -> None:
    square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
    assert geometry.area(square) == 4
    assert sorted(geometry.hull([*square, (1.0, 1.0), (1.0, 0.0)])) == sorted(square)
    assert all(a != b for a, b in pairwise(geometry.hull(square * 2)))

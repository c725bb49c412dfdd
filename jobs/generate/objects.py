"""The scenes of a generated data set and their objects: how they look, what points at them, where they stand.

A scene is a function of the seed, its number of objects and its number among scenes of that count. Objects stand apart
from each other, and each is visible enough.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.generate.geometry import (
    Camera,
    Pixel,
    Point,
    Solid,
    camera_for,
    far_to_near,
    footprints_meet,
    outline,
    scale_for,
    unoccluded_pixels,
    visible_pixels,
)
from jobs.generate.parameters import Options, Plan, margin, stream
from pipelines.benchmarks.mate.scene import COLORS, MATERIALS, SHAPES, TEXTUAL, Scene, SceneObject, unique_values
from pipelines.errors import UsageError

RADII = (0.35, 0.7)
_SPELLINGS = {0.35: (0.351, 0.35), 0.7: (0.7, 0.701)}  # the last digit means nothing and is still a different text


@dataclass(frozen=True, slots=True, kw_only=True)
class Appearance:
    """The appearance of one object, without its position."""

    shape: str  # one of the benchmark's shapes
    material: str  # `metal` or `rubber`
    color: str  # one of the benchmark's colors
    radius: float  # 0.35 or 0.7 scene units
    size: float  # the radius as the texts spell it, see `_spell_sizes`
    rotation: float  # in [0, 360)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSet:
    """The objects of one scene, and the visual values that point."""

    appearances: tuple[Appearance, ...]  # in the order of their names
    key_colors: tuple[str, ...]  # each held by one object, no object holding two keys
    key_shapes: tuple[str, ...]  # the same of shapes

    def keys(self, attribute: str) -> tuple[str, ...]:
        """Return the values of `color` or `shape` that point."""
        return self.key_colors if attribute == "color" else self.key_shapes

    def free(self, attribute: str) -> list[str]:
        """Return the values of `color` or `shape` that any object may take."""
        return [value for value in (COLORS if attribute == "color" else SHAPES) if value not in self.keys(attribute)]

    def repainted(self, changes: Mapping[int, Mapping[str, str]]) -> "ObjectSet":
        """Return the same objects with other attributes at some indices."""
        appearances = list(self.appearances)
        for index, values in changes.items():
            appearances[index] = replace(appearances[index], **values)  # type: ignore[arg-type]  # names of text fields
        return replace(self, appearances=tuple(appearances))


def draw_objects(rng: random.Random, count: int, options: Options) -> ObjectSet:
    """Draw the objects of one scene, every attribute uniform but for the pointing values, which are made unique."""
    return _with_keys(rng, _spell_sizes(rng, [_draw_appearance(rng) for _ in range(count)]), options)


def redraw_objects(rng: random.Random, object_set: ObjectSet, options: Options) -> ObjectSet:
    """Draw shapes, materials, colors and pointing values again for the same sizes and rotations."""
    appearances = [
        replace(appearance, shape=rng.choice(SHAPES), material=rng.choice(MATERIALS), color=rng.choice(COLORS))
        for appearance in object_set.appearances
    ]
    return _with_keys(rng, appearances, options)


def must_stand_apart(first: Appearance, second: Appearance) -> bool:
    """Return whether only their positions distinguish two objects once their color, or their shape, is hidden."""
    same_size_and_material = first.material == second.material and first.radius == second.radius
    return same_size_and_material and (first.shape == second.shape or first.color == second.color)


def _with_keys(rng: random.Random, appearances: list[Appearance], options: Options) -> ObjectSet:
    count = len(appearances)
    shapes = rng.sample(SHAPES, options.max_key_shapes)
    colors = rng.sample(COLORS, min(options.max_key_colors, count - len(shapes)))
    object_set = ObjectSet(appearances=tuple(appearances), key_colors=tuple(colors), key_shapes=tuple(shapes))
    for index, appearance in enumerate(appearances):
        shape = rng.choice(object_set.free("shape")) if appearance.shape in shapes else appearance.shape
        color = rng.choice(object_set.free("color")) if appearance.color in colors else appearance.color
        appearances[index] = replace(appearance, shape=shape, color=color)
    owners = rng.sample(range(count), len(shapes) + len(colors))
    for index, color in zip(owners, colors, strict=False):  # the owners of shapes follow
        appearances[index] = replace(appearances[index], color=color)
    for index, shape in zip(owners[len(colors) :], shapes, strict=True):
        appearances[index] = replace(appearances[index], shape=shape)
    return replace(object_set, appearances=tuple(appearances))


def _draw_appearance(rng: random.Random) -> Appearance:
    radius = rng.choice(RADII)
    return Appearance(
        shape=rng.choice(SHAPES),
        material=rng.choice(MATERIALS),
        color=rng.choice(COLORS),
        radius=radius,
        size=radius,
        rotation=rng.random() * 360,
    )


def _spell_sizes(rng: random.Random, appearances: Sequence[Appearance]) -> list[Appearance]:
    """Spell sizes one way a class; in half of the scenes one object the other way, so that its size can point."""
    usual = {radius: rng.choice(spellings) for radius, spellings in _SPELLINGS.items()}
    spelled = [replace(appearance, size=usual[appearance.radius]) for appearance in appearances]
    if rng.random() < 0.5:
        index = rng.randrange(len(appearances))
        radius = appearances[index].radius
        (unusual,) = set(_SPELLINGS[radius]) - {usual[radius]}
        spelled[index] = replace(spelled[index], size=unusual)
    return spelled


FAIR_GAP = 1.0  # scene units in X or Y between objects that coordinates alone tell apart: enough to see
_SIDE = 3.0  # half the side of the square on which up to ten objects stand
_TURN = math.radians(41.02)  # of that square about Z
_GAP = 0.25  # scene units of ground between two objects
_TRIES = 300  # positions tried for one object
_REPAIRS = 40  # moves in one attempt, and two more for each object


def place_objects(
    rng: random.Random, appearances: Sequence[Appearance], camera: Camera, options: Options
) -> list[Point] | None:
    """Return the centre of each object; None where this attempt failed."""
    floor = _Floor(appearances, options)
    positions: dict[int, Point] = {}
    for number in range(len(appearances)):
        position = floor.find_position(rng, number, positions)
        if position is None:
            return None
        positions[number] = position
    for _ in range(_REPAIRS + 2 * len(appearances)):
        solids = [solid(appearance, positions[name]) for name, appearance in enumerate(appearances)]
        worst = least_visible(solids, camera, options)
        if worst is None:
            return [positions[name] for name in range(len(appearances))]
        remaining = {name: position for name, position in positions.items() if name != worst}
        moved = floor.find_position(rng, worst, remaining)
        if moved is None:
            return None
        positions[worst] = moved
    return None


def solid(appearance: Appearance, centre: Point) -> Solid:
    """Return an object at a position."""
    return Solid(
        shape=appearance.shape,
        material=appearance.material,
        color=appearance.color,
        radius=appearance.radius,
        rotation=appearance.rotation,
        coords=centre,
    )


def least_visible(solids: Sequence[Solid], camera: Camera, options: Options) -> int | None:
    """Return the index of the least visible object that shows too little; None where all show enough."""
    outlines: list[list[Pixel]] = [outline(item, camera) for item in solids]
    visible = visible_pixels(outlines, far_to_near(solids, camera), camera)
    fill = [
        count / max(options.min_visible_px, options.min_visible_share * unoccluded_pixels(polygon), 1)
        for count, polygon in zip(visible, outlines, strict=True)
    ]
    worst = min(range(len(fill)), key=fill.__getitem__)
    return worst if fill[worst] < 1 else None


def placement_holds(
    appearances: Sequence[Appearance], positions: Sequence[Point], camera: Camera, options: Options
) -> bool:
    """Return whether objects keep to all the rules where they are, after some of them changed their appearance."""
    floor = _Floor(appearances, options)
    apart = all(
        floor.may_stand(index, positions[index], other_index, positions[other_index])
        for index in range(len(appearances))
        for other_index in range(index)
    )
    solids = [solid(appearance, position) for appearance, position in zip(appearances, positions, strict=True)]
    return apart and least_visible(solids, camera, options) is None


@dataclass(frozen=True, slots=True)
class _Floor:
    appearances: Sequence[Appearance]
    options: Options

    def find_position(self, rng: random.Random, index: int, occupied: Mapping[int, Point]) -> Point | None:
        """Return a position for one object among the others; None where the tries ran out."""
        reach = _SIDE * scale_for(len(self.appearances))
        radius, decimals = self.appearances[index].radius, self.options.coords_decimals
        for _ in range(_TRIES):
            a, b = rng.uniform(-reach, reach), rng.uniform(-reach, reach)
            x, y = a * math.cos(_TURN) - b * math.sin(_TURN), a * math.sin(_TURN) + b * math.cos(_TURN)
            position = (x, y, radius) if decimals is None else (round(x, decimals), round(y, decimals), radius)
            if all(self.may_stand(index, position, other_index, centre) for other_index, centre in occupied.items()):
                return position
        return None

    def may_stand(self, index: int, position: Point, other_index: int, centre: Point) -> bool:
        dx, dy, min_distance = abs(position[0] - centre[0]), abs(position[1] - centre[1]), margin(len(self.appearances))
        appearance, other_appearance = self.appearances[index], self.appearances[other_index]
        if (
            dx < min_distance
            or dy < min_distance
            or math.hypot(dx, dy) - appearance.radius - other_appearance.radius < _GAP
        ):
            return False
        if must_stand_apart(appearance, other_appearance) and _too_close(position, centre):
            return False
        return not footprints_meet(solid(appearance, position), solid(other_appearance, centre))


def _too_close(first: Point, second: Point) -> bool:
    return abs(first[0] - second[0]) < FAIR_GAP and abs(first[1] - second[1]) < FAIR_GAP


_RESTARTS = 100  # attempts at one scene; at ten objects two are enough on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A scene before anything is asked about it."""

    count: int  # objects
    turn: int  # its number among the scenes of that count, from 0
    object_set: ObjectSet  # the objects, and the values that point
    positions: tuple[Point, ...]  # their centres, in the same order
    camera: Camera

    @property
    def scene(self) -> Scene:
        """Return the scene as data."""
        objects = [
            SceneObject(
                name=f"Object_{number}",
                shape=appearance.shape,
                size=appearance.size,
                material=appearance.material,
                coords=position,
                rotation=appearance.rotation,
                color=appearance.color,
            )
            for number, (appearance, position) in enumerate(
                zip(self.object_set.appearances, self.positions, strict=True)
            )
        ]
        return Scene(self.camera.location, tuple(objects))

    @property
    def solids(self) -> list[Solid]:
        """Return the scene as solids to draw."""
        return [
            solid(appearance, position)
            for appearance, position in zip(self.object_set.appearances, self.positions, strict=True)
        ]


def make_layout(plan: Plan, index: int) -> Layout:
    """Make the scene at one position of a data set, in any order; UsageError where the objects have no room."""
    return draw_layout(plan, *plan.scene_at(index))


def draw_layout(plan: Plan, count: int, turn: int) -> Layout:
    """Draw a scene by its number of objects and its number among those; UsageError where the objects have no room."""
    options = plan.options
    rng = stream(plan.seed, count, turn)
    camera = camera_for(count, options.width, options.height)
    for _ in range(_RESTARTS):
        object_set = draw_objects(rng, count, options)
        positions = place_objects(rng, object_set.appearances, camera, options)
        if positions is not None:
            layout = Layout(count=count, turn=turn, object_set=object_set, positions=tuple(positions), camera=camera)
            if all(len(unique_values(layout.scene, key)) == count for key in TEXTUAL if key != "size"):
                return layout
    raise UsageError(
        f"min_visible_px, min_visible_share: no scene of {count} objects in {_RESTARTS} attempts shows"
        f" {options.min_visible_px} pixels and {options.min_visible_share:.0%} of each; lower them or ask for"
        " fewer objects"
    )

"""Place the objects of a generated scene apart from each other, and each visible enough."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.benchmarks.mate.generator.appearance import Appearance, must_stand_apart
from pipelines.benchmarks.mate.generator.camera import Camera, Pixel, Point, scale_for
from pipelines.benchmarks.mate.generator.parameters import Options, margin
from pipelines.benchmarks.mate.generator.solids import (
    Solid,
    far_to_near,
    footprints_meet,
    outline,
    unoccluded_pixels,
    visible_pixels,
)

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

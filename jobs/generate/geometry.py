"""The geometry of a generated scene: a camera without roll that looks at the origin, and the solids before it.

Outlines, faces and what of each solid is visible are computed in the picture.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from PIL import Image, ImageDraw

Point: TypeAlias = tuple[float, float, float]
Pixel: TypeAlias = tuple[float, float]

LOCATION: Point = (9.915478112284436, 0, 5.34366512298584)  # where the published scenes have it

_FOCAL = 1.09375  # of the picture's width: a lens of 35 mm before a sensor of 32 mm
_ROOMY = 10  # objects that the published floor has room for


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """A camera and the size of its picture."""

    location: Point  # in scene units
    width: int  # in pixels
    height: int  # in pixels

    def depth(self, point: Sequence[float]) -> float:
        """Return the distance from the camera along its line of sight, in scene units."""
        (cx, _, cz), (x, _, z) = self.location, point
        far = math.hypot(cx, cz)
        return ((cx - x) * cx + (cz - z) * cz) / far

    def project(self, point: Sequence[float]) -> Pixel:
        """Return fractional pixels right of and below the picture's upper left corner."""
        (cx, _, cz), (x, y, z) = self.location, point
        far = math.hypot(cx, cz)
        up = (-(x - cx) * cz + (z - cz) * cx) / far
        zoom = self.pixels_per_unit(point)
        return self.width / 2 + zoom * y, self.height / 2 - zoom * up

    def pixels_per_unit(self, point: Sequence[float]) -> float:
        """Return how many pixels a length of 1 across the line of sight takes at `point`."""
        return _FOCAL * self.width / self.depth(point)


def scale_for(count: int) -> float:
    """Return how much longer each side of the floor is for `count` objects than for ten."""
    return max(1.0, math.sqrt(count / _ROOMY))


def camera_for(count: int, width: int, height: int) -> Camera:
    """Return the camera for `count` objects, given the picture's size in pixels for up to ten.

    Beyond ten objects floor, distance and picture grow alike, so that an object keeps its size in pixels.
    """
    scale = scale_for(count)
    x, y, z = LOCATION
    location = LOCATION if scale == 1 else (x * scale, y, z * scale)  # keeps the integer 0 of the published scenes
    return Camera(location=location, width=round(width * scale), height=round(height * scale))


ROUND_STEPS = 48  # corners that stand for a circle; the error is a fifth of a percent of the radius


@dataclass(frozen=True, slots=True, kw_only=True)
class Solid:
    """Shape, appearance and position of one object."""

    shape: str  # a cube has half edge `radius`, a cylinder and a cone have height 2 x `radius`
    material: str  # `metal` or `rubber`
    color: str  # a color word of the benchmark
    radius: float  # 0.35 or 0.7 scene units
    rotation: float  # about Z, taken as radians though the texts call it degrees
    coords: Point  # centre; Z equals the radius, so the solid stands on the floor


@dataclass(frozen=True, slots=True)
class Face:
    """One side of a cube."""

    corners: tuple[Pixel, ...]  # in the picture
    normal: Point  # of length 1, pointing outward, in the scene


def rim(solid: Solid, height: float) -> list[Point]:
    """Return the circle around a solid's axis, `height` above its centre."""
    x, y, z = solid.coords
    turns = (2 * math.pi * step / ROUND_STEPS for step in range(ROUND_STEPS))
    return [(x + solid.radius * math.cos(turn), y + solid.radius * math.sin(turn), z + height) for turn in turns]


def outline(solid: Solid, camera: Camera) -> list[Pixel]:
    """Return the solid's outline in the picture, a convex polygon."""
    points = _horizon(solid, camera) if solid.shape == "sphere" else corners(solid)
    return hull([camera.project(point) for point in points])


def corners(solid: Solid) -> list[Point]:
    """Return points whose hull is the solid (not a sphere)."""
    match solid.shape:
        case "cylinder":
            return rim(solid, -solid.radius) + rim(solid, solid.radius)
        case "cone":
            x, y, z = solid.coords
            return [*rim(solid, -solid.radius), (x, y, z + solid.radius)]
        case _:
            return [(x, y, z) for x, y in _square(solid) for z in (0.0, 2 * solid.radius)]


def cube_faces(solid: Solid, camera: Camera) -> list[Face]:
    """Return the faces of a cube that are turned to the camera."""
    top, ground = 2 * solid.radius, _square(solid)
    faces = [([(x, y, top) for x, y in ground], (0.0, 0.0, 1.0))]
    for (x0, y0), (x1, y1) in zip(ground, ground[1:] + ground[:1], strict=True):
        normal = ((y1 - y0) / top, -(x1 - x0) / top, 0.0)
        faces.append(([(x0, y0, 0.0), (x1, y1, 0.0), (x1, y1, top), (x0, y0, top)], normal))
    visible = []
    for sides, normal in faces:
        centre = [sum(axis) / 4 for axis in zip(*sides, strict=True)]
        if sum(n * (c - eye) for n, c, eye in zip(normal, centre, camera.location, strict=True)) < 0:
            visible.append(Face(tuple(camera.project(corner) for corner in sides), normal))
    return visible


def far_to_near(solids: Sequence[Solid], camera: Camera) -> list[int]:
    """Return the positions of the solids in the order in which they are painted."""
    return sorted(range(len(solids)), key=lambda index: -camera.depth(solids[index].coords))


def number_image(outlines: Sequence[Sequence[Pixel]], order: Sequence[int], camera: Camera) -> Image.Image:
    """Return a picture whose pixels are 1 + the position of the visible solid, or 0.

    `order` lists the positions of the outlines, at most 255, from far to near.
    """
    image = Image.new("L", (camera.width, camera.height))
    draw = ImageDraw.Draw(image)
    for index in order:
        draw.polygon(list(outlines[index]), fill=index + 1)
    return image


def visible_pixels(outlines: Sequence[Sequence[Pixel]], order: Sequence[int], camera: Camera) -> list[int]:
    """Count the pixels of each solid that no nearer one covers; arguments as for `number_image`."""
    return number_image(outlines, order, camera).histogram()[1 : len(outlines) + 1]


def unoccluded_pixels(polygon: Sequence[Pixel]) -> int:
    """Count the pixels that an outline would cover if nothing were before it and the picture had no edge."""
    left, top = (math.floor(min(axis)) - 1 for axis in zip(*polygon, strict=True))
    right, bottom = (math.ceil(max(axis)) + 2 for axis in zip(*polygon, strict=True))
    tile = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(tile).polygon([(x - left, y - top) for x, y in polygon], fill=1)
    return tile.histogram()[1]


def area(polygon: Sequence[Pixel]) -> float:
    """Return the area of a polygon, in square pixels, whether or not it lies in the picture."""
    pairs = zip(polygon, [*polygon[1:], *polygon[:1]], strict=True)
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2


def hull(points: Sequence[Pixel]) -> list[Pixel]:
    """Return the smallest convex polygon around `points`, by a sweep from left to right and back."""
    ordered = sorted(set(points))
    lower, upper = _chain(ordered), _chain(ordered[::-1])
    return lower[:-1] + upper[:-1]


def footprints_meet(first: Solid, second: Solid) -> bool:
    """Return whether two solids would overlap on the floor; corners of cubes reach beyond their radius."""
    if "cube" not in {first.shape, second.shape}:
        return math.dist(first.coords[:2], second.coords[:2]) < first.radius + second.radius
    if first.shape != "cube":
        first, second = second, first
    if second.shape != "cube":
        x, y = _in_frame(first, second.coords)
        return math.hypot(max(abs(x) - first.radius, 0), max(abs(y) - first.radius, 0)) < second.radius
    # Two squares are apart exactly if a side of one has all of the other beyond it.
    return not (_beyond(first, second) or _beyond(second, first))


def _beyond(base: Solid, solid: Solid) -> bool:
    corners = [_in_frame(base, corner) for corner in _square(solid)]
    return any(min(sign * corner[axis] for corner in corners) >= base.radius for axis in (0, 1) for sign in (1, -1))


def _in_frame(base: Solid, point: Sequence[float]) -> tuple[float, float]:
    """Return the ground coordinates of a point in the frame of a rotated cube."""
    dx, dy = point[0] - base.coords[0], point[1] - base.coords[1]
    cos, sin = math.cos(base.rotation), math.sin(base.rotation)
    return dx * cos + dy * sin, dy * cos - dx * sin


def _square(cube: Solid) -> list[tuple[float, float]]:
    x, y, _ = cube.coords
    cos, sin = cube.radius * math.cos(cube.rotation), cube.radius * math.sin(cube.rotation)
    return [(x + a * cos - b * sin, y + a * sin + b * cos) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def _horizon(sphere: Solid, camera: Camera) -> list[Point]:
    """Return the circle on a sphere that lines of sight touch: its picture is the outline."""
    offset = [eye - centre for eye, centre in zip(camera.location, sphere.coords, strict=True)]
    distance = math.hypot(*offset)
    x, y, z = (part / distance for part in offset)
    level = math.hypot(x, y)
    aside, upward = (-y / level, x / level, 0.0), (-z * x / level, -z * y / level, level)
    near = sphere.radius**2 / distance
    wide = sphere.radius * math.sqrt(1 - (sphere.radius / distance) ** 2)
    points = []
    for step in range(ROUND_STEPS):
        cos, sin = (wide * turn(2 * math.pi * step / ROUND_STEPS) for turn in (math.cos, math.sin))
        a, b, c = (
            centre + near * towards + cos * across + sin * above
            for centre, towards, across, above in zip(sphere.coords, (x, y, z), aside, upward, strict=True)
        )
        points.append((a, b, c))
    return points


def _chain(points: Sequence[Pixel]) -> list[Pixel]:
    chain: list[Pixel] = []
    for point in points:
        while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain


def _turn(first: Pixel, second: Pixel, third: Pixel) -> float:
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])

"""Draw the picture of a generated scene with Pillow: floor, shadows, then the solids from far to near.

Everything is drawn larger and then reduced, which smooths the edges. Light falls from the upper front left. The picture
holds no text and its file no metadata.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

from jobs.generate.geometry import (
    ROUND_STEPS,
    Camera,
    Face,
    Pixel,
    Point,
    Solid,
    area,
    corners,
    cube_faces,
    far_to_near,
    hull,
    outline,
    rim,
)

Rgb: TypeAlias = tuple[int, int, int]

BASE_RGB: dict[str, Rgb] = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}

_LIGHT = (0.42, -0.45, 0.788)  # towards it, of length 1
_FLOOR: tuple[Rgb, Rgb] = ((150, 151, 154), (214, 213, 210))  # far, near
_SHADOW = 105  # darkest part of a shadow, of 255
_SHADOW_EDGE = 0.1  # blur, in scene units
_SHADOW_STRETCH = 0.55  # of the true length: a low sun would hide small objects in the shadow of large ones
_METAL_DIMS = 0.9
_ZOOM = 2


def draw_picture(solids: Sequence[Solid], camera: Camera) -> Image.Image:
    """Draw a scene as an RGB picture; the same bytes for the same solids and version of Pillow."""
    large = replace(camera, width=camera.width * _ZOOM, height=camera.height * _ZOOM)
    size = large.width, large.height
    column = Image.linear_gradient("L").resize((1, size[1]), Image.Resampling.BILINEAR)
    image = ImageOps.colorize(column, *_FLOOR).resize(size, Image.Resampling.NEAREST)
    shadow = _shadows(solids, camera).resize(size, Image.Resampling.BICUBIC)
    image.paste((16, 16, 22), (0, 0), shadow)
    for index in far_to_near(solids, camera):
        _paint(image, solids[index], large)
    return image.resize((camera.width, camera.height), Image.Resampling.LANCZOS)


def _shadows(solids: Sequence[Solid], camera: Camera) -> Image.Image:
    """Return the darkness of the floor: shadows of the solids, and the dark line on which each stands."""
    size = camera.width, camera.height
    cast, foot = Image.new("L", size), Image.new("L", size)
    for solid in solids:
        ball = solid.shape == "sphere"
        around = [*_rim(solid, -1, 0.8), *_rim(solid, 1, 0.8)] if ball else corners(solid)
        fallen = hull([camera.project(_fallen(point)) for point in around])
        ImageDraw.Draw(cast).polygon(fallen, fill=_SHADOW)
        ground = [camera.project(point) for point in _rim(solid, -1, 0.6 if ball else 1.02)]
        ImageDraw.Draw(foot).polygon(ground, fill=_SHADOW)
    soft = _SHADOW_EDGE * camera.pixels_per_unit((0, 0, 0))
    return ImageChops.lighter(
        cast.filter(ImageFilter.GaussianBlur(soft)), foot.filter(ImageFilter.GaussianBlur(soft / 2))
    )


def _rim(solid: Solid, level: float, width: float) -> list[Point]:
    """Return a circle around a solid, at its top (1) or foot (-1), `width` times as wide."""
    x, y, _ = solid.coords
    circle = rim(solid, level * solid.radius)
    return [(x + width * (px - x), y + width * (py - y), pz) for px, py, pz in circle]


def _fallen(point: Point) -> Point:
    x, y, z = point
    reach = _SHADOW_STRETCH * z / _LIGHT[2]
    return x - reach * _LIGHT[0], y - reach * _LIGHT[1], 0.0


# ------------------------------------------------------------------------------------------------------------- solids


@dataclass(frozen=True, slots=True)
class _Tile:
    """The part of the picture around one solid; positions are shares of the solid's width and height."""

    image: Image.Image
    mask: Image.Image
    left: int
    top: int
    box: tuple[float, float, float, float]

    def at(self, points: Sequence[Pixel]) -> list[Pixel]:
        return [(x - self.left, y - self.top) for x, y in points]

    def inside(self, across: float, down: float) -> Pixel:
        left, top, right, bottom = self.box
        return left + across * (right - left), top + down * (bottom - top)

    @property
    def span(self) -> float:
        return self.box[2] - self.box[0]


def _paint(image: Image.Image, solid: Solid, camera: Camera) -> None:
    shape = outline(solid, camera)
    xs, ys = [x for x, _ in shape], [y for _, y in shape]
    left, top = math.floor(min(xs)) - 2, math.floor(min(ys)) - 2
    size = math.ceil(max(xs)) + 3 - left, math.ceil(max(ys)) + 3 - top
    tile = _Tile(
        Image.new("RGB", size, _shaded(solid, 0.6)),
        Image.new("L", size),
        left,
        top,
        (min(xs) - left, min(ys) - top, max(xs) - left, max(ys) - top),
    )
    ImageDraw.Draw(tile.mask).polygon(tile.at(shape), fill=255)
    _BODY[solid.shape](tile, solid, camera)
    (_polish if solid.material == "metal" else _dull)(tile, solid, camera)
    image.paste(tile.image, (left, top), tile.mask)


def _sphere(tile: _Tile, solid: Solid, _camera: Camera) -> None:
    across = round(tile.span * 1.7)
    gradient = Image.radial_gradient("L").resize((across, across), Image.Resampling.BICUBIC)
    ball = ImageOps.colorize(
        gradient, _shaded(solid, 1.05), _shaded(solid, 0.45), mid=_shaded(solid, 0.86), midpoint=100
    )
    tile.image.paste(_shaded(solid, 0.45), (0, 0, *tile.image.size))
    x, y = tile.inside(0.36, 0.32)
    tile.image.paste(ball, (round(x - across / 2), round(y - across / 2)))


def _cylinder(tile: _Tile, solid: Solid, camera: Camera) -> None:
    top = rim(solid, solid.radius)
    _wrap(tile, solid, camera, slope=0, high=top)
    lid = [camera.project(point) for point in top]
    ImageDraw.Draw(tile.image).polygon(tile.at(lid), fill=_shaded(solid, _shade((0, 0, 1)) * 1.05))


def _cone(tile: _Tile, solid: Solid, camera: Camera) -> None:
    x, y, z = solid.coords
    _wrap(tile, solid, camera, slope=0.5, high=[(x, y, z + solid.radius)] * ROUND_STEPS)


def _wrap(tile: _Tile, solid: Solid, camera: Camera, *, slope: float, high: Sequence[Point]) -> None:
    """Paint a mantle strip by strip, back to front, each lit by its own normal."""
    draw = ImageDraw.Draw(tile.image)
    low = rim(solid, -solid.radius)
    length = math.hypot(1, slope)
    strips = []
    for step, after in enumerate([*range(1, ROUND_STEPS), 0]):
        turn = 2 * math.pi * (step + 0.5) / ROUND_STEPS
        normal = (math.cos(turn) / length, math.sin(turn) / length, slope / length)
        strips.append((normal, (low[step], low[after], high[after], high[step])))
    for normal, strip in sorted(strips, key=lambda item: item[0][0]):
        draw.polygon(tile.at([camera.project(corner) for corner in strip]), fill=_shaded(solid, _shade(normal)))
    tile.image.paste(tile.image.filter(ImageFilter.GaussianBlur(tile.span / 60)))


def _cube(tile: _Tile, solid: Solid, camera: Camera) -> None:
    draw = ImageDraw.Draw(tile.image)
    for face in cube_faces(solid, camera):
        draw.polygon(tile.at(face.corners), fill=_shaded(solid, _shade(face.normal)))


_BODY: dict[str, Callable[[_Tile, Solid, Camera], None]] = {
    "sphere": _sphere,
    "cylinder": _cylinder,
    "cone": _cone,
    "cube": _cube,
}


def _shade(normal: Point) -> float:
    return 0.45 + 0.6 * max(0.0, sum(n * light for n, light in zip(normal, _LIGHT, strict=True)))


def _shaded(solid: Solid, shade: float) -> Rgb:
    if solid.material == "metal":
        shade *= _METAL_DIMS
    red, green, blue = (min(255, round(part * shade)) for part in BASE_RGB[solid.color])
    return red, green, blue


# ---------------------------------------------------------------------------------------------------------- materials

_SPOT = {"sphere": (0.34, 0.3), "cylinder": (0.28, 0.5), "cone": (0.37, 0.68)}
_TURNS = {"cylinder": (34, 54), "cone": (20, 44)}  # degrees to the right of the line of sight, where the mantle shines


def _dull(tile: _Tile, solid: Solid, camera: Camera) -> None:
    """Paint rubber: one wide soft highlight."""
    glow = _blob(tile, _spot(tile, solid, camera), 0.28, 52)
    tile.image.paste((255, 255, 255), (0, 0), glow.filter(ImageFilter.GaussianBlur(tile.span * 0.12)))


def _polish(tile: _Tile, solid: Solid, camera: Camera) -> None:
    """Paint metal: an upright reflection and a sharp white spot."""
    band = Image.new("L", tile.image.size)
    for polygon in _reflections(tile, solid, camera):
        ImageDraw.Draw(band).polygon(polygon, fill=185)
    tile.image.paste((255, 255, 255), (0, 0), band.filter(ImageFilter.GaussianBlur(tile.span * 0.02)))
    spot = _blob(tile, _spot(tile, solid, camera), 0.07, 255)
    tile.image.paste((255, 255, 255), (0, 0), spot.filter(ImageFilter.GaussianBlur(tile.span * 0.012)))


def _spot(tile: _Tile, solid: Solid, camera: Camera) -> Pixel:
    """Return where the highlight is, in the tile: upper left, on a cube of the side that is large and light."""
    if solid.shape != "cube":
        return tile.inside(*_SPOT[solid.shape])
    side = max(_sides(solid, camera), key=lambda face: area(face.corners) * _shade(face.normal))
    foot, other_foot, other_top, top = side.corners
    share = 0.3 if foot[0] < other_foot[0] else 0.7
    (spot,) = tile.at([_between(_between(foot, other_foot, share), _between(top, other_top, share), 0.7)])
    return spot


def _sides(cube: Solid, camera: Camera) -> list[Face]:
    return [face for face in cube_faces(cube, camera) if face.normal[2] == 0]


def _reflections(tile: _Tile, solid: Solid, camera: Camera) -> list[list[Pixel]]:
    """Return where a window to the right would be mirrored, in the tile."""
    if solid.shape == "sphere":
        turns = [math.radians(degrees) for degrees in range(-58, 59, 4)]
        outer = [(0.5 + 0.43 * math.cos(turn), 0.5 + 0.43 * math.sin(turn)) for turn in turns]
        inner = [(0.5 + 0.31 * math.cos(turn), 0.5 + 0.43 * math.sin(turn)) for turn in turns]
        return [[tile.inside(*point) for point in [*outer, *inner[::-1]]]]
    if solid.shape == "cube":
        return [
            tile.at([_between(a, b, 0.6), _between(a, b, 0.78), _between(d, c, 0.78), _between(d, c, 0.6)])
            for a, b, c, d in (face.corners for face in _sides(solid, camera))
        ]
    x, y, z = solid.coords
    edges = map(math.radians, _TURNS[solid.shape])
    feet = [(x + solid.radius * math.cos(turn), y + solid.radius * math.sin(turn)) for turn in edges]
    low = [camera.project((*foot, 0.0)) for foot in feet]
    if solid.shape == "cone":
        return [tile.at([*low, camera.project((x, y, z + solid.radius))])]
    return [tile.at([*low, *(camera.project((*foot, 2 * solid.radius)) for foot in feet[::-1])])]


def _between(start: Pixel, end: Pixel, share: float) -> Pixel:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _blob(tile: _Tile, centre: Pixel, reach: float, strength: int) -> Image.Image:
    x, y = centre
    radius = reach * tile.span
    blob = Image.new("L", tile.image.size)
    ImageDraw.Draw(blob).ellipse((x - radius, y - radius, x + radius, y + radius), fill=strength)
    return blob

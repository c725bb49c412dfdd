"""A small canvas for the demo's clips, and the few curves their motion is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

__all__ = ["HEIGHT", "WIDTH", "Canvas", "Color", "Point", "between", "mix", "move", "smooth", "turned"]

WIDTH, HEIGHT = 320, 240
SCALE = 2
"""Drawn so many times larger and shrunk at the end, which smooths the edges."""

Point = tuple[float, float]
Color = tuple[int, ...]
"""Red, green, blue and perhaps opacity, 0 to 255."""


class Canvas:
    """A picture of 320 x 240; all coordinates are in its pixels, x to the right and y down."""

    def __init__(self, color: Color = (255, 255, 255)) -> None:
        self._image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), color)
        # In this mode a colour with an opacity is laid over what is there.
        self._draw = ImageDraw.Draw(self._image, "RGBA")

    def box(self, left: float, top: float, right: float, bottom: float, color: Color, *, corner: float = 0) -> None:
        """Draw a rectangle, with rounded corners of radius `corner`."""
        edges = (left * SCALE, top * SCALE, right * SCALE - 1, bottom * SCALE - 1)
        self._draw.rounded_rectangle(edges, corner * SCALE, fill=color)

    def oval(self, center: Point, width: float, height: float, color: Color) -> None:
        """Draw an ellipse with upright axes; `width` and `height` are half axes."""
        self._draw.ellipse(_around(center, width, height), fill=color)

    def disc(self, center: Point, radius: float, color: Color) -> None:
        """Draw a filled circle."""
        self.oval(center, radius, radius, color)

    def shape(self, points: Sequence[Point], color: Color) -> None:
        """Draw a filled polygon."""
        self._draw.polygon([(x * SCALE, y * SCALE) for x, y in points], fill=color)

    def stroke(self, points: Sequence[Point], color: Color, width: float = 2) -> None:
        """Draw a line through all points, with round ends."""
        scaled = [(x * SCALE, y * SCALE) for x, y in points]
        self._draw.line(scaled, fill=color, width=round(width * SCALE), joint="curve")
        for point in (points[0], points[-1]):
            self.disc(point, width / 2, color)

    def bow(self, center: Point, radius: float, angles: tuple[float, float], color: Color, width: float = 2) -> None:
        """Draw an arc from the first to the second angle: degrees, clockwise from the right."""
        start, end = angles
        steps = [math.radians(start + (end - start) * i / 12) for i in range(13)]
        x, y = center
        self.stroke([(x + radius * math.cos(a), y + radius * math.sin(a)) for a in steps], color, width)

    def words(self, center: Point, text: str, height: float, color: Color) -> None:
        """Draw a line of text around a point, in Pillow's own font."""
        x, y = center
        font = ImageFont.load_default(size=height * SCALE)
        self._draw.text((x * SCALE, y * SCALE), text, fill=color, font=font, anchor="mm")

    def fade(self, top: float, bottom: float, colors: tuple[Color, Color]) -> None:
        """Draw a band over the full width that changes from the upper to the lower colour."""
        rows = round((bottom - top) * SCALE)
        column = np.linspace(colors[0], colors[1], rows).round().astype(np.uint8)
        band = Image.fromarray(column[:, None]).resize((WIDTH * SCALE, rows), Image.Resampling.NEAREST)
        self._image.paste(band, (0, round(top * SCALE)))

    def done(self) -> Image.Image:
        """Return the finished picture."""
        return self._image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _around(center: Point, width: float, height: float) -> tuple[float, float, float, float]:
    x, y = center
    return ((x - width) * SCALE, (y - height) * SCALE, (x + width) * SCALE, (y + height) * SCALE)


def between(time: float, start: float, end: float) -> float:
    """Return how much of a span of time has passed, 0 before and 1 after it."""
    return min(max((time - start) / (end - start), 0.0), 1.0)


def smooth(part: float) -> float:
    """Ease a share between 0 and 1 in and out."""
    return part * part * (3 - 2 * part)


def move(start: Point, end: Point, part: float) -> Point:
    """Return the point at a part of the way."""
    return (start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)


def mix(first: Color, second: Color, part: float) -> Color:
    """Mix two colours."""
    return tuple(round(a + (b - a) * part) for a, b in zip(first, second, strict=True))


def turned(point: Point, angle: float, origin: Point) -> Point:
    """Return a point relative to `origin`, turned clockwise about it by `angle` radians, in clip coordinates."""
    x, y = point
    cos, sin = math.cos(angle), math.sin(angle)
    return (origin[0] + x * cos - y * sin, origin[1] + x * sin + y * cos)

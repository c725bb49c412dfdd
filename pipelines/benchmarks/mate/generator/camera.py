"""The camera of generated scenes: where a point of space falls in the picture.

A fixed camera looks at the origin, without roll, Z up. A larger Y falls further right, a larger X is nearer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
        """Distance from the camera along its line of sight, in scene units."""
        (cx, _, cz), (x, _, z) = self.location, point
        far = math.hypot(cx, cz)
        return ((cx - x) * cx + (cz - z) * cz) / far

    def project(self, point: Sequence[float]) -> Pixel:
        """Pixels right of and below the picture's upper left corner; a fraction counts."""
        (cx, _, cz), (x, y, z) = self.location, point
        far = math.hypot(cx, cz)
        up = (-(x - cx) * cz + (z - cz) * cx) / far
        zoom = self.pixels_per_unit(point)
        return self.width / 2 + zoom * y, self.height / 2 - zoom * up

    def pixels_per_unit(self, point: Sequence[float]) -> float:
        """How many pixels a length of 1 across the line of sight takes at `point`."""
        return _FOCAL * self.width / self.depth(point)


def scale_for(count: int) -> float:
    """How much larger than for ten objects the floor of `count` objects is, along each side."""
    return max(1.0, math.sqrt(count / _ROOMY))


def camera_for(count: int, width: int, height: int) -> Camera:
    """The camera for `count` objects.

    Beyond ten objects floor, distance and picture grow alike, so that an object keeps its size in pixels.

    Args:
        count: number of objects.
        width: of the picture for up to ten objects, in pixels.
        height: of the same.
    """
    scale = scale_for(count)
    x, y, z = LOCATION
    location = LOCATION if scale == 1 else (x * scale, y, z * scale)  # keeps the integer 0 of the published scenes
    return Camera(location=location, width=round(width * scale), height=round(height * scale))

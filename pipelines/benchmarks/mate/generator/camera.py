"""The camera of generated scenes: fixed, without roll, looking at the origin; project points into the picture."""

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

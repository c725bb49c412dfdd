"""Pictures of generated scenes with what each part of them shows, and clips of two colors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from PIL import Image

from jobs.generate.geometry import far_to_near, number_image, outline
from jobs.generate.objects import make_layout
from jobs.generate.parameters import Options, Plan
from jobs.generate.picture import BASE_RGB, draw_picture
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, Scene

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WIDTH, HEIGHT = 420, 280
"""Pixels of a picture as the processor resizes it."""
CELL: Final = 28
"""Pixels of the side of what one image token shows: two by two patches of 14."""
CLIP_FRAMES, CLIP_WIDTH, CLIP_HEIGHT = 4, 84, 56
_MOST_FRAMES: Final = 32
_OBJECTS: Final = tuple(range(3, 11))
_LEAST_PIXELS: Final = 120
"""Pixels of a cell, of 784, that an object must cover for the cell to show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenes:
    """Generated scenes of 3 to 10 objects."""

    pictures: Array  # uint8 [scenes, HEIGHT, WIDTH, 3]
    cells: Array  # int64 [scenes, cells, 2]: index of the color and of the shape, one past the last for the floor
    scenes: tuple[Scene, ...]  # the same as data


def make_scenes(seed: int, count: int) -> Scenes:
    """Draw scenes, a tenth of a second of one core for each three."""
    plan = Plan(counts=_OBJECTS, examples=count, seed=seed, options=Options())
    pictures = np.zeros((count, HEIGHT, WIDTH, 3), np.uint8)
    cells = []
    scenes = []
    for index in range(count):
        layout = make_layout(plan, index)
        solids, camera = layout.solids, layout.camera
        pictures[index] = np.asarray(
            draw_picture(solids, camera).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC),
        )
        outlines = [outline(solid, camera) for solid in solids]
        numbers = number_image(outlines, far_to_near(solids, camera), camera)
        cells.append(_cells(np.asarray(numbers.resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)), layout.scene))
        scenes.append(layout.scene)
    return Scenes(pictures=pictures, cells=np.stack(cells), scenes=tuple(scenes))


def _cells(numbers: Array, scene: Scene) -> Array:
    """Return the classes of each cell, by the object that covers most of it; `numbers` is 1 + an object, or 0."""
    rows, columns = HEIGHT // CELL, WIDTH // CELL
    tiles = numbers.reshape(rows, CELL, columns, CELL).swapaxes(1, 2).reshape(rows * columns, CELL * CELL)
    classes = np.tile(np.array([len(COLORS), len(SHAPES)]), (rows * columns, 1))
    for cell, tile in enumerate(tiles):
        covered = np.bincount(tile, minlength=len(scene.objects) + 1)[1:]
        most = int(covered.argmax())
        if covered[most] >= _LEAST_PIXELS:
            shown = scene.objects[most]
            classes[cell] = COLORS.index(shown.color), SHAPES.index(shown.shape)
    return classes


def mirror(picture: Array, cells: Array) -> tuple[Array, Array]:
    """Return a picture and its cells with left and right exchanged."""
    grid = cells.reshape(HEIGHT // CELL, WIDTH // CELL, 2)
    return picture[:, ::-1], grid[:, ::-1].reshape(cells.shape)


def make_clip(rng: np.random.Generator) -> tuple[Array, str, str]:
    """Draw a noisy clip that shows one color, then another; uint8 [frames, height, width, 3] and the two colors."""
    first, last = (COLORS[place] for place in rng.choice(len(COLORS), 2, replace=False))
    frames = [first] * (CLIP_FRAMES // 2) + [last] * (CLIP_FRAMES // 2)
    light = rng.uniform(0.8, 1.15)
    clean = np.stack([np.full((CLIP_HEIGHT, CLIP_WIDTH, 3), BASE_RGB[color], float) for color in frames]) * light
    return np.clip(clean + rng.normal(0, 12, clean.shape), 0, 255).astype(np.uint8), first, last


def make_noise(rng: np.random.Generator, count: int) -> Array:
    """Draw clips of noise, all of one length and size; uint8 [count, frames, height, width, 3]."""
    scale, frames = int(rng.integers(1, 4)), 2 * int(rng.integers(1, _MOST_FRAMES // 2 + 1))
    return rng.integers(0, 256, (count, frames, scale * CLIP_HEIGHT, scale * CLIP_WIDTH, 3), dtype=np.uint8)

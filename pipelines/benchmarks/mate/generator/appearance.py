"""Draw the appearance of the objects of a generated scene, and which of their values may point at them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.benchmarks.mate.generator.parameters import Options
from pipelines.benchmarks.mate.scene import COLORS, MATERIALS, SHAPES

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

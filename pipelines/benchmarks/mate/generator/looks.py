"""Draw what the objects of a generated scene look like, and which of their values may point at them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.benchmarks.mate.generator.parameters import Options
from pipelines.benchmarks.mate.scene import COLORS, MATERIALS, SHAPES

RADII = (0.35, 0.7)
_SPELLINGS = {0.35: (0.351, 0.35), 0.7: (0.7, 0.701)}  # the last digit means nothing and is still a different text


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The look of one object without its position."""

    shape: str  # one of the benchmark's shapes
    material: str  # `metal` or `rubber`
    color: str  # one of the benchmark's colors
    radius: float  # 0.35 or 0.7 scene units
    size: float  # the radius as the texts spell it, see `_spell_sizes`
    rotation: float  # in [0, 360)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The objects of one scene, and the visual values that point."""

    looks: tuple[Look, ...]  # in the order of their names
    key_colors: tuple[str, ...]  # each held by one object, no object holding two keys
    key_shapes: tuple[str, ...]  # the same of shapes

    def keys(self, attribute: str) -> tuple[str, ...]:
        """Return the values of `color` or `shape` that point."""
        return self.key_colors if attribute == "color" else self.key_shapes

    def free(self, attribute: str) -> list[str]:
        """Return the values of `color` or `shape` that any object may take."""
        return [value for value in (COLORS if attribute == "color" else SHAPES) if value not in self.keys(attribute)]

    def repainted(self, changes: Mapping[int, Mapping[str, str]]) -> "Cast":
        """Return the same scene with other attributes at some positions."""
        looks = list(self.looks)
        for index, values in changes.items():
            looks[index] = replace(looks[index], **values)  # type: ignore[arg-type]  # names of text fields
        return replace(self, looks=tuple(looks))


def draw_cast(rng: random.Random, count: int, options: Options) -> Cast:
    """Draw the objects of one scene, every attribute uniform but for the pointing values, which are made unique."""
    return _with_keys(rng, _spell_sizes(rng, [_draw_look(rng) for _ in range(count)]), options)


def redraw_cast(rng: random.Random, cast: Cast, options: Options) -> Cast:
    """Draw shapes, materials, colors and pointing values again for the same sizes and rotations."""
    looks = [
        replace(look, shape=rng.choice(SHAPES), material=rng.choice(MATERIALS), color=rng.choice(COLORS))
        for look in cast.looks
    ]
    return _with_keys(rng, looks, options)


def must_stand_apart(first: Look, second: Look) -> bool:
    """Return whether only their positions distinguish two objects once their color, or their shape, is hidden."""
    same_size_and_material = first.material == second.material and first.radius == second.radius
    return same_size_and_material and (first.shape == second.shape or first.color == second.color)


def _with_keys(rng: random.Random, looks: list[Look], options: Options) -> Cast:
    count = len(looks)
    shapes = rng.sample(SHAPES, options.max_key_shapes)
    colors = rng.sample(COLORS, min(options.max_key_colors, count - len(shapes)))
    cast = Cast(looks=tuple(looks), key_colors=tuple(colors), key_shapes=tuple(shapes))
    for index, look in enumerate(looks):
        shape = rng.choice(cast.free("shape")) if look.shape in shapes else look.shape
        color = rng.choice(cast.free("color")) if look.color in colors else look.color
        looks[index] = replace(look, shape=shape, color=color)
    owners = rng.sample(range(count), len(shapes) + len(colors))
    for index, color in zip(owners, colors, strict=False):  # the owners of shapes follow
        looks[index] = replace(looks[index], color=color)
    for index, shape in zip(owners[len(colors) :], shapes, strict=True):
        looks[index] = replace(looks[index], shape=shape)
    return replace(cast, looks=tuple(looks))


def _draw_look(rng: random.Random) -> Look:
    radius = rng.choice(RADII)
    return Look(
        shape=rng.choice(SHAPES),
        material=rng.choice(MATERIALS),
        color=rng.choice(COLORS),
        radius=radius,
        size=radius,
        rotation=rng.random() * 360,
    )


def _spell_sizes(rng: random.Random, looks: Sequence[Look]) -> list[Look]:
    """Spell sizes one way a class; in half of the scenes one object the other way, so that its size can point."""
    usual = {radius: rng.choice(spellings) for radius, spellings in _SPELLINGS.items()}
    spelled = [replace(look, size=usual[look.radius]) for look in looks]
    if rng.random() < 0.5:
        index = rng.randrange(len(looks))
        radius = looks[index].radius
        (unusual,) = set(_SPELLINGS[radius]) - {usual[radius]}
        spelled[index] = replace(spelled[index], size=unusual)
    return spelled

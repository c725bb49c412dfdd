"""Find which attributes that picture and text share identify one object of a scene.

Sizes are compared as small or large. Coordinates always identify an object and are not counted.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipelines.benchmarks.mate.answers import Gold
from pipelines.benchmarks.mate.scene import KEYS, Scene

LINKABLE = ("shape", "size", "material", "color")
LINK_NAMES = {"shape": "Shape", "material": "Material", "color": "Color", "size": "Size"}  # in the order of a category


@dataclass(frozen=True, slots=True)
class Linking:
    """The attribute combinations that identify one object, without coordinates."""

    sets: tuple[tuple[str, ...], ...]  # every unique combination, shortest first, then in the order of the keys

    @property
    def k(self) -> int:
        """Attributes in the smallest combination; 0 where only coordinates link."""
        return len(self.sets[0]) if self.sets else 0

    @property
    def smallest(self) -> tuple[tuple[str, ...], ...]:
        """All combinations of that size."""
        return tuple(names for names in self.sets if len(names) == self.k)


def linking(scene: Scene, object_index: int, hidden: Collection[str] = ()) -> Linking:
    """Return the combinations of shape, size class, material and color, less `hidden`, that single out one object."""
    usable = [key for key in LINKABLE if key not in hidden]
    shared = _shared(scene, object_index, usable)
    return Linking(
        tuple(names for names in _combinations(usable) if not any(rows.issuperset(names) for rows in shared))
    )


def linking_attributes(scene: Scene, object_index: int, hidden: Collection[str] = ()) -> list[dict[str, Gold]]:
    """Return the same as attribute -> value, as the data's column of this name has it, with coordinates."""
    usable = [key for key in KEYS if key in {*LINKABLE, "3d_coords"} and key not in hidden]
    shared = _shared(scene, object_index, usable)
    target = scene.objects[object_index]
    return [
        {key: target.value(key) for key in names}
        for names in _combinations(usable)
        if not any(rows.issuperset(names) for rows in shared)
    ]


def link_category(link: Linking) -> str | None:
    """Return the row of the table by linking type, such as `Shape+Material`; None where the smallest is not unique."""
    if link.k == 0:
        return "3D coords only"
    if len(link.smallest) > 1:
        return None
    return "+".join(name for key, name in LINK_NAMES.items() if key in link.smallest[0])


def _combinations(keys: Sequence[str]) -> list[tuple[str, ...]]:
    return [names for size in range(1, len(keys) + 1) for names in combinations(keys, size)]


def _shared(scene: Scene, object_index: int, keys: Sequence[str]) -> set[frozenset[str]]:
    """Return, for each other object, the attributes that look the same."""
    target = scene.objects[object_index]
    return {
        frozenset(key for key in keys if item.visible_value(key) == target.visible_value(key))
        for index, item in enumerate(scene.objects)
        if index != object_index
    }

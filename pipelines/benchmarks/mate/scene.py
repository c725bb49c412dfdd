"""MATE scenes: their objects, which of them a question means, and which attributes identify it in picture and text.

Pure functions. Lengths are in scene units; X is depth (larger is nearer to the camera), Y is horizontal (larger is
further right), Z is up. Attributes have the data's names, `3d_coords` included. To identify an object, sizes are
compared as small or large, and coordinates, which always identify it, are not counted.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from pipelines.benchmarks.mate.answers import Gold, decode, is_number

# In the order of the list of options that a prompt shows.
COLORS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
SHAPES = ("cylinder", "sphere", "cone", "cube")
MATERIALS = ("metal", "rubber")

# In the order that settles ties between (target, pointer) pairs.
VISUAL = ("color", "shape")
TEXTUAL = ("name", "3d_coords", "rotation", "size")

KEYS = ("name", "shape", "size", "material", "3d_coords", "rotation", "color")  # of an object, in the data's order

TASKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "img2txt": (VISUAL, TEXTUAL),
    "txt2img": (TEXTUAL, VISUAL),
    "img2img": (VISUAL, VISUAL),
    "txt2txt": (TEXTUAL, TEXTUAL),
}
"""Task -> pointer attributes, target attributes."""
CROSSMODAL = ("img2txt", "txt2img")
UNIMODAL = ("img2img", "txt2txt")
FILE_KINDS: Mapping[str, tuple[str, ...]] = {"mm": CROSSMODAL, "um": UNIMODAL}
"""First part of a file's name -> its tasks."""

_LARGE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneObject:
    """One solid of a scene."""

    name: str  # `Object_<position in the list>`
    shape: str  # one of `SHAPES`
    size: float  # 0.35 or 0.7, or the same with a last digit 1: noise to the eye, a difference to the text
    material: str  # one of `MATERIALS`
    coords: tuple[float, float, float]  # centre of the solid: X, Y, Z
    rotation: float  # in degrees, by the texts; not visible in the picture
    color: str  # one of `COLORS`

    def value(self, attribute: str) -> Gold:
        """Return an attribute as the data spells it; coordinates are a list."""
        if attribute == "3d_coords":
            return list(self.coords)
        return cast("Gold", getattr(self, attribute))

    def visible_value(self, attribute: str) -> Gold:
        """Return an attribute as one can see it: a size is only small or large."""
        if attribute == "size":
            return "small" if self.size < _LARGE else "large"
        return self.value(attribute)

    def as_json(self, hidden: Collection[str] = ()) -> dict[str, Gold]:
        """Return the object as the data lists it, without the `hidden` attributes."""
        return {key: self.value(key) for key in KEYS if key not in hidden}


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene, described by a picture and by a JSON text."""

    camera_location: tuple[float, ...]  # X, Y, Z of the camera
    objects: tuple[SceneObject, ...]  # in the order of the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question for the target attribute of the one object that the pointer singles out."""

    task: str  # one of `TASKS`
    pointer_attribute: str  # the attribute that points
    pointer_value: Gold  # its value, held by one object of the scene
    target_attribute: str  # the attribute asked for

    def object_index(self, scene: Scene) -> int:
        """Return the position of the object meant; ValueError where the pointer is not unique in `scene`."""
        return find_object(scene, self.pointer_attribute, self.pointer_value)

    def gold(self, scene: Scene) -> Gold:
        """Return the right answer in `scene`; errors as `object_index`."""
        return scene.objects[self.object_index(scene)].value(self.target_attribute)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Attributes that the prompt's JSON does not show."""
        return hidden_attributes(self.task, self.pointer_attribute, self.target_attribute)


def canonical_task(name: str) -> str:
    """Return the paper's spelling of a task (`img2data` is accepted); ValueError for no such task."""
    task = name.strip().replace("data", "txt")
    if task not in TASKS:
        raise ValueError(f"unknown task of MATE: {name!r}; the tasks are {', '.join(TASKS)}")
    return task


def hidden_attributes(task: str, pointer: str, target: str) -> tuple[str, ...]:
    """Return what is deleted from the JSON of a cross-modal prompt: the visual one of pointer and target."""
    return {"img2txt": (pointer,), "txt2img": (target,)}.get(task, ())


# ----------------------------------------------------------------------------------------------------------- reading


def parse_scene(raw: object) -> Scene:
    """Parse a scene as distributed, decoded or as text; numbers stay as written.

    Raises:
        ValueError: something is missing or of the wrong type, or a shape, color or material is unknown.
    """
    data = decode(raw) if isinstance(raw, str) else raw
    objects = data.get("objects") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(objects, Sequence) or not objects:
        raise ValueError("the scene holds no list of objects")
    if not all(isinstance(item, Mapping) for item in objects):
        raise ValueError("the scene's list of objects holds a value that is not an object")
    camera = data.get("camera_location", ())
    if not isinstance(camera, Sequence) or not all(is_number(item) for item in camera):
        raise ValueError(f"the scene's camera_location is no list of numbers: {camera!r:.80}")
    return Scene(tuple(camera), tuple(_parse_object(item, index) for index, item in enumerate(objects)))


def _parse_object(raw: Mapping[str, Any], index: int) -> SceneObject:
    for key in KEYS:
        if not _FITS[key](raw.get(key)):
            raise ValueError(f"objects[{index}] of the scene has {key} = {raw.get(key)!r:.80}")
    x, y, z = raw["3d_coords"]
    return SceneObject(**{key: raw[key] for key in KEYS if key != "3d_coords"}, coords=(x, y, z))


_FITS = {
    "name": lambda value: isinstance(value, str) and value != "",
    "shape": SHAPES.__contains__,
    "size": is_number,
    "material": MATERIALS.__contains__,
    "3d_coords": lambda value: isinstance(value, Sequence) and len(value) == 3 and all(map(is_number, value)),
    "rotation": is_number,
    "color": COLORS.__contains__,
}


# ---------------------------------------------------------------------------------------------------------- pointing


def unique_values(scene: Scene, attribute: str) -> list[Gold]:
    """Return the values that one object alone holds, compared as exact text, in the order of the objects."""
    values = [item.value(attribute) for item in scene.objects]
    counts = Counter(map(str, values))
    return [value for value in values if counts[str(value)] == 1]


def pointer_pool(scene: Scene, attributes: Sequence[str]) -> list[tuple[str, Gold]]:
    """Return every (attribute, value) that singles out an object, attribute by attribute.

    This includes visual values that the benchmark's builder left unique by accident and never points with.
    """
    return [(attribute, value) for attribute in attributes for value in unique_values(scene, attribute)]


def find_object(scene: Scene, attribute: str, value: object) -> int:
    """Return the position of the one object with exactly this value as text; ValueError for none or several."""
    indices = [index for index, item in enumerate(scene.objects) if str(item.value(attribute)) == str(value)]
    if len(indices) != 1:
        raise ValueError(f"the pointer {attribute} = {value!r} fits {len(indices)} objects of the scene, not one")
    return indices[0]


def check_gold(scene: Scene, question: Question, gold: Gold) -> None:
    """Raise ValueError where the pointer is not unique, or `gold` is not the target value of its object."""
    expected = question.gold(scene)
    if str(gold) != str(expected):
        raise ValueError(f"the gold answer {gold!r} is not the object's {question.target_attribute}, {expected!r}")


def pointer_value_in(scene: Scene, attribute: str, question: str) -> Gold:
    """Return the unique value of the attribute that stands last in the question; ValueError for none."""
    text = " ".join(question.split())
    best: tuple[int, Gold] | None = None
    for value in unique_values(scene, attribute):
        spelling = r"\b" + str(value) + r"\b" if isinstance(value, str) else rf"(?<![\d.]){re.escape(str(value))}(?!\d)"
        positions = [match.start() for match in re.finditer(spelling, text, re.IGNORECASE)]
        if positions and (best is None or positions[-1] > best[0]):
            best = positions[-1], value
    if best is None:
        raise ValueError(f"the question contains no {attribute} that is unique in the scene")
    return best[1]


def shot_shows_target(scene: Scene, object_index: int, few_shot_attributes: Sequence[tuple[str, object]]) -> bool:
    """Return whether a solved example describes the very object of the question."""
    spelled = {(key, str(scene.objects[object_index].value(key))) for key in KEYS}
    return any((attribute, str(value)) in spelled for attribute, value in few_shot_attributes)


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
    return Linking(tuple(_identifying(scene, object_index, [key for key in LINKABLE if key not in hidden])))


def linking_attributes(scene: Scene, object_index: int, hidden: Collection[str] = ()) -> list[dict[str, Gold]]:
    """Return the same as attribute -> value, as the data's column of this name has it, with coordinates."""
    usable = [key for key in KEYS if key in {*LINKABLE, "3d_coords"} and key not in hidden]
    target = scene.objects[object_index]
    return [{key: target.value(key) for key in names} for names in _identifying(scene, object_index, usable)]


def link_category(link: Linking) -> str | None:
    """Return the row of the table by linking type, such as `Shape+Material`; None where the smallest is not unique."""
    if link.k == 0:
        return "3D coords only"
    if len(link.smallest) > 1:
        return None
    return "+".join(name for key, name in LINK_NAMES.items() if key in link.smallest[0])


def _identifying(scene: Scene, object_index: int, keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the combinations of attributes in which no other object looks the same, shortest first."""
    target = scene.objects[object_index]
    shared = {
        frozenset(key for key in keys if item.visible_value(key) == target.visible_value(key))
        for index, item in enumerate(scene.objects)
        if index != object_index
    }
    every = (names for size in range(1, len(keys) + 1) for names in combinations(keys, size))
    return [names for names in every if not any(rows.issuperset(names) for rows in shared)]

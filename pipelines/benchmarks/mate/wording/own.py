"""Build MATE prompts, for rows that come without one and for generated data.

The wording is this project's own; the order of the blocks is the benchmark's. A change of any text requires a new
`PROMPT_VERSION`.
"""

import json
import random
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pipelines.benchmarks.mate.answers import Gold, gold_json
from pipelines.benchmarks.mate.linking import linking
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, TASKS, Question, Scene, SceneObject, pointer_pool

PROMPT_VERSION = "1"

_CROSSMODAL = frozenset({"img2txt", "txt2img"})

_PICTURE = "The image shows a loose arrangement of geometric objects in several colors and materials."
_CONTEXT = {
    "img2img": _PICTURE,
    "txt2txt": (
        "A JSON document describes a scene of geometric objects. For each of them it holds the name, the 3D coordinates"
        " as [X, Y, Z], the material and the other attributes."
    ),
}
_CONTEXT_BOTH = (
    f"{_PICTURE} A JSON document describes the same scene: for each object it holds the name, the 3D coordinates as"
    " [X, Y, Z], the material (metal is shiny, rubber is matte) and other attributes."
)

_TASK = {
    "img2txt": (
        "Your task: look for {pointer} in the image, compare its attributes with those in the JSON to decide which JSON"
        " object it is, and give the {target} of that JSON object as {format}."
    ),
    "txt2img": (
        "Your task: go through the JSON, look for {pointer} there, use its attributes to decide which object of the"
        " image it is, and give the {target} of that object as {format}."
    ),
    "img2img": "Your task: look for {pointer} in the image and give its {target} as {format}.",
    "txt2txt": (
        "Your task: go through the JSON, look for {pointer} there, and read its {target} off its attributes. Give it as"
        " {format}."
    ),
}
_TASK_COT = {
    "img2txt": (
        "Your task: first look for {pointer} in the image. Using only attributes that the JSON has too, list its"
        " attributes and say which of them set it apart from everything else in the image. Then look for the JSON"
        " object that has the same attributes. End with the {target} of that JSON object as {format}."
    ),
    "txt2img": (
        "Your task: first look for {pointer} in the JSON. Using only attributes that can be seen in the image too, list"
        " its attributes and say which of them set it apart from everything else in the JSON. Then look for the object"
        " of the image that has the same attributes. End with the {target} of that object as {format}."
    ),
}

_AXES = (
    "How to read the coordinates:",
    "- X is depth: the smaller the value, the farther away the object.",
    "- Y is the horizontal position: 0 is the centre, negative values are to the left, positive values to the right.",
    "- Z is the height of the object's centre: the larger the value, the higher it is.",
)

_TARGET = {"3d_coords": "3D coordinates"}
_PLACEHOLDER = {"3d_coords": "[X, Y, Z]"}
_OPTIONS = {"color": COLORS, "shape": SHAPES}


def build_prompt(scene: Scene, question: Question, shots: Sequence[Question] = (), *, cot: bool = False) -> str:
    """Return the text of one request, with solved `shots` on the same scene, shown in this order.

    The attribute that the question hides is absent from the scene's text; `cot` asks for, and shows, the steps between.

    Raises:
        ValueError: a pointer is not unique in `scene`, or steps are requested of a unimodal task.
    """
    task = question.task
    if cot and task not in _CROSSMODAL:
        raise ValueError(f"prompts with steps exist for {', '.join(sorted(_CROSSMODAL))}, not for {task}")
    target, form = _target(question), answer_format(question.target_attribute)
    wording = (_TASK_COT if cot else _TASK)[task]
    lines = [_CONTEXT.get(task, _CONTEXT_BOTH), wording.format(pointer=_pointer(question), target=target, format=form)]
    if options := _OPTIONS.get(question.target_attribute):
        only = "" if cot else f" Answer with nothing but {form}."
        lines.append(f"The {target} is one of these: {', '.join(options)}.{only}")
    if task in _CROSSMODAL:
        lines += ["", *_AXES]
    if task != "img2img":
        lines += ["", "This is the JSON of all objects:", "", scene_text(scene, question.hidden)]
    lines.append("")
    if shots:
        solve = _solved_in_steps if cot else _solved
        lines += ["Solved examples for this scene:", *(solve(scene, question, shot) for shot in shots), "Your turn:"]
    lines.append(_question_text(question))
    return "\n".join(lines)


def scene_text(scene: Scene, hidden: Collection[str] = ()) -> str:
    """Return the scene as one line of JSON, camera and objects only, without the `hidden` attributes."""
    objects = [item.as_json(hidden) for item in scene.objects]
    return json.dumps({"camera_location": list(scene.camera_location), "objects": objects}, ensure_ascii=False)


def answer_format(target: str) -> str:
    """Return the answer object with a placeholder for its value."""
    return '{"answer": ' + _PLACEHOLDER.get(target, f'"{target.upper()}"') + "}"


def pointer_phrase(attribute: str, value: Gold) -> str:
    """Return words for the one object with this value, numbers in full."""
    match attribute:
        case "shape":
            return f"the {value}"
        case "color":
            return f"the {value} object"
        case "name":
            return f"the object named '{value}'"
        case "3d_coords":
            return f"the object at the 3D coordinates {json.dumps(value)}"
        case _:
            return f"the object with {attribute} {json.dumps(value)}"


def _pointer(question: Question) -> str:
    return pointer_phrase(question.pointer_attribute, question.pointer_value)


def _target(question: Question) -> str:
    return _TARGET.get(question.target_attribute, question.target_attribute)


def _question_text(question: Question) -> str:
    verb = "are" if question.target_attribute == "3d_coords" else "is"
    return f"What {verb} the {_target(question)} of {_pointer(question)}?"


# ----------------------------------------------------------------------------------------------------- solved examples


def draw_shots(
    rng: random.Random,
    question: Question,
    pool: Sequence[tuple[str, Gold]],
    count: int,
) -> tuple[Question, ...]:
    """Draw `count` solved examples with different pointers in the same scene; ValueError where the pool is too small.

    Examples have the question's target attribute, except in a unimodal task where the drawn pointer is that attribute.
    The question's own pointer is never drawn. `pool` holds (attribute, value) pairs that single out an object.
    """
    question_pointer = question.pointer_attribute, str(question.pointer_value)
    free = [(attribute, value) for attribute, value in pool if (attribute, str(value)) != question_pointer]
    if len(free) < count:
        raise ValueError(f"the scene has {len(free)} further pointer values, {count} examples need as many")
    return tuple(_shot(rng, question, attribute, value) for attribute, value in rng.sample(free, count))


def row_shots(scene: Scene, question: Question, count: int, row_id: str) -> tuple[Question, ...]:
    """Return solved examples for a row without any: a function of the row, fewer being a prefix of more.

    Raises:
        ValueError: the scene has too few values to point with.
    """
    key = f"{row_id}/{question.task}/{question.pointer_attribute}/{question.pointer_value}/{question.target_attribute}"
    rng = random.Random(key)  # noqa: S311 - picks examples, guards nothing
    pool = pointer_pool(scene, TASKS[question.task][0])
    possible = len(pool) - 1
    return draw_shots(rng, question, pool, max(count, min(2, possible)))[:count]


def _shot(rng: random.Random, question: Question, attribute: str, value: Gold) -> Question:
    target = question.target_attribute
    if attribute == target:
        target = rng.choice([name for name in TASKS[question.task][1] if name != attribute])
    return Question(task=question.task, pointer_attribute=attribute, pointer_value=value, target_attribute=target)


def _solved(scene: Scene, _question: Question, shot: Question) -> str:
    return f"{_question_text(shot)} {gold_json(shot.gold(scene))}"


def _solved_in_steps(scene: Scene, question: Question, shot: Question) -> str:
    """Return a solved example that explains how to find the object on the other side, then the answer."""
    item, keys = scene.objects[shot.object_index(scene)], solution_keys(scene, question, shot)
    pointer_side, target_side = ("image", "JSON") if shot.task == "img2txt" else ("JSON", "image")
    addition = f" and also {_as_json(item, keys.rest)}" if keys.rest else ""
    return (
        f"{_question_text(shot)} In the {pointer_side}, {_pointer(shot)} has {_spelled(item, keys.all)}. It is the only"
        f" one there with {_spelled(item, keys.link)}. The only object of the {target_side} with"
        f" {_as_json(item, keys.link)}{addition} has the {_target(shot)}"
        f" {_number(shot.gold(scene))}. {gold_json(shot.gold(scene))}"
    )


class SolutionKeys(NamedTuple):
    """The attributes by which a solved example finds its object."""

    all: Sequence[str]
    link: Sequence[str]
    """Attributes that identify it uniquely."""
    rest: Sequence[str]


def solution_keys(scene: Scene, question: Question, shot: Question) -> SolutionKeys:
    """Return the attributes by which a solved example finds its object on the other side; coordinates if need be."""
    # An example may point with another attribute than the question: what the question hides is not in the JSON for it.
    hidden = {*question.hidden, *shot.hidden}
    omitted = {*hidden, shot.pointer_attribute} | ({shot.target_attribute} if shot.task == "txt2img" else set())
    keys = [key for key in ("color", "shape", "material", "size", "3d_coords") if key not in omitted]
    link = linking(scene, shot.object_index(scene), hidden)
    link_keys = link.sets[0] if link.sets else ("3d_coords",)
    return SolutionKeys(keys, link_keys, [key for key in keys if key not in link_keys])


def _spelled(item: SceneObject, keys: Sequence[str]) -> str:
    parts = [f"{_TARGET.get(key, key)} {_number(item.value(key))}" for key in keys]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _as_json(item: SceneObject, keys: Sequence[str]) -> str:
    return json.dumps({key: item.value(key) for key in keys}, ensure_ascii=False)


def _number(value: Gold) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_SOLVED = re.compile(r'[{][ ]*+"answer":\s*+([^}]*+)[}]')
_PLACEHOLDERS = frozenset({'"NAME"', '"COLOR"', '"SHAPE"', '"ROTATION"', '"SIZE"', "[X,Y,Z]"})


def count_solved_examples(text: str) -> int:
    """Return how many answers a prompt shows, except for placeholders: the setting of a row that does not name it."""
    values = ("".join(match[1].split()) for match in _SOLVED.finditer(text))
    return sum(bool(value) and value not in _PLACEHOLDERS for value in values)

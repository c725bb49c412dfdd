"""Build MATE prompts in the words of the paper (figures 6 to 11), for rows that come without one.

The figures show one target and a few kinds of pointer each; what they do not show follows their pattern. Soft wraps are
joined, and each block is a line, as in figures 6 to 8.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from pipelines.benchmarks.mate.answers import Gold, gold_json
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, Question, Scene, SceneObject
from pipelines.benchmarks.mate.wording.own import answer_format, scene_text, solution_keys

_SHAPES: Final = (
    "This image shows a minimalist arrangement of 3D geometric shapes made of different materials and colors."
)
_CONTEXT: Final = {
    "img2img": _SHAPES,
    "txt2txt": (
        "The following JSON contains information about all objects in a scene, including their name, 3D coordinates"
        " (represented as [X, Y, Z]), material, and other attributes."
    ),
}
_CONTEXT_BOTH: Final = (
    f"{_SHAPES} The JSON provided contains information about all objects in the scene, including their name, 3D"
    " coordinates (represented as [X, Y, Z]), material (metal = shiny, rubber = matte), and other attributes."
)
_FORMAT: Final = "in the following format: {format}"
_TASK: Final = {
    "img2txt": (
        "Your job is to identify {pointer} in the image, match its attributes to identify which of the objects"
        f" mentioned in the JSON corresponds to that object, and determine its {{target}} {_FORMAT}"
    ),
    "txt2img": (
        "Your job is to analyze this information, find {pointer}, use its attributes to identify which object in the"
        f" image corresponds to that object, and retrieve its {{target}} {_FORMAT}"
    ),
    "img2img": f"Your job is to identify {{pointer}} in the image and determine its {{target}} {_FORMAT}",
    "txt2txt": (
        "Your job is to analyze this information, find {pointer}, and retrieve its {target} from its attributes"
        f" {_FORMAT}"
    ),
}
_TASK_COT: Final = {
    "img2txt": (
        "Your job is to first identify {pointer} in the image. Then, using only the attributes present in the objects"
        " in the JSON, list the attributes of this object and list the ones that distinguish this object from others in"
        " the image. Next, find the object in the JSON that contains these same attributes. Finally, return the value"
        f" of the attribute '{{key}}' of this object {_FORMAT}."
    ),
    "txt2img": (
        "Your job is to first identify {pointer} in the JSON. Then, list the attributes of this object and list the"
        " ones that distinguish this object from others in the JSON. Next, find the object in the image that matches"
        f" these same attributes. Finally, return the {{target}} of this object {_FORMAT}"
    ),
}
_SELECT: Final = "Select your answer from the following options: {first}, or {last}."
_ONLY: Final = (
    "Do not add any additional text to your answer, provide your answer always in the following format: {format}."
)
_AXES: Final = (
    "Understanding the Coordinate System X, Y, Z:\n"
    "- X (Depth): Represents the depth relative to the camera. Smaller values indicate objects that are farther away.\n"
    "- Y (Horizontal Position): Represents the left-to-right position. A value of zero means the object is centered in"
    " the scene, negative values place the object to the left, and positive values to the right.\n"
    "- Z (Vertical Position): Represents the height of the object's center point. Larger values correspond to higher"
    " vertical positions."
)
_SCENE: Final = "Here is the JSON containing details about all objects in the scene in the image:"
_OPTIONS: Final = {"color": COLORS, "shape": SHAPES}


def build_paper_prompt(scene: Scene, question: Question, shots: Sequence[Question] = (), *, cot: bool = False) -> str:
    """Return the text of one request in the paper's words; arguments as `own.build_prompt`.

    Raises:
        ValueError: a pointer is not unique in `scene`.
        KeyError: steps are requested of a unimodal task.
    """
    task, form = question.task, answer_format(question.target_attribute)
    is_crossmodal = task in _TASK_COT
    # The figures have the article in questions and not in the instruction.
    pointer = _pointer(question).replace("at the coordinates", "at coordinates")
    names = {"target": _target(question), "key": question.target_attribute, "format": form}
    lines = [_CONTEXT.get(task, _CONTEXT_BOTH), (_TASK_COT if cot else _TASK)[task].format(pointer=pointer, **names)]
    end = [_options(question.target_attribute), "" if cot else _ONLY.format(format=form)]
    lines += [text] if (text := " ".join(filter(None, end))) else []
    if is_crossmodal:
        lines += ["", _AXES]
    if task != "img2img":
        lines += ["", _SCENE, "", scene_text(scene, question.hidden)]
    lines.append("")
    if shots:
        solve = _solved_in_steps if cot else _solved
        examples = (solve(scene, question, shot) for shot in shots)
        lines += ["For example:", *examples, "Now answer the following question:"]
    return "\n".join([*lines, _question_text(question)])


def _options(target: str) -> str:
    values = _OPTIONS.get(target)
    if values is None:
        return ""
    return _SELECT.format(first=", ".join(values[:-1]), last=values[-1])


def _pointer(question: Question) -> str:
    attribute, value = question.pointer_attribute, question.pointer_value
    match attribute:
        case "shape":
            return f"the {value}"
        case "color":
            return f"the {value} colored object"
        case "name":
            return f"the object named '{value}'"
        case "3d_coords":
            return f"the object at the coordinates {json.dumps(value)}"
        case _:
            return f"the object with a {attribute} of {json.dumps(value)}"


def _target(question: Question) -> str:
    return "3D coordinates" if question.target_attribute == "3d_coords" else question.target_attribute


def _question_text(question: Question) -> str:
    return f"What {_is(question)} the {_target(question)} of {_pointer(question)}?"


def _is(question: Question) -> str:
    return "are" if question.target_attribute == "3d_coords" else "is"


def _solved(scene: Scene, _question: Question, shot: Question) -> str:
    return f"{_question_text(shot)} {gold_json(shot.gold(scene))}"


def _solved_in_steps(scene: Scene, question: Question, shot: Question) -> str:
    """Return a solved example that names the object's attributes, finds it on the other side, and answers."""
    item, keys = scene.objects[shot.object_index(scene)], solution_keys(scene, question, shot)
    pointer = _pointer(shot)
    pointer = pointer[0].upper() + pointer[1:]
    gold = shot.gold(scene)
    value = gold if isinstance(gold, str) else json.dumps(gold)
    of_target = f"the {_target(shot)} of the only object that"
    if shot.task == "img2txt":
        steps = (
            f"{pointer} in the image is {_spelled(item, keys.all)} and is the only object in the image that is"
            f" {_spelled(item, keys.link)}. In the JSON, {of_target} matches the attributes {_as_json(item, keys.link)}"
            f"{f' and also contains the attributes {_as_json(item, keys.rest)}' if keys.rest else ''}"
        )
    else:
        steps = (
            f"{pointer} in the JSON also contains the attributes {_as_json(item, keys.all)} and is the only object in"
            f" the JSON with the attributes {_as_json(item, keys.link)}. In the image, {of_target} is"
            f" {_spelled(item, keys.link)}{f' and is also {_spelled(item, keys.rest)}' if keys.rest else ''}"
        )
    return f"{_question_text(shot)} {steps} {_is(shot)} {value}, therefore: {gold_json(gold)}"


_PHRASES: Final = {
    "color": "{} colored",
    "shape": "a {}",
    "material": "made of {}",
    "size": "with an approximate size of {}",
    "3d_coords": "located around the coordinates {}",
}


def _spelled(item: SceneObject, keys: Sequence[str]) -> str:
    return ", ".join(_PHRASES[key].format(_text(item.value(key))) for key in keys)


def _as_json(item: SceneObject, keys: Sequence[str]) -> str:
    return json.dumps({key: item.value(key) for key in keys}, ensure_ascii=False)


def _text(value: Gold) -> str:
    return value if isinstance(value, str) else json.dumps(value)

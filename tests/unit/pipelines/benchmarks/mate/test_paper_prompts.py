"""MATE prompts in the words of the paper: figures 6 to 11, with their scenes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import Question, Scene, parse_scene

build_paper_prompt = partial(build_prompt, wording="paper")
CAMERA = [9.915478112284436, 0, 5.34366512298584]


def _scene(*rows: tuple[str, float, str, list[float], float, str]) -> Scene:
    names = ("shape", "size", "material", "3d_coords", "rotation", "color")
    objects: list[Any] = [
        {"name": f"Object_{number}", **dict(zip(names, row, strict=True))} for number, row in enumerate(rows)
    ]
    return parse_scene({"camera_location": CAMERA, "objects": objects})


GRAY = [1.003104279700655, -2.241594855367711, 0.699999988079071]
UNIMODAL = _scene(  # of figures 7 and 9
    ("cone", 0.351, "metal", [0.5808469064750094, 2.3165597762151053, 0.3499999940395355], 274.5267333984375, "blue"),
    ("cylinder", 0.7, "rubber", GRAY, 108.92057037353516, "gray"),
    ("cube", 0.351, "rubber", [2.0921108024881967, 1.4308784617625303, 0.35], 9.969311714172363, "yellow"),
)
RED = [1.9566728749718734, -1.5432421720941742, 0.3499999940395355]
PURPLE = [0.7603597884957096, -1.4732485834375681, 0.699999988079071]
STEPS = _scene(  # the solved objects of figures 10 and 11, and others that leave these their linking attributes
    ("cube", 0.351, "rubber", [-2.0, 2.0, 0.35], 1.5, "yellow"),
    ("cylinder", 0.351, "rubber", RED, 2.5, "red"),
    ("cylinder", 0.351, "rubber", [3.0, 3.0, 0.35], 3.5, "cyan"),
    ("cone", 0.7, "metal", PURPLE, 4.5, "purple"),
)
AXES = """
Understanding the Coordinate System X, Y, Z:
- X (Depth): Represents the depth relative to the camera. Smaller values indicate objects that are farther away.
- Y (Horizontal Position): Represents the left-to-right position. A value of zero means the object is centered in the \
scene, negative values place the object to the left, and positive values to the right.
- Z (Vertical Position): Represents the height of the object's center point. Larger values correspond to higher \
vertical positions.
"""
ANNOUNCED = "\nHere is the JSON containing details about all objects in the scene in the image:\n\n"
BOTH = (
    "This image shows a minimalist arrangement of 3D geometric shapes made of different materials and colors. The JSON "
    "provided contains information about all objects in the scene, including their name, 3D coordinates (represented "
    "as [X, Y, Z]), material (metal = shiny, rubber = matte), and other attributes.\n"
)


def _ask(task: str, pointer: str, value: Any, target: str) -> Question:
    return Question(task=task, pointer_attribute=pointer, pointer_value=value, target_attribute=target)


def _text_of(scene: Scene, hidden: str = "") -> str:
    objects = [{name: value for name, value in item.as_json().items() if name != hidden} for item in scene.objects]
    return json.dumps({"camera_location": CAMERA, "objects": objects})


def test_image_to_image_is_figure_6() -> None:
    shots = [_ask("img2img", "color", color, "shape") for color in ("gray", "blue")]
    assert build_paper_prompt(UNIMODAL, _ask("img2img", "shape", "cone", "color"), shots) == (
        "This image shows a minimalist arrangement of 3D geometric shapes made of different materials and colors.\n"
        'Your job is to identify the cone in the image and determine its color in the following format: {"answer": '
        '"COLOR"}\n'
        "Select your answer from the following options: gray, red, blue, green, brown, purple, cyan, or yellow. Do not "
        'add any additional text to your answer, provide your answer always in the following format: {"answer": '
        '"COLOR"}.\n'
        "\nFor example:\n"
        'What is the shape of the gray colored object? {"answer": "cylinder"}\n'
        'What is the shape of the blue colored object? {"answer": "cone"}\n'
        "Now answer the following question:\n"
        "What is the color of the cone?"
    )


def test_text_to_text_is_figure_7() -> None:
    shots = [_ask("txt2txt", "size", 0.7, "name"), _ask("txt2txt", "rotation", 9.969311714172363, "name")]
    assert build_paper_prompt(UNIMODAL, _ask("txt2txt", "3d_coords", GRAY, "name"), shots) == (
        "The following JSON contains information about all objects in a scene, including their name, 3D coordinates "
        "(represented as [X, Y, Z]), material, and other attributes.\n"
        f"Your job is to analyze this information, find the object at coordinates {GRAY}, and retrieve its name from "
        'its attributes in the following format: {"answer": "NAME"}\n'
        "Do not add any additional text to your answer, provide your answer always in the following format: "
        '{"answer": "NAME"}.\n'
        f"{ANNOUNCED}{_text_of(UNIMODAL)}\n"
        "\nFor example:\n"
        'What is the name of the object with a size of 0.7? {"answer": "Object_1"}\n'
        'What is the name of the object with a rotation of 9.969311714172363? {"answer": "Object_2"}\n'
        "Now answer the following question:\n"
        f"What is the name of the object at the coordinates {GRAY}?"
    )


def test_image_to_text_is_figure_8_and_without_examples_only_asks() -> None:
    assert build_paper_prompt(UNIMODAL, _ask("img2txt", "color", "blue", "name")) == (
        f"{BOTH}Your job is to identify the blue colored object in the image, match its attributes to identify which "
        "of the objects mentioned in the JSON corresponds to that object, and determine its name in the following "
        'format: {"answer": "NAME"}\n'
        "Do not add any additional text to your answer, provide your answer always in the following format: "
        f'{{"answer": "NAME"}}.\n{AXES}{ANNOUNCED}{_text_of(UNIMODAL, "color")}\n\n'
        "What is the name of the blue colored object?"
    )


def test_text_to_image_is_figure_9() -> None:
    shots = [_ask("txt2img", "rotation", item.value("rotation"), "color") for item in UNIMODAL.objects[::2]]
    assert build_paper_prompt(UNIMODAL, _ask("txt2img", "name", "Object_1", "color"), shots) == (
        f"{BOTH}Your job is to analyze this information, find the object named 'Object_1', use its attributes to "
        "identify which object in the image corresponds to that object, and retrieve its color in the following "
        'format: {"answer": "COLOR"}\n'
        "Select your answer from the following options: gray, red, blue, green, brown, purple, cyan, or yellow. Do not "
        'add any additional text to your answer, provide your answer always in the following format: {"answer": '
        f'"COLOR"}}.\n{AXES}{ANNOUNCED}{_text_of(UNIMODAL, "color")}\n'
        "\nFor example:\n"
        'What is the color of the object with a rotation of 274.5267333984375? {"answer": "blue"}\n'
        'What is the color of the object with a rotation of 9.969311714172363? {"answer": "yellow"}\n'
        "Now answer the following question:\n"
        "What is the color of the object named 'Object_1'?"
    )


def test_image_to_text_in_steps_is_figure_10() -> None:
    shots = [_ask("img2txt", "color", "red", "name")]
    lines = build_paper_prompt(STEPS, _ask("img2txt", "color", "yellow", "name"), shots, cot=True).splitlines()
    assert lines[1] == (
        "Your job is to first identify the yellow colored object in the image. Then, using only the attributes present "
        "in the objects in the JSON, list the attributes of this object and list the ones that distinguish this object "
        "from others in the image. Next, find the object in the JSON that contains these same attributes. Finally, "
        'return the value of the attribute \'name\' of this object in the following format: {"answer": "NAME"}.'
    )
    assert lines[2] == ""
    assert lines[-3] == (
        "What is the name of the red colored object? The red colored object in the image is a cylinder, made of "
        f"rubber, with an approximate size of 0.351, located around the coordinates {RED} and is the only object in "
        f"the image that is located around the coordinates {RED}. In the JSON, the name of the only object that "
        f'matches the attributes {{"3d_coords": {RED}}} and also contains the attributes {{"shape": "cylinder", '
        '"material": "rubber", "size": 0.351} is Object_1, therefore: {"answer": "Object_1"}'
    )


def test_text_to_image_in_steps_is_figure_11() -> None:
    shots = [_ask("txt2img", "name", "Object_3", "color")]
    lines = build_paper_prompt(STEPS, _ask("txt2img", "name", "Object_1", "color"), shots, cot=True).splitlines()
    assert "\n".join(lines[1:3]) == (
        "Your job is to first identify the object named 'Object_1' in the JSON. Then, list the attributes of this "
        "object and list the ones that distinguish this object from others in the JSON. Next, find the object in the "
        "image that matches these same attributes. Finally, return the color of this object in the following format: "
        '{"answer": "COLOR"}\n'
        "Select your answer from the following options: gray, red, blue, green, brown, purple, cyan, or yellow."
    )
    assert lines[-3] == (
        "What is the color of the object named 'Object_3'? The object named 'Object_3' in the JSON also contains the "
        f'attributes {{"shape": "cone", "material": "metal", "size": 0.7, "3d_coords": {PURPLE}}} and is the only '
        'object in the JSON with the attributes {"shape": "cone"}. In the image, the color of the only object that is '
        "a cone and is also made of metal, with an approximate size of 0.7, located around the coordinates "
        f'{PURPLE} is purple, therefore: {{"answer": "purple"}}'
    )


def test_steps_are_refused_for_unimodal_tasks() -> None:
    with pytest.raises(ValueError, match="img2img"):
        build_paper_prompt(UNIMODAL, _ask("img2img", "shape", "cone", "color"), cot=True)

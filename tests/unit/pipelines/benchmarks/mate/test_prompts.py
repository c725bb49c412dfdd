"""MATE prompts by structure."""

import hashlib
import json
import random
import re
from typing import Any

import pytest

from pipelines.benchmarks.mate import prompts
from pipelines.benchmarks.mate.scene import TASKS, TEXTUAL, VISUAL, Question, parse_scene, pointer_pool
from tests.support.paths import GOLDEN

GOLDEN_ROWS = GOLDEN / "mate"
ROWS = [json.loads(line) for line in (GOLDEN_ROWS / "scenes.jsonl").read_text("utf-8").splitlines()]
B = next(parse_scene(row["scene"]) for row in ROWS if row["id"] == "B")

PAIRS = [
    (task, pointer, target)
    for task, (pointers, targets) in TASKS.items()
    for pointer in pointers
    for target in targets
    if pointer != target
]
CROSSMODAL = {"img2txt", "txt2img"}
OWN_PHRASES = prompts.WORDINGS["own"]["pointer"]
CASES = [(*pair, cot) for pair in PAIRS for cot in (False, True) if pair[0] in CROSSMODAL or not cot]


def ask(task: str, pointer: str, target: str, index: int = 0) -> Question:
    _, value = pointer_pool(B, (pointer,))[index]
    return Question(task=task, pointer_attribute=pointer, pointer_value=value, target_attribute=target)


def scene_lines(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(("task", "pointer", "target", "cot"), CASES)
def test_what_each_prompt_holds_and_hides(task: str, pointer: str, target: str, cot: bool) -> None:
    question = ask(task, pointer, target)
    prompt = prompts.build_prompt(B, question, cot=cot)
    form = prompts.answer_format(target)
    lines = prompt.splitlines()
    crossmodal = task in CROSSMODAL

    assert ("image" in lines[0], "JSON" in lines[0]) == (task != "txt2txt", task != "img2img")
    assert ("metal" in lines[0]) is crossmodal
    assert lines[1].count(form) == 1
    assert prompts.pointer_phrase(OWN_PHRASES, question) in lines[1]
    assert prompts.pointer_phrase(OWN_PHRASES, question) in lines[-1]
    assert lines[-1].endswith("?")
    options = {
        "color": "gray, red, blue, green, brown, purple, cyan, yellow",
        "shape": "cylinder, sphere, cone, cube",
    }.get(target)
    if options:
        assert f" {options}." in lines[2]
        assert (form in lines[2]) is not cot
    assert prompt.count(form) == (2 if options and not cot else 1)
    assert sum(line.startswith("- ") for line in lines) == (3 if crossmodal else 0)

    lines = scene_lines(prompt)
    assert len(lines) == (0 if task == "img2img" else 1)
    if lines:
        document = json.loads(lines[0])
        assert lines[0] == json.dumps(document)
        assert list(document) == ["camera_location", "objects"]
        hidden = {"img2txt": {pointer}, "txt2img": {target}}.get(task, set())
        assert document["objects"] == [item.as_json(hidden) for item in B.objects]
        assert all(hidden.isdisjoint(item) for item in document["objects"])


@pytest.mark.parametrize(
    ("attribute", "value", "phrase"),
    [
        ("shape", "cone", "the cone"),
        ("color", "red", "the red object"),
        ("name", "Object_3", "'Object_3'"),
        ("3d_coords", [1.5, -2.0, 0.7], "[1.5, -2.0, 0.7]"),
        ("rotation", 282.0, "282.0"),
        ("size", 0.351, "0.351"),
    ],
)
def test_pointer_phrase_describes_the_object(attribute: str, value: Any, phrase: str) -> None:
    question = Question(task="img2txt", pointer_attribute=attribute, pointer_value=value, target_attribute="name")
    assert prompts.pointer_phrase(OWN_PHRASES, question).endswith(phrase)


@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("name", '{"answer": "NAME"}'),
        ("color", '{"answer": "COLOR"}'),
        ("shape", '{"answer": "SHAPE"}'),
        ("rotation", '{"answer": "ROTATION"}'),
        ("size", '{"answer": "SIZE"}'),
        ("3d_coords", '{"answer": [X, Y, Z]}'),
    ],
)
def test_answer_formats(target: str, form: str) -> None:
    assert prompts.answer_format(target) == form
    assert prompts.count_solved_examples(f"Give it as {form}.") == 0


@pytest.mark.parametrize(("task", "pointer", "target", "cot"), [case for case in CASES if case[0] != "img2img"])
def test_solved_examples_are_lines_that_end_in_their_answer(task: str, pointer: str, target: str, cot: bool) -> None:
    question = ask(task, pointer, target)
    count = 1 if task == "img2txt" else 2  # the scene has two unique visual values in all
    shots = prompts.row_shots(B, question, count, "id")
    assert len(shots) == count
    prompt = prompts.build_prompt(B, question, shots, cot=cot)
    solved = [line for line in prompt.splitlines() if line.startswith("What") and line.endswith("}")]
    assert [json.loads(line[line.rindex('{"answer"') :])["answer"] for line in solved] == [s.gold(B) for s in shots]
    assert prompts.count_solved_examples(prompt) == count
    assert not prompt.splitlines()[-1].endswith("}")
    for shot in shots:
        assert (shot.pointer_attribute, shot.pointer_value) != (pointer, question.pointer_value)
        assert shot.task == task
        assert shot.target_attribute != shot.pointer_attribute
        if task != "txt2txt" or shot.pointer_attribute != target:
            assert shot.target_attribute == target


def test_a_unimodal_example_that_points_with_the_target_asks_for_another() -> None:
    shots = prompts.row_shots(B, ask("img2img", "color", "shape"), 1, "id")
    assert [(shot.pointer_attribute, shot.target_attribute) for shot in shots] == [("shape", "color")]


def test_fewer_examples_of_a_row_are_part_of_more() -> None:
    question = ask("txt2img", "name", "shape", 3)
    two = prompts.row_shots(B, question, 2, "id")
    assert prompts.row_shots(B, question, 1, "id") == two[:1]
    assert prompts.row_shots(B, question, 0, "id") == ()
    assert two == prompts.row_shots(B, question, 2, "id")
    assert len({str(prompts.row_shots(B, question, 2, str(row))) for row in range(20)}) > 1


def test_too_small_a_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="1 further pointer values"):
        prompts.row_shots(B, ask("img2txt", "color", "name"), 2, "id")


def test_steps_of_an_example_from_picture_to_text() -> None:
    question = ask("img2txt", "shape", "rotation")
    red = Question(task="img2txt", pointer_attribute="color", pointer_value="red", target_attribute="rotation")
    prompt = prompts.build_prompt(B, question, (red,), cot=True)
    line = next(line for line in prompt.splitlines() if line.startswith("What") and line.endswith("}"))
    # The question hides the shape and the example points with the color: both stay out, and coordinates must link.
    assert "material metal, size 0.7 and 3D coordinates [1, -2, 0.7]" in line
    assert "only one there with 3D coordinates [1, -2, 0.7]" in line
    assert '{"3d_coords": [1, -2, 0.7]} and also {"material": "metal", "size": 0.7}' in line
    assert not re.search("cube|shape", line)


def test_steps_of_an_example_from_text_to_picture() -> None:
    question = ask("txt2img", "name", "shape")
    shot = Question(task="txt2img", pointer_attribute="name", pointer_value="Object_2", target_attribute="shape")
    line = prompts.build_prompt(B, question, (shot,), cot=True).splitlines()[-3]
    assert "color gray, material rubber, size 0.351 and 3D coordinates [2, 2, 0.35]" in line
    # Two combinations of two single it out; the prompt names the first in the order of the keys.
    assert "only one there with size 0.351 and material rubber" in line
    assert '{"size": 0.351, "material": "rubber"} and also {"color": "gray", "3d_coords": [2, 2, 0.35]}' in line
    assert line.endswith('has the shape cube. {"answer": "cube"}')


def test_examples_on_random_pools_are_distinct_and_never_the_question() -> None:
    pool = pointer_pool(B, TEXTUAL)
    for seed in range(50):
        question = ask("txt2txt", "rotation", "name", seed % 6)
        shots = prompts.draw_shots(random.Random(seed), question, pool, 5)
        pointers = {(shot.pointer_attribute, str(shot.pointer_value)) for shot in shots}
        assert len(pointers) == 5
        assert ("rotation", str(question.pointer_value)) not in pointers
        assert all(shot.target_attribute in TEXTUAL for shot in shots)
    assert len(pointer_pool(B, VISUAL)) == 2


def test_the_wording_changes_only_with_its_version() -> None:
    """Fails for a changed wording: raise the version then, and write down the new digest."""
    digest = hashlib.sha256()
    for task, pointer, target, cot in CASES:
        question = ask(task, pointer, target)
        shots = prompts.row_shots(B, question, 1, "id")
        digest.update(prompts.build_prompt(B, question, shots, cot=cot).encode())
    assert (prompts.PROMPT_VERSION, digest.hexdigest()[:16]) == ("1", "05ea9f4a48713f98")

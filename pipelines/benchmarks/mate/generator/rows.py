"""Rows of a generated data set, in the layout of the published one's development version."""

import hashlib
import json
from dataclasses import dataclass

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.generator.parameters import GENERATOR_VERSION, Options, Plan
from pipelines.benchmarks.mate.generator.questions import KINDS, QuestionItem, pools_of
from pipelines.benchmarks.mate.generator.scenes import Layout
from pipelines.benchmarks.mate.linking import linking_attributes
from pipelines.benchmarks.mate.prompts import Wording, build_prompt, scene_text
from pipelines.benchmarks.mate.rows import COT, SETTINGS
from pipelines.benchmarks.mate.scene import TEXTUAL, VISUAL

BLANK_IMAGE = "0" * 32 + ".png"  # the white picture that every `txt2txt` row shares


@dataclass(frozen=True, slots=True)
class Example:
    """One scene with its questions."""

    layout: Layout
    questions: tuple[tuple[str, QuestionItem], ...]  # `mm` with the cross-modal question, `um` with the unimodal one
    name: str = ""  # of the scene in all files; '': a digest of its data
    wording: Wording = "own"  # of the prompts
    settings: frozenset[tuple[str, str]] | None = None  # kinds and settings of its rows; None: all of the plan

    @property
    def example_id(self) -> str:
        """The name of the scene in all files."""
        return self.name or example_id(self.layout)

    def has(self, kind: str, setting: str) -> bool:
        """Return whether it has a row of this kind and setting."""
        return self.settings is None or (kind, setting) in self.settings


def file_names(options: Options) -> list[str]:
    """Return the names of the JSONL files of a data set, without their ending."""
    names = [f"{kind}_{shots}shot" for kind in _kinds(options) for shots in options.shots]
    return names + (["mm_2shot_cot"] if options.cot and "mm" in _kinds(options) else [])


def example_id(layout: Layout) -> str:
    """Return the name of a scene in all files: a digest of its data."""
    text = json.dumps(_scene_json(layout), ensure_ascii=False)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def render_rows(plan: Plan, example: Example) -> dict[str, str]:
    """Return one line of JSON, without line feed, by file name without ending, of one scene."""
    lines = {}
    for kind, item in example.questions:
        for shots in plan.options.shots:
            if example.has(kind, SETTINGS[shots]):
                lines[f"{kind}_{shots}shot"] = _row(plan, example, item, shots, cot=False)
        if kind == "mm" and plan.options.cot and example.has(kind, COT):
            lines["mm_2shot_cot"] = _row(plan, example, item, 2, cot=True)
    return lines


def _kinds(options: Options) -> list[str]:
    return [kind for kind, tasks in KINDS.items() if set(tasks) & set(options.tasks)]


def _row(plan: Plan, example: Example, item: QuestionItem, shots: int, *, cot: bool) -> str:
    layout, question = example.layout, item.question
    scene = layout.scene
    examples = item.shots[:shots]
    object_index, gold, name = question.object_index(scene), question.gold(scene), example.example_id
    pools = pools_of(scene, layout.object_set)
    row = {
        "example_id": name,
        "task": question.task,
        "input_str": build_prompt(scene, question, examples, cot=cot, wording=example.wording),
        "gold_reference": gold_json(gold),
        "image": BLANK_IMAGE if question.task == "txt2txt" else f"{name}.png",
        "scene": _scene_json(layout),
        "scene_format": "json",
        "object_count": layout.count,
        "pointer_attribute": {question.pointer_attribute: question.pointer_value},
        "target_attribute": {question.target_attribute: gold},
        "few_shot_attributes": [[shot.pointer_attribute, shot.pointer_value] for shot in examples],
        "key_attributes": {
            "img": {key: pools[key] for key in VISUAL},
            "data": {key: pools[key] for key in TEXTUAL},
        },
        "linking_attributes": linking_attributes(scene, object_index, question.hidden),
        "generator": {"version": GENERATOR_VERSION, "seed": plan.seed, "parameters": plan.parameters},
    }
    for hidden in question.hidden:
        text = scene_text(scene, question.hidden)
        assert not any(str(item.value(hidden)) in text for item in scene.objects), f"{hidden} shows in the text"
    return json.dumps(row, ensure_ascii=False)


def _scene_json(layout: Layout) -> dict[str, object]:
    """Return the scene with the keys of the published data; of the renderer's settings only the size is real."""
    return {
        "camera_location": list(layout.camera.location),
        "image_filename": f"generated_{layout.count:03d}_{layout.turn:06d}.png",
        "objects": [item.as_json() for item in layout.scene.objects],
        "metadata": {
            "width": layout.camera.width,
            "height": layout.camera.height,
            "resolution_percentage": 100,
            "blur_glossy": 0.0,
            "render_num_samples": 0,
            "render_tile_size": 0,
            "Lamp_Key": 0.0,
            "Lamp_Back": 0.0,
            "Lamp_Fill": 0.0,
        },
    }

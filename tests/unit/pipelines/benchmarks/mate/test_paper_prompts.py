"""MATE prompts in the words of the paper: figures 6 to 11, with their scenes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import Question, parse_scene
from tests.support.paths import GOLDEN

RECORDED = json.loads((GOLDEN / "mate" / "paper_prompts.json").read_text(encoding="utf-8"))
SCENES = {name: parse_scene(scene) for name, scene in RECORDED["scenes"].items()}


def question(task: str, pointer: str, value: Any, target: str) -> Question:
    return Question(task=task, pointer_attribute=pointer, pointer_value=value, target_attribute=target)


@pytest.mark.parametrize("row", RECORDED["prompts"], ids=lambda row: f"figure {row['figure']}")
def test_prompts_are_those_of_the_figures(row: dict[str, Any]) -> None:
    shots = [question(*shot) for shot in row["shots"]]
    prompt = build_prompt(SCENES[row["scene"]], question(*row["question"]), shots, cot=row["cot"], wording="paper")
    lines = prompt.split("\n")
    assert {number: lines[int(number)] for number in row["lines"]} == row["lines"]
    assert "whole" not in row or len(lines) == len(row["lines"])


def test_steps_are_refused_for_unimodal_tasks() -> None:
    with pytest.raises(ValueError, match="img2img"):
        build_prompt(SCENES["unimodal"], question("img2img", "shape", "cone", "color"), cot=True, wording="paper")

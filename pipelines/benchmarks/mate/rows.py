"""One valid row of MATE, and how a sample holds the rows of its scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipelines.benchmarks.mate.answers import Gold
from pipelines.benchmarks.mate.scene import Question, Scene, shot_shows_target
from pipelines.benchmarks.records import Sample

SETTINGS: Final = ("0-shot", "1-shot", "2-shot", "2-shot-cot")
"""A setting's index is its number of solved examples, but for the last, which shows two."""
COT: Final = "2-shot-cot"
CROSSMODAL: Final = ("img2txt", "txt2img")


@dataclass(frozen=True, slots=True, kw_only=True)
class MateRow:
    """One valid row."""

    sample_id: str
    scene: Scene
    question: Question
    setting: str
    gold: Gold
    text: str | None  # the whole prompt, byte for byte; None where it is built
    shots: tuple[tuple[str, Gold], ...] | None  # pointers of the solved examples; None where they are not known
    targets: tuple[str, ...] = ()  # what built examples ask for; empty for examples that stand in `text`
    image: str = ""  # name of the picture's file; '' where the picture is in the row
    generated: bool = False
    odd: tuple[str, ...] = ()  # oddities that do not reject the row

    @property
    def key(self) -> tuple[str, str]:
        """Task and setting: with the sample's id, the name of the row."""
        return self.question.task, self.setting

    def as_data(self) -> dict[str, Any]:
        """Return the row as a sample's `data` holds it."""
        target = self.question.object_index(self.scene)
        shows = None if self.shots is None else shot_shows_target(self.scene, target, self.shots)
        return {
            "task": self.question.task,
            "setting": self.setting,
            "pointer": [self.question.pointer_attribute, self.question.pointer_value],
            "target": self.question.target_attribute,
            "gold": self.gold,
            "text": self.text,
            "shots": None if self.shots is None else [list(shot) for shot in self.shots],
            "shot_targets": list(self.targets),
            "shot_shows_target": shows,
        }


def find_row(sample: Sample, task: str, setting: str) -> Mapping[str, Any] | None:
    """Return the sample's row of a task and setting; None where the data have none."""
    rows: list[Mapping[str, Any]] = sample.data["rows"]
    return next((row for row in rows if (row["task"], row["setting"]) == (task, setting)), None)


def question_of(row: Mapping[str, Any]) -> Question:
    """Return the question of a row in a sample's `data`."""
    attribute, value = row["pointer"]
    return Question(task=row["task"], pointer_attribute=attribute, pointer_value=value, target_attribute=row["target"])


def shots_of(row: Mapping[str, Any]) -> tuple[Question, ...]:
    """Return the solved examples of a row in a sample's `data` whose prompt is built."""
    return tuple(
        Question(task=row["task"], pointer_attribute=attribute, pointer_value=value, target_attribute=target)
        for (attribute, value), target in zip(row["shots"], row["shot_targets"], strict=True)
    )

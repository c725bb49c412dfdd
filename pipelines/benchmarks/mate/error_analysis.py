"""Analyse MATE's wrong answers, and compute what guessing would score. Pure functions."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipelines.benchmarks.mate.answers import Answer, Gold, JsonValue, is_correct
from pipelines.benchmarks.mate.linking import LINKABLE
from pipelines.benchmarks.mate.scene import COLORS, SHAPES, Question, Scene

OverlapLabel: TypeAlias = Literal["4", "3", "2", "1", "0", "-"]
OVERLAP_LABELS: tuple[OverlapLabel, ...] = ("4", "3", "2", "1", "0", "-")


def in_scene(answer: Answer | None, scene: Scene, target: str) -> bool:
    """Return whether an object of the scene has the answer as its target value, compared as text."""
    return answer is not None and any(str(item.value(target)) == answer.text for item in scene.objects)


# ----------------------------------------------------------------------------------- which object was meant instead


@dataclass(frozen=True, slots=True)
class Closer:
    """Whether the named object is no farther from the true one than comparable objects on average."""

    distance: bool  # by straight distance
    depth: bool  # by the distance along X alone
    horizontal: bool  # by the distance along Y alone
    alone: bool  # no other object is comparable: true without a comparison


@dataclass(frozen=True, slots=True)
class Overlap:
    """The error analysis of one row that only coordinates link."""

    label: OverlapLabel  # `4` right; `3`..`0` shared attributes of the named object; `-` no JSON or no such object
    closer: Closer | None  # of the object named instead; None for `4` and `-`


def overlap(scene: Scene, question: Question, answer: Answer | None) -> Overlap:
    """Classify the answer to a row whose object no attribute combination links; a number in quotes names no object.

    Raises:
        ValueError: the question is not cross-modal, or its pointer not unique.
    """
    if not question.hidden:
        raise ValueError(f"overlap is told of cross-modal questions, not of {question.task}")
    if is_correct(question.gold(scene), answer):
        return Overlap("4", None)
    requests = question.asked(scene)
    named = None if answer is None else _named_instead(scene, requests, question.target_attribute, answer.value)
    if named is None:
        return Overlap("-", None)
    usable = [key for key in LINKABLE if key not in question.hidden]
    alike = [_alike(scene, requests, place, usable) for place in range(len(scene.objects))]
    like = [place for place, count in enumerate(alike) if count == alike[named] and place != requests]
    return Overlap(OVERLAP_LABELS[4 - alike[named]], _closer(scene, requests, named, like))


def _named_instead(scene: Scene, asked: int, target: str, value: JsonValue) -> int | None:
    """Return the object with this target value nearest to the true one, which itself is skipped."""
    places = [
        place for place, item in enumerate(scene.objects) if place != asked and _same_typed(item.value(target), value)
    ]
    return min(places, key=lambda place: _apart(scene, asked, place), default=None)


def _same_typed(wanted: Gold, value: JsonValue) -> bool:
    if isinstance(value, bool) or (isinstance(value, list) and any(isinstance(item, bool) for item in value)):
        return False  # Python takes true for 1
    return wanted == value


def _alike(scene: Scene, one: int, other: int, keys: Collection[str]) -> int:
    return sum(scene.objects[one].seen(key) == scene.objects[other].seen(key) for key in keys)


def _apart(scene: Scene, one: int, other: int, axes: Sequence[int] = (0, 1, 2)) -> float:
    first, second = scene.objects[one].coords, scene.objects[other].coords
    return math.dist([first[axis] for axis in axes], [second[axis] for axis in axes])


def _closer(scene: Scene, asked: int, named: int, like: Sequence[int]) -> Closer:
    def wins(axes: Sequence[int]) -> bool:
        mean = math.fsum(_apart(scene, asked, place, axes) for place in like) / len(like)
        subset = _apart(scene, asked, named, axes)
        return subset <= mean or math.isclose(
            subset, mean, rel_tol=1e-12
        )  # a tie counts, whatever the division rounded

    return Closer(distance=wins((0, 1, 2)), depth=wins((0,)), horizontal=wins((1,)), alone=len(like) == 1)


# ------------------------------------------------------------------------------------------------------------ chance


def chance(scene: Scene, target: str, gold: Gold) -> float:
    """Return the probability that a guess is right, a fraction; 0 where no object has the gold value.

    Textual targets are guessed among the values of the scene's objects, repeats kept; visual ones among the options.
    """
    if target in {"color", "shape"}:
        return 1 / len(COLORS if target == "color" else SHAPES)
    values = [str(item.value(target)) for item in scene.objects]
    return values.count(str(gold)) / len(values)

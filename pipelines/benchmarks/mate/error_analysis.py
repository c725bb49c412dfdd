"""Analyse MATE's wrong answers, list those that name nothing in the scene, and compute what guessing would score."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pipelines.benchmarks.item_lists import ItemList, listed, rows_of
from pipelines.benchmarks.mate.answers import Answer, Gold, JsonValue, is_correct
from pipelines.benchmarks.mate.rows import find_row
from pipelines.benchmarks.mate.scene import COLORS, CROSSMODAL, LINKABLE, SHAPES, Question, Scene
from pipelines.benchmarks.records import Sample

if TYPE_CHECKING:
    import pandas as pd

OverlapLabel: TypeAlias = Literal["4", "3", "2", "1", "0", "-"]
OVERLAP_LABELS: tuple[OverlapLabel, ...] = ("4", "3", "2", "1", "0", "-")


def in_scene(answer: Answer | None, scene: Scene, target: str) -> bool:
    """Return whether an object of the scene has the answer as its target value, compared as text."""
    return answer is not None and any(str(item.value(target)) == answer.text for item in scene.objects)


# ----------------------------------------------------------------------------------------- the object of the answer


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
    closer: Closer | None  # of the object that the answer names; None for `4` and `-`


def overlap(scene: Scene, question: Question, answer: Answer | None) -> Overlap:
    """Classify the answer to a row whose object no attribute combination links; a number in quotes names no object.

    Raises:
        ValueError: the question is not cross-modal, or its pointer not unique.
    """
    if not question.hidden:
        raise ValueError(f"overlap is defined for cross-modal questions, not for {question.task}")
    if is_correct(question.gold(scene), answer):
        return Overlap("4", None)
    gold_index = question.object_index(scene)
    answer_index = (
        None if answer is None else _nearest_match(scene, gold_index, question.target_attribute, answer.value)
    )
    if answer_index is None:
        return Overlap("-", None)
    usable = [key for key in LINKABLE if key not in question.hidden]
    shared_counts = [_count_shared(scene, gold_index, index, usable) for index in range(len(scene.objects))]
    peers = [
        index
        for index, count in enumerate(shared_counts)
        if count == shared_counts[answer_index] and index != gold_index
    ]
    return Overlap(OVERLAP_LABELS[4 - shared_counts[answer_index]], _closer(scene, gold_index, answer_index, peers))


def _nearest_match(scene: Scene, gold_index: int, target: str, value: JsonValue) -> int | None:
    """Return the object with this target value nearest to the true one, which itself is skipped."""
    indices = [
        index
        for index, item in enumerate(scene.objects)
        if index != gold_index and _equals_gold(item.value(target), value)
    ]
    return min(indices, key=lambda index: _distance(scene, gold_index, index), default=None)


def _equals_gold(gold: Gold, value: JsonValue) -> bool:
    if isinstance(value, bool) or (isinstance(value, list) and any(isinstance(item, bool) for item in value)):
        return False  # Python takes true for 1
    return gold == value


def _count_shared(scene: Scene, first: int, second: int, keys: Collection[str]) -> int:
    return sum(scene.objects[first].visible_value(key) == scene.objects[second].visible_value(key) for key in keys)


def _distance(scene: Scene, first_index: int, second_index: int, axes: Sequence[int] = (0, 1, 2)) -> float:
    first, second = scene.objects[first_index].coords, scene.objects[second_index].coords
    return math.dist([first[axis] for axis in axes], [second[axis] for axis in axes])


def _closer(scene: Scene, gold_index: int, answer_index: int, peers: Sequence[int]) -> Closer:
    def wins(axes: Sequence[int]) -> bool:
        mean = math.fsum(_distance(scene, gold_index, index, axes) for index in peers) / len(peers)
        distance = _distance(scene, gold_index, answer_index, axes)
        # A tie counts, however the division rounds.
        return distance <= mean or math.isclose(distance, mean, rel_tol=1e-12)

    return Closer(distance=wins((0, 1, 2)), depth=wins((0,)), horizontal=wins((1,)), alone=len(peers) == 1)


# ------------------------------------------------------------------------------------------------------------ chance


def chance(scene: Scene, target: str, gold: Gold) -> float:
    """Return the probability that a guess is right, a fraction; 0 where no object has the gold value.

    Textual targets are guessed among the values of the scene's objects, repeats kept; visual ones among the options.
    """
    if target in {"color", "shape"}:
        return 1 / len(COLORS if target == "color" else SHAPES)
    values = [str(item.value(target)) for item in scene.objects]
    return values.count(str(gold)) / len(values)


def item_lists(scores: "pd.DataFrame", samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the list of one model, from its scores and samples by id."""
    if "in_scene" not in scores:
        return []
    is_outside = (scores["correct"] == 0.0) & (scores["in_scene"] == 0.0)
    items = []
    for row in rows_of(scores[is_outside & (scores["status"] == "ok") & scores["task"].isin(CROSSMODAL)]):
        query = find_row(samples[row["sample_id"]], row["task"], row["setting"])
        if query is None:
            continue
        pointer, value = query["pointer"]
        items.append(
            listed(
                row,
                question=f"{query['target']} of the object whose {pointer} is {value}",
                expected=str(query["gold"]),
                answer=row["answer"],
                detail="no JSON with an answer" if row["rule"] == "no json" else "no object has this value",
            )
        )
    return [
        ItemList(
            id="mate_out_of_scene",
            title="MATE: wrong answers that name nothing in the scene",
            about="Cross-modal; divided by all wrong answers they are OSE of Table 2.",
            items=items,
        )
    ]

"""Choose the questions about generated scenes: every task and every pair of attributes as often as any other."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.benchmarks.mate.answers import Gold
from pipelines.benchmarks.mate.generator.appearance import ObjectSet
from pipelines.benchmarks.mate.prompts import draw_shots
from pipelines.benchmarks.mate.scene import TASKS, TEXTUAL, VISUAL, Question, Scene, find_object, unique_values

KINDS = {"mm": ("img2txt", "txt2img"), "um": ("img2img", "txt2txt")}  # file name's first part -> tasks
STRATA = (1, 2, 3, 0)  # attributes that link an object; 0 stands for coordinates alone

Pair = tuple[str, str]
Pools = dict[str, list[Gold]]


@dataclass(frozen=True, slots=True)
class QuestionItem:
    """One question with the most solved examples that any file shows; files with fewer show the first of them."""

    question: Question
    shots: tuple[Question, ...]


@dataclass(slots=True)
class Balance:
    """The questions of all scenes so far, in their order."""

    tasks: tuple[str, ...]  # tasks that may be asked; their order settles ties
    used_tasks: Counter[tuple[int, str]] = field(default_factory=Counter)  # by (object count, task)
    used_pairs: Counter[tuple[int, str, Pair]] = field(default_factory=Counter)
    """By (object count, task, (target, pointer))."""
    used_strata: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    """By (object count, task, linking attributes)."""

    def next_task(self, count: int, kind: Sequence[str]) -> str | None:
        """Return the task of this kind that scenes of `count` objects served least; None where none is wanted."""
        matching_tasks = [task for task in self.tasks if task in kind]
        return min(matching_tasks, key=lambda task: self.used_tasks[count, task], default=None)

    def next_pairs(self, count: int, task: str, pools: Pools) -> list[Pair]:
        """Return the (target, pointer) pairs that a scene can serve, least used first; ties in attribute order."""
        pointers, targets = TASKS[task]
        possible = [
            (target, pointer)
            for target in targets
            for pointer in pointers
            if target != pointer and pools[target] and pools[pointer]
        ]
        return sorted(possible, key=lambda pair: self.used_pairs[count, task, pair])

    def next_strata(self, count: int, task: str) -> list[int]:
        """Return the strata, emptiest first."""
        return sorted(STRATA, key=lambda links: self.used_strata[count, task, links])

    def record(self, count: int, question: Question, links: int) -> None:
        """Count a question that was asked."""
        self.used_tasks[count, question.task] += 1
        self.used_pairs[count, question.task, (question.target_attribute, question.pointer_attribute)] += 1
        self.used_strata[count, question.task, links] += 1


def pools_of(scene: Scene, object_set: ObjectSet) -> Pools:
    """Return the values that may point, by attribute: of visual ones only those made unique on purpose."""
    visual: Pools = {attribute: list(object_set.keys(attribute)) for attribute in VISUAL}
    return visual | {attribute: unique_values(scene, attribute) for attribute in TEXTUAL}


def ask(rng: random.Random, task: str, pair: Pair, values: Sequence[Gold]) -> Question:
    """Return the question of one task for a (target, pointer) pair, its pointing value drawn from `values`."""
    target, pointer = pair
    return Question(task=task, pointer_attribute=pointer, pointer_value=rng.choice(values), target_attribute=target)


def choose_shots(
    rng: random.Random, scene: Scene, question: Question, pools: Pools, *, count: int, may_show_target: bool
) -> tuple[Question, ...]:
    """Draw `count` solved examples; `may_show_target` allows the question's object, or one object twice."""
    pool = [(attribute, value) for attribute in TASKS[question.task][0] for value in pools[attribute]]
    if may_show_target:
        return draw_shots(rng, question, pool, count)
    taken, shots = {question.object_index(scene)}, []
    for _ in range(count):
        pool = [(attribute, value) for attribute, value in pool if find_object(scene, attribute, value) not in taken]
        (shot,) = draw_shots(rng, question, pool, 1)
        taken.add(shot.object_index(scene))
        shots.append(shot)
    return tuple(shots)

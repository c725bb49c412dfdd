"""Choose the questions about generated scenes: every task and every pair of attributes as often as any other.

A stratum is how many attributes link the object across picture and text. In full scenes coordinates alone link nearly
every object. Where a scene has no such object, its looks are drawn anew, and else one is made; positions stay. Every
search has a bound; a scene that cannot serve the emptiest stratum serves the next one.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jobs.generate.objects import FAIR_GAP, Layout, ObjectSet, placement_holds, redraw_objects
from jobs.generate.parameters import Options
from pipelines.benchmarks.mate.answers import Gold
from pipelines.benchmarks.mate.prompts import draw_shots
from pipelines.benchmarks.mate.scene import (
    MATERIALS,
    TASKS,
    TEXTUAL,
    VISUAL,
    Question,
    Scene,
    find_object,
    hidden_attributes,
    linking,
    unique_values,
)

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

    def next_task(self, count: int, kind: Sequence[str], first: int = 0) -> str | None:
        """Return the task of this kind that scenes of `count` objects served least; None where none is wanted.

        Of tasks that they served alike, the `first` one, counted on from the beginning again.
        """
        tasks = [task for task in self.tasks if task in kind]
        start = first % len(tasks) if tasks else 0
        matching_tasks = [*tasks[start:], *tasks[:start]]
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


def with_shots(rng: random.Random, layout: Layout, question: Question, options: Options) -> QuestionItem:
    """Return a question with examples drawn from its scene."""
    pools, count = pools_of(layout.scene, layout.object_set), max(options.shots)
    may_show_target = options.shots_may_show_target
    shots = choose_shots(rng, layout.scene, question, pools, count=count, may_show_target=may_show_target)
    return QuestionItem(question, shots)


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


_REDRAWS = 20
_BUILDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search for a cross-modal question about one scene."""

    rng: random.Random
    layout: Layout  # the scene before changes
    task: str  # to ask about
    balance: Balance  # the questions so far
    options: Options  # the rules that a changed scene must keep

    def run(self) -> tuple[Layout, Question]:
        """Return the question for the emptiest stratum in reach, with the scene that serves it."""
        result = self.first()
        assert result is not None, "the unchanged scene serves one of the strata"
        return result

    def first(self) -> tuple[Layout, Question] | None:
        """Return the same; None where the strata are not all that there are, and none is in reach."""
        for link_count in self.balance.next_strata(self.layout.count, self.task):
            for layout in self._scenes(link_count):
                question = self._question(layout, link_count)
                if question is not None and (layout is self.layout or self._stands(layout)):
                    return layout, question
        return None

    def _scenes(self, link_count: int) -> Iterator[Layout]:
        yield self.layout
        for _ in range(_REDRAWS):
            yield replace(self.layout, object_set=redraw_objects(self.rng, self.layout.object_set, self.options))
        for _ in range(_BUILDS):
            pair, object_index = self._candidate()
            (hidden,) = hidden_attributes(self.task, pair[1], pair[0])
            (attribute,) = set(VISUAL) - {hidden}
            object_set = build(self.rng, self.layout, object_index, attribute=attribute, link_count=link_count)
            if object_set is not None:
                yield replace(self.layout, object_set=object_set)

    def _candidate(self) -> tuple[Pair, int]:
        """Return a pair among the least used, and an object that it may ask about."""
        scene = self.layout.scene
        pools = pools_of(scene, self.layout.object_set)
        pair = self.rng.choice(self.balance.next_pairs(self.layout.count, self.task, pools)[:4])
        return pair, find_object(scene, pair[1], self.rng.choice(pools[pair[1]]))

    def _question(self, layout: Layout, link_count: int) -> Question | None:
        """Return a question of the requested stratum, of the least used pair that has one."""
        scene = layout.scene
        pools = pools_of(scene, layout.object_set)
        for pair in self.balance.next_pairs(layout.count, self.task, pools):
            hidden = hidden_attributes(self.task, pair[1], pair[0])
            values = [
                value
                for value in pools[pair[1]]
                if linking(scene, find_object(scene, pair[1], value), hidden).k == link_count
            ]
            if values:
                return ask(self.rng, self.task, pair, values)
        return None

    def _stands(self, layout: Layout) -> bool:
        return placement_holds(layout.object_set.appearances, layout.positions, layout.camera, self.options)


def build(
    rng: random.Random, layout: Layout, object_index: int, *, attribute: str, link_count: int
) -> ObjectSet | None:
    """Change what surrounds the object at `object_index` until `link_count` attributes (0: coordinates alone) link it.

    `attribute` is the visual attribute in both picture and text; neither sizes nor pointing values change. Return
    None where these do not allow it. Whether the objects may still stand where they are is not checked.
    """
    object_set = layout.object_set
    target = object_set.appearances[object_index]
    value = str(getattr(target, attribute))
    if value in object_set.keys(attribute):  # nothing else may have it: it links by itself
        return object_set if link_count == 1 else None
    candidates = [
        index
        for index, appearance in enumerate(object_set.appearances)
        if index != object_index and getattr(appearance, attribute) not in object_set.keys(attribute)
    ]
    unlike = [free for free in object_set.free(attribute) if free != value]
    if link_count == 0:
        matching = [
            index
            for index in candidates
            if object_set.appearances[index].radius == target.radius and _far_enough(layout, object_index, index)
        ]
        return (
            object_set.repainted({rng.choice(matching): {attribute: value, "material": target.material}})
            if matching
            else None
        )
    if not unlike:
        return None
    if link_count == 1:
        alike = [index for index in candidates if getattr(object_set.appearances[index], attribute) == value]
        return object_set.repainted({index: {attribute: rng.choice(unlike)} for index in alike})
    roles = _roles(rng, object_set, [object_index, *candidates], link_count)
    if roles is None:
        return None
    (opposite,) = set(MATERIALS) - {target.material}
    changes = {index: {attribute: value, "material": target.material} for index in roles[2:]}
    changes[roles[0]] = {attribute: value, "material": opposite}
    changes[roles[1]] = {"material": target.material}
    if getattr(object_set.appearances[roles[1]], attribute) == value:
        changes[roles[1]][attribute] = rng.choice(unlike)
    for index in candidates:
        appearance = object_set.appearances[index]
        # With two links no other object shares value and material; with three none of the same size does.
        collides = getattr(appearance, attribute) == value and (link_count == 2 or appearance.radius == target.radius)
        if index not in changes and collides and appearance.material == target.material:
            changes[index] = {"material": opposite}
    return object_set.repainted(changes)


def _roles(rng: random.Random, object_set: ObjectSet, indices: list[int], link_count: int) -> list[int] | None:
    """Return who shares value and size, who material (and, of three, size), and for three who value and material.

    The first of `indices` is the target object; the rest may take any value. Objects that share no value are free.
    """
    object_index, *candidates = indices
    radius = object_set.appearances[object_index].radius
    first = [index for index in candidates if object_set.appearances[index].radius == radius]
    if not first:
        return None
    roles = [rng.choice(first)]
    second = [
        index
        for index, appearance in enumerate(object_set.appearances)
        if index not in {object_index, *roles} and (link_count == 2 or appearance.radius == radius)
    ]
    third = [index for index in candidates if object_set.appearances[index].radius != radius]
    if not second or (link_count == 3 and not third):
        return None
    return [*roles, rng.choice(second), *([rng.choice(third)] if link_count == 3 else [])]


def _far_enough(layout: Layout, first: int, second: int) -> bool:
    (x0, y0, _), (x1, y1, _) = layout.positions[first], layout.positions[second]
    return abs(x0 - x1) >= FAIR_GAP or abs(y0 - y1) >= FAIR_GAP

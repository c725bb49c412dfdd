"""Questions of a requested difficulty: how many attributes link the object across picture and text.

In full scenes coordinates alone link nearly every object. Where a scene has no such object, its looks are
drawn anew, and else one is made; positions stay. Every search has a bound; a scene that cannot serve the emptiest
stratum serves the next one.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipelines.benchmarks.mate.generator.looks import Cast, redraw_cast
from pipelines.benchmarks.mate.generator.parameters import Options
from pipelines.benchmarks.mate.generator.placement import FAIR_GAP, placement_holds
from pipelines.benchmarks.mate.generator.questions import Balance, Pair, ask, pools_of
from pipelines.benchmarks.mate.generator.scenes import Layout
from pipelines.benchmarks.mate.linking import linking
from pipelines.benchmarks.mate.scene import MATERIALS, VISUAL, Question, find_object, hidden_attributes

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
        for link_count in self.balance.next_strata(self.layout.count, self.task):
            for layout in self._scenes(link_count):
                question = self._question(layout, link_count)
                if question is not None and (layout is self.layout or self._stands(layout)):
                    return layout, question
        raise AssertionError("the unchanged scene serves one of the strata")

    def _scenes(self, link_count: int) -> Iterator[Layout]:
        yield self.layout
        for _ in range(_REDRAWS):
            yield replace(self.layout, cast=redraw_cast(self.rng, self.layout.cast, self.options))
        for _ in range(_BUILDS):
            pair, object_index = self._candidate()
            (hidden,) = hidden_attributes(self.task, pair[1], pair[0])
            (attribute,) = set(VISUAL) - {hidden}
            cast = build(self.rng, self.layout, object_index, attribute=attribute, link_count=link_count)
            if cast is not None:
                yield replace(self.layout, cast=cast)

    def _candidate(self) -> tuple[Pair, int]:
        """Return a pair among the least used, and an object that it may ask about."""
        scene = self.layout.scene
        pools = pools_of(scene, self.layout.cast)
        pair = self.rng.choice(self.balance.next_pairs(self.layout.count, self.task, pools)[:4])
        return pair, find_object(scene, pair[1], self.rng.choice(pools[pair[1]]))

    def _question(self, layout: Layout, link_count: int) -> Question | None:
        """Return a question of the requested stratum, of the least used pair that has one."""
        scene = layout.scene
        pools = pools_of(scene, layout.cast)
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
        return placement_holds(layout.cast.looks, layout.spots, layout.camera, self.options)


def build(rng: random.Random, layout: Layout, object_index: int, *, attribute: str, link_count: int) -> Cast | None:
    """Change what surrounds the object at `object_index` until `link_count` attributes (0: coordinates alone) link it.

    `attribute` is the visual attribute in both picture and text; neither sizes nor pointing values change. Return
    None where these do not allow it. Whether the objects may still stand where they are is not checked.
    """
    cast = layout.cast
    target = cast.looks[object_index]
    value = str(getattr(target, attribute))
    if value in cast.keys(attribute):  # nothing else may have it: it links by itself
        return cast if link_count == 1 else None
    candidates = [
        index
        for index, look in enumerate(cast.looks)
        if index != object_index and getattr(look, attribute) not in cast.keys(attribute)
    ]
    unlike = [free for free in cast.free(attribute) if free != value]
    if link_count == 0:
        twins = [
            index
            for index in candidates
            if cast.looks[index].radius == target.radius and _far_enough(layout, object_index, index)
        ]
        return cast.repainted({rng.choice(twins): {attribute: value, "material": target.material}}) if twins else None
    if not unlike:
        return None
    if link_count == 1:
        alike = [index for index in candidates if getattr(cast.looks[index], attribute) == value]
        return cast.repainted({index: {attribute: rng.choice(unlike)} for index in alike})
    roles = _roles(rng, cast, [object_index, *candidates], link_count)
    if roles is None:
        return None
    (opposite,) = set(MATERIALS) - {target.material}
    changes = {index: {attribute: value, "material": target.material} for index in roles[2:]}
    changes[roles[0]] = {attribute: value, "material": opposite}
    changes[roles[1]] = {"material": target.material}
    if getattr(cast.looks[roles[1]], attribute) == value:
        changes[roles[1]][attribute] = rng.choice(unlike)
    for index in candidates:
        look = cast.looks[index]
        # With two links no other object shares value and material; with three none of the same size does.
        rival = getattr(look, attribute) == value and (link_count == 2 or look.radius == target.radius)
        if index not in changes and rival and look.material == target.material:
            changes[index] = {"material": opposite}
    return cast.repainted(changes)


def _roles(rng: random.Random, cast: Cast, indices: list[int], link_count: int) -> list[int] | None:
    """Return who shares value and size, who material (and, of three, size), and for three who value and material.

    The first of `indices` is the target object; the rest may take any value. Objects that share no value are free.
    """
    object_index, *candidates = indices
    radius = cast.looks[object_index].radius
    first = [index for index in candidates if cast.looks[index].radius == radius]
    if not first:
        return None
    roles = [rng.choice(first)]
    second = [
        index
        for index, look in enumerate(cast.looks)
        if index not in {object_index, *roles} and (link_count == 2 or look.radius == radius)
    ]
    third = [index for index in candidates if cast.looks[index].radius != radius]
    if not second or (link_count == 3 and not third):
        return None
    return [*roles, rng.choice(second), *([rng.choice(third)] if link_count == 3 else [])]


def _far_enough(layout: Layout, first: int, second: int) -> bool:
    (x0, y0, _), (x1, y1, _) = layout.spots[first], layout.spots[second]
    return abs(x0 - x1) >= FAIR_GAP or abs(y0 - y1) >= FAIR_GAP

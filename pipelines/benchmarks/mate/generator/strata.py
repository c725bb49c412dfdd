"""Questions of a wanted difficulty: how many attributes link the object across picture and text.

In full scenes coordinates alone link nearly every object. Where a scene has no object of the wanted kind, its looks are
drawn anew, and else one is made; positions stay. Every search has a bound; a scene that cannot serve the emptiest
stratum serves the next one.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipelines.benchmarks.mate.generator.looks import Cast, redraw_cast
from pipelines.benchmarks.mate.generator.parameters import Options
from pipelines.benchmarks.mate.generator.placement import FAIR_GAP, still_stands
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
        for expected in self.balance.next_strata(self.layout.count, self.task):
            for layout in self._scenes(expected):
                question = self._question(layout, expected)
                if question is not None and (layout is self.layout or self._stands(layout)):
                    return layout, question
        raise AssertionError("the scene as it came serves one of the strata")

    def _scenes(self, wanted: int) -> Iterator[Layout]:
        yield self.layout
        for _ in range(_REDRAWS):
            yield replace(self.layout, cast=redraw_cast(self.rng, self.layout.cast, self.options))
        for _ in range(_BUILDS):
            pair, requests = self._candidate()
            (hidden,) = hidden_attributes(self.task, pair[1], pair[0])
            (shown,) = set(VISUAL) - {hidden}
            cast = build(self.rng, self.layout, requests, shown=shown, wanted=wanted)
            if cast is not None:
                yield replace(self.layout, cast=cast)

    def _candidate(self) -> tuple[Pair, int]:
        """Return a pair among the least used, and an object that it may ask about."""
        scene = self.layout.scene
        pools = pools_of(scene, self.layout.cast)
        pair = self.rng.choice(self.balance.next_pairs(self.layout.count, self.task, pools)[:4])
        return pair, find_object(scene, pair[1], self.rng.choice(pools[pair[1]]))

    def _question(self, layout: Layout, wanted: int) -> Question | None:
        """Return a question of the wanted stratum, of the least used pair that has one."""
        scene = layout.scene
        pools = pools_of(scene, layout.cast)
        for pair in self.balance.next_pairs(layout.count, self.task, pools):
            hidden = hidden_attributes(self.task, pair[1], pair[0])
            values = [
                value
                for value in pools[pair[1]]
                if linking(scene, find_object(scene, pair[1], value), hidden).k == wanted
            ]
            if values:
                return ask(self.rng, self.task, pair, values)
        return None

    def _stands(self, layout: Layout) -> bool:
        return still_stands(layout.cast.looks, layout.spots, layout.camera, self.options)


def build(rng: random.Random, layout: Layout, asked: int, *, shown: str, wanted: int) -> Cast | None:
    """Change what surrounds the object at `asked` until `wanted` attributes (0: coordinates alone) link it.

    `shown` is the visual attribute that both picture and text have; neither sizes nor pointing values change. Returns
    None where these do not allow it. Whether the objects may still stand where they are is not checked.
    """
    cast = layout.cast
    subset = cast.looks[asked]
    value = str(getattr(subset, shown))
    if value in cast.keys(shown):  # nothing else may have it: it links by itself
        return cast if wanted == 1 else None
    others = [
        place
        for place, look in enumerate(cast.looks)
        if place != asked and getattr(look, shown) not in cast.keys(shown)
    ]
    unlike = [free for free in cast.free(shown) if free != value]
    if wanted == 0:
        twins = [
            place for place in others if cast.looks[place].radius == subset.radius and _apart(layout, asked, place)
        ]
        return cast.repainted({rng.choice(twins): {shown: value, "material": subset.material}}) if twins else None
    if not unlike:
        return None
    if wanted == 1:
        alike = [place for place in others if getattr(cast.looks[place], shown) == value]
        return cast.repainted({place: {shown: rng.choice(unlike)} for place in alike})
    roles = _roles(rng, cast, [asked, *others], wanted)
    if roles is None:
        return None
    (opposite,) = set(MATERIALS) - {subset.material}
    changes = {place: {shown: value, "material": subset.material} for place in roles[2:]}
    changes[roles[0]] = {shown: value, "material": opposite}
    changes[roles[1]] = {"material": subset.material}
    if getattr(cast.looks[roles[1]], shown) == value:
        changes[roles[1]][shown] = rng.choice(unlike)
    for place in others:
        look = cast.looks[place]
        # With two links no other object shares value and material; with three none of the same size does.
        rival = getattr(look, shown) == value and (wanted == 2 or look.radius == subset.radius)
        if place not in changes and rival and look.material == subset.material:
            changes[place] = {"material": opposite}
    return cast.repainted(changes)


def _roles(rng: random.Random, cast: Cast, places: list[int], wanted: int) -> list[int] | None:
    """Return who shares value and size, who material (and, of three, size), and for three who value and material.

    The first of `places` is the object asked about; the rest may take any value. Objects that share no value are free.
    """
    requests, *others = places
    radius = cast.looks[requests].radius
    first = [place for place in others if cast.looks[place].radius == radius]
    if not first:
        return None
    roles = [rng.choice(first)]
    second = [
        place
        for place, look in enumerate(cast.looks)
        if place not in {requests, *roles} and (wanted == 2 or look.radius == radius)
    ]
    third = [place for place in others if cast.looks[place].radius != radius]
    if not second or (wanted == 3 and not third):
        return None
    return [*roles, rng.choice(second), *([rng.choice(third)] if wanted == 3 else [])]


def _apart(layout: Layout, one: int, other: int) -> bool:
    (x0, y0, _), (x1, y1, _) = layout.spots[one], layout.spots[other]
    return abs(x0 - x1) >= FAIR_GAP or abs(y0 - y1) >= FAIR_GAP

"""The parameters of a generated data set, and which combinations are impossible."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipelines.benchmarks.mate.scene import COLORS, SHAPES, TASKS
from pipelines.errors import UsageError

GENERATOR_VERSION = "2"  # raised by every change of the bytes of a data set

MIN_OBJECTS = 3  # two solved examples describe two objects besides the one asked about
MAX_OBJECTS = 200  # as far as placement was tried
MIN_LINKED_OBJECTS = 4  # no object of three needs three attributes to be distinguished from the others

Objects: TypeAlias = range | tuple[int, int]


def stream(*parts: object) -> random.Random:
    """Return the random stream of one purpose; the same parts give the same stream everywhere."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - draws scenes, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Choices beyond object counts, examples and seed."""

    tasks: tuple[str, ...] = tuple(TASKS)  # tasks asked, of `TASKS`; their order settles ties
    shots: tuple[int, ...] = (0, 1, 2)  # numbers of solved examples, one file each
    cot: bool = True  # also write the cross-modal questions with steps; they need 2 among `shots`
    max_key_colors: int = 3  # pointing colors, 1..7; fewer where a scene has too few objects
    max_key_shapes: int = 1  # pointing shapes, 1..3
    stratify: Literal["links"] | None = None  # `links`: as many cross-modal questions of each stratum
    shots_may_show_target: bool = False  # whether an example may describe the target, as the original's do
    coords_decimals: int | None = None  # decimals of X and Y, 1..15; None keeps every digit
    min_visible_px: int = 120  # pixels of each object that must show; 0 to 250 at a width of 480
    min_visible_share: float = 0.35  # visible part of each outline: above 0, at most 0.9, beyond ten objects 0.6
    width: int = 480  # width of a picture of up to 10 objects, in pixels; more objects get more room
    height: int = 320  # of the same picture, in pixels

    def check(self) -> None:
        """Raise UsageError, naming the constraint that does not hold."""
        tasks, shots = set(self.tasks), set(self.shots)
        decimals, px = self.coords_decimals, self.min_visible_px
        pointers, most = self.max_key_colors + self.max_key_shapes, 1 + max(shots, default=0)
        # The farthest small cone has about 300 pixels at a width of 480, and as many more as the picture is larger.
        max_pixels = int(250 * (self.width / 480) ** 2)
        _demand(
            ("tasks", "name each task once", self.tasks, 0 < len(tasks) == len(self.tasks)),
            ("tasks", f"choose from {', '.join(TASKS)}", self.tasks, tasks <= set(TASKS)),
            ("shots", "choose from 0, 1, 2", self.shots, bool(shots) and shots <= {0, 1, 2}),
            ("cot", "questions with steps show two examples: add 2 to shots", self.cot, not self.cot or 2 in shots),
            ("max_key_colors", "1 to 7", self.max_key_colors, 1 <= self.max_key_colors < len(COLORS)),
            ("max_key_shapes", "1 to 3", self.max_key_shapes, 1 <= self.max_key_shapes < len(SHAPES)),
            (
                "max_key_colors + max_key_shapes",
                f"one pointer and {most - 1} examples need at least {most}",
                pointers,
                pointers >= most or tasks.isdisjoint({"img2txt", "img2img"}),
            ),
            ("coords_decimals", "1 to 15", decimals, decimals is None or 1 <= decimals <= 15),
            ("width", "240 to 1920", self.width, 240 <= self.width <= 1920),
            # The camera's angle is fixed by the width: a flatter picture would cut off the near and the far objects.
            ("height", "2/3 to 2 times the width", self.height, self.width * 2 <= self.height * 3 <= self.width * 6),
            ("min_visible_px", f"0 to {max_pixels} at this width", px, 0 <= px <= max_pixels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides the bytes of a data set; the number of processes does not."""

    counts: tuple[int, ...]  # numbers of objects, taken in turn
    examples: int  # scenes in all; each carries one cross-modal and one unimodal question
    seed: int  # of all random draws
    options: Options

    def check(self) -> None:
        """Raise UsageError, naming the constraint that does not hold."""
        self.options.check()
        _demand(("examples", "1 or more", self.examples, self.examples >= 1))
        low, high, options = min(self.counts), max(self.counts), self.options
        pointers, gap, decimals = options.max_key_colors + options.max_key_shapes, margin(high), options.coords_decimals
        share = 0.9 if high <= 10 else 0.6  # a fuller floor hides more, however often objects are moved
        _demand(
            (
                "max_key_colors + max_key_shapes",
                f"at most the smallest number of objects, {low}",
                pointers,
                options.max_key_shapes == 1 or low >= pointers,
            ),
            (
                "min_visible_share",
                f"above 0, at most {share} with {high} objects",
                options.min_visible_share,
                0 < options.min_visible_share <= share,
            ),
            (
                "stratify",
                f"the stratum links=3 cannot be filled with {low} objects; start at {MIN_LINKED_OBJECTS}",
                options.stratify,
                options.stratify is None or low >= MIN_LINKED_OBJECTS,
            ),
            (
                "coords_decimals",
                f"the steps must not exceed the gap of {gap:.3f} between coordinates of {high} objects",
                decimals,
                decimals is None or 10.0**-decimals <= gap,
            ),
        )

    @property
    def parameters(self) -> dict[str, object]:
        """Return the plan as every row records it."""
        chosen = dataclasses.asdict(self.options)
        return {"object_counts": list(self.counts), "examples": self.examples} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in chosen.items()
        }

    def scene_at(self, index: int) -> tuple[int, int]:
        """Return the object count of the scene at `index`, and its number among the scenes of that count."""
        turn, position = divmod(index, len(self.counts))
        return self.counts[position], turn

    def first_task(self, count: int, turn: int) -> int:
        """Return which task a scene asks if the scenes of its object count asked all alike.

        An odd number of scenes leaves one over in each object count: these ask in turn, so that the tasks are equal.
        """
        position = self.counts.index(count)
        if (turn + 1) * len(self.counts) + position < self.examples:  # not the last one of its object count
            return 0
        longer = self.examples % len(self.counts)  # object counts that have one scene more than the others
        return position if position < longer else position - longer


def counts_of(objects: Objects) -> tuple[int, ...]:
    """Return the counts from (lowest, highest), both included, or a range; UsageError if empty or out of bounds."""
    if isinstance(objects, range):
        counts: Sequence[int] = sorted(objects)
        shown = f"{counts[0]}-{counts[-1]}" if counts else str(objects)
    else:
        counts, shown = range(objects[0], objects[1] + 1), f"{objects[0]}-{objects[1]}"
    _demand(("objects", "the lowest number must not exceed the highest", shown, bool(counts)))
    possible = counts[0] >= MIN_OBJECTS and counts[-1] <= MAX_OBJECTS
    _demand(("objects", f"scenes hold {MIN_OBJECTS} to {MAX_OBJECTS} objects", shown, possible))
    return tuple(counts)


def margin(count: int) -> float:
    """Return the least difference in X, and in Y, between two of `count` objects."""
    return 0.4 * min(1.0, 10 / count)


def _demand(*constraints: tuple[str, str, object, bool]) -> None:
    """Raise UsageError for the first of (name, constraint, value, whether it holds) that does not hold."""
    for name, constraint, value, holds in constraints:
        if not holds:
            raise UsageError(f"{name}: {constraint} (got {value})")

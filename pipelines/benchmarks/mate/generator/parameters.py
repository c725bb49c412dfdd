"""The parameters of a generated data set, and which combinations are impossible."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipelines.benchmarks.mate.scene import COLORS, SHAPES, TASKS
from pipelines.errors import UsageError

GENERATOR_VERSION = "1"  # raised by every change of the bytes of a data set

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
        _demand(
            bool(self.tasks) and len(set(self.tasks)) == len(self.tasks), "tasks", "name each task once", self.tasks
        )
        _demand(set(self.tasks) <= set(TASKS), "tasks", f"choose from {', '.join(TASKS)}", self.tasks)
        _demand(bool(self.shots) and set(self.shots) <= {0, 1, 2}, "shots", "choose from 0, 1, 2", self.shots)
        _demand(
            not self.cot or 2 in self.shots, "cot", "questions with steps show two examples: add 2 to shots", self.cot
        )
        _demand(1 <= self.max_key_colors < len(COLORS), "max_key_colors", "1 to 7", self.max_key_colors)
        _demand(1 <= self.max_key_shapes < len(SHAPES), "max_key_shapes", "1 to 3", self.max_key_shapes)
        keys = self.max_key_colors + self.max_key_shapes
        visual = bool({"img2txt", "img2img"} & set(self.tasks))
        _demand(
            not visual or keys > max(self.shots),
            "max_key_colors + max_key_shapes",
            f"one pointer and {max(self.shots)} examples need at least {max(self.shots) + 1}",
            keys,
        )
        decimals = self.coords_decimals
        _demand(decimals is None or 1 <= decimals <= 15, "coords_decimals", "1 to 15", decimals)
        self._check_picture()

    def _check_picture(self) -> None:
        _demand(240 <= self.width <= 1920, "width", "240 to 1920", self.width)
        # The camera's angle is fixed by the width: a flatter picture would cut off the near and the far objects.
        fits = self.width * 2 <= self.height * 3 <= self.width * 6
        _demand(fits, "height", "2/3 to 2 times the width", self.height)
        # The farthest small cone has about 300 pixels at a width of 480, and as many more as the picture is larger.
        max_pixels = int(250 * (self.width / 480) ** 2)
        _demand(
            0 <= self.min_visible_px <= max_pixels,
            "min_visible_px",
            f"0 to {max_pixels} at this width",
            self.min_visible_px,
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
        _demand(self.examples >= 1, "examples", "1 or more", self.examples)
        low, high, options = min(self.counts), max(self.counts), self.options
        _demand(
            options.max_key_shapes == 1 or low >= options.max_key_colors + options.max_key_shapes,
            "max_key_colors + max_key_shapes",
            f"at most the smallest number of objects, {low}",
            options.max_key_colors + options.max_key_shapes,
        )
        share = 0.9 if high <= 10 else 0.6  # a fuller floor hides more, however often objects are moved
        _demand(
            0 < options.min_visible_share <= share,
            "min_visible_share",
            f"above 0, at most {share} with {high} objects",
            options.min_visible_share,
        )
        _demand(
            options.stratify is None or low >= MIN_LINKED_OBJECTS,
            "stratify",
            f"the stratum links=3 cannot be filled with {low} objects; start at {MIN_LINKED_OBJECTS}",
            options.stratify,
        )
        if options.coords_decimals is not None:
            _demand(
                10.0**-options.coords_decimals <= margin(high),
                "coords_decimals",
                f"the steps must not exceed the gap of {margin(high):.3f} between coordinates of {high} objects",
                options.coords_decimals,
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


def counts_of(objects: Objects) -> tuple[int, ...]:
    """Return the counts from (lowest, highest), both included, or a range; UsageError if empty or out of bounds."""
    if isinstance(objects, range):
        counts: Sequence[int] = sorted(objects)
        shown = f"{counts[0]}-{counts[-1]}" if counts else str(objects)
    else:
        counts, shown = range(objects[0], objects[1] + 1), f"{objects[0]}-{objects[1]}"
    _demand(bool(counts), "objects", "the lowest number must not exceed the highest", shown)
    possible = counts[0] >= MIN_OBJECTS and counts[-1] <= MAX_OBJECTS
    _demand(possible, "objects", f"scenes hold {MIN_OBJECTS} to {MAX_OBJECTS} objects", shown)
    return tuple(counts)


def margin(count: int) -> float:
    """Return the least difference in X, and in Y, between two of `count` objects."""
    return 0.4 * min(1.0, 10 / count)


def _demand(holds: bool, name: str, constraint: str, value: object) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise UsageError(f"{name}: {constraint} (got {value})")

"""What a scorer is given and returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """The right answer of a row, in the forms that scorers compare with."""

    references: Sequence[str] = ()
    letters: str = ""  # of the row's options, if it has some
    letter: str | None = None  # of the right option
    is_exact: bool = False  # `contains` keeps case and ignores blanks
    precision: int | None = None  # decimals to which `last-number` rounds
    box: Box | None = None  # pixels
    size: tuple[float, float] = (1.0, 1.0)  # width and height of the picture, pixels
    coordinates: str = "0-1"  # of a box in a reply: `0-1`, `0-1000` or `pixel`


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of a reply from 0 to 1, what was read in it (None: nothing), and further values by name."""

    score: float
    answer: str | None
    values: Mapping[str, float] = field(default_factory=dict)


Scorer: TypeAlias = Callable[[str, Gold], Scored]

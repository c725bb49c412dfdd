"""Figures as data: a benchmark lays them out, the report draws them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from pipelines.benchmarks.tables import Origin, TableValue, _check_id

_MAX_SLUG_CHARS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve or one set of bars; values are fractions unless the figure says otherwise, None is a gap."""

    label: str
    values: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()  # ends of confidence intervals, one per value, or empty
    origin: Origin = "ours"
    baseline: bool = False  # people, chance and other measures to compare with: drawn as a line across bars

    @classmethod
    def of(cls, label: str, numbers: Sequence[TableValue | None]) -> Self:
        """Return a series of measured numbers with their intervals; None is a gap."""
        return cls(
            label=label,
            values=tuple(number.value if number else None for number in numbers),
            low=tuple(number.low if number else None for number in numbers),
            high=tuple(number.high if number else None for number in numbers),
        )


PUBLISHED_ALONE: Final = "Published numbers alone: this report has none of its own here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Radar:
    """Values around a circle, radius 0 to `maximum`, or to a greater value."""

    id: str
    title: str
    axes: tuple[str, ...]
    series: tuple[Series, ...]
    maximum: float = 1.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_series(self.id, len(self.axes), self.series)
        if len(self.axes) < 3:
            raise ValueError(f"{self.id}: a radar needs three axes or more; use Bars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Grouped bars: one group a category, one bar a series; a baseline is a line across each group."""

    id: str
    title: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    x_label: str = ""  # what the categories are
    y_label: str = ""
    stacked: bool = False
    percent: bool = True  # values are fractions and the axis reads percent; else values are drawn as they are
    horizontal: bool = False  # drawn so in any case where categories are too many or too long
    dots: bool = False  # a dot with its interval in place of each bar, always flat
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_series(self.id, len(self.categories), self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Curves over a common numeric axis."""

    id: str
    title: str
    x: tuple[float, ...]
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""
    percent: bool = False  # values are fractions and the y axis reads percent
    y_range: tuple[float, float] | None = None  # shown at least; values beyond it extend the axis
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_series(self.id, len(self.x), self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Points of one kind, each with its own x and y."""

    label: str
    points: tuple[tuple[float, float], ...]
    origin: Origin = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A scatter of two measures."""

    id: str
    title: str
    clouds: tuple[Cloud, ...]
    x_label: str = ""
    y_label: str = ""
    percent: bool = False  # both measures are fractions and both axes read percent
    diagonal: bool = False  # draw the line on which both measures are equal
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_id(self.id)


Figure: TypeAlias = Radar | Bars | Lines | Points


def model_slugs(models: Iterable[str]) -> dict[str, str]:
    """Map models to distinct parts of a figure's id, which is a file name."""
    slugs: dict[str, str] = {}
    for model in models:
        slug = base = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:_MAX_SLUG_CHARS] or "model"
        suffix = 1
        while slug in slugs.values():
            suffix += 1
            slug = f"{base}-{suffix}"
        slugs[model] = slug
    return slugs


def _check_series(figure: str, expected: int, series: Sequence[Series]) -> None:
    _check_id(figure)
    for curve in series:
        lengths = {len(curve.values), len(curve.low) or expected, len(curve.high) or expected}
        if lengths != {expected}:
            raise ValueError(
                f"{figure}: series {curve.label!r} has not {expected} values, or not as many interval ends"
            )
        if bool(curve.low) != bool(curve.high):
            raise ValueError(f"{figure}: series {curve.label!r} has one end of its intervals only")

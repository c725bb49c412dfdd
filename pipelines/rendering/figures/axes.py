"""Numeric axes: round ticks, their labels, and the position of a value."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.benchmarks.figures import Series
from pipelines.rendering.figures.text import text_width

SIZE = 12.0  # font size of labels
_MAX_TICKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Maps `low` to the coordinate `start` and `high` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    ticks: dict[float, str]  # value -> label

    def at(self, value: float) -> float:
        """Return the coordinate of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)

    def label_width(self) -> float:
        """Return the width of the longest label."""
        return max(text_width(label, SIZE) for label in self.ticks.values())


def upward(values: Sequence[float], bottom: float, top: float, *, percent: bool) -> Axis:
    """Return an axis upwards, from tick to tick."""
    ticks = _ticks(values, _MAX_TICKS, percent=percent)
    return Axis(low=min(ticks), high=max(ticks), start=bottom, stop=top, ticks=ticks)


def across(values: Sequence[float], left: float, right: float, *, percent: bool, is_tight: bool = False) -> Axis:
    """Return an axis across, as many ticks as its labels leave space for; a tight one is as long as the values."""
    for max_ticks in (_MAX_TICKS, 6, 4, 3):
        ticks = _ticks(values, max_ticks, percent=percent)
        if sum(text_width(label, SIZE) + SIZE for label in ticks.values()) <= right - left:
            break
    low, high = _range(values) if is_tight else (min(ticks), max(ticks))
    inside = {tick: label for tick, label in ticks.items() if low <= tick <= high}
    right -= text_width([*ticks.values()][-1], SIZE) / 2
    return Axis(low=low, high=high, start=left, stop=right, ticks=inside)


def nice_ticks(low: float, high: float, *, max_ticks: int = _MAX_TICKS, min_step: float = 0.0) -> list[float]:
    """Return at most `max_ticks` (at least 3) ticks around a range, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(max((high - low) / max_ticks, min_step)))
    for factor in (1, 2, 2.5, 5, 10, 20, 25, 50):
        step = unit * factor
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < max_ticks and not (min_step and step % min_step):
            break
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def tick_labels(ticks: Sequence[float], *, percent: bool) -> list[str]:
    """Return the ticks as text, with as many decimals as their step needs."""
    numbers = [tick * 100 if percent else tick for tick in ticks]
    step = numbers[1] - numbers[0]
    decimals = next((digits for digits in range(7) if abs(round(step, digits) - step) < step * 1e-4), None)
    is_plain = decimals is not None and max(map(abs, numbers)) < 1e8
    texts = [f"{number:,.{decimals}f}" if is_plain else f"{number:.10g}" for number in numbers]
    return [text.replace("-", "\N{MINUS SIGN}") + ("%" if percent else "") for text in texts]


def finite(value: float | None) -> float | None:
    """Return a number that can be drawn; None for NaN and infinity too."""
    return float(value) if value is not None and math.isfinite(value) else None


def intervals(series: Series) -> list[tuple[float, float] | None]:
    """Return the interval of each value, None where an end is missing."""
    if not series.low:
        return [None] * len(series.values)
    pairs = zip(map(finite, series.low), map(finite, series.high), strict=True)
    return [None if low is None or high is None else (low, high) for low, high in pairs]


def numbers_of(series: Iterable[Series]) -> list[float]:
    """Return all values and ends of intervals."""
    values = (value for entry in series for value in (*entry.values, *entry.low, *entry.high))
    return [number for number in map(finite, values) if number is not None]


def _ticks(values: Sequence[float], max_ticks: int, *, percent: bool) -> dict[float, str]:
    are_counts = not percent and bool(values) and all(value % 1 == 0 for value in values)
    ticks = nice_ticks(*_range(values), max_ticks=max_ticks, min_step=float(are_counts))
    return dict(zip(ticks, tick_labels(ticks, percent=percent), strict=True))


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return least and greatest value, apart enough for ticks."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low > max(1e-12, 1e-9 * max(abs(low), abs(high))):
        return low, high
    if abs(high) < 1e-12:
        return 0.0, 1.0
    return (0.5 * low, 1.5 * low) if low > 0 else (1.5 * low, 0.5 * low)

"""A picture of intervals in plain text, for places that show no images, such as the summary of a job."""

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars
from pipelines.clean_text import cut, one_line
from pipelines.rendering.figures.axes import intervals
from pipelines.rendering.table_layout import format_number

_WIDTH: Final = 51  # characters of the axis from 0 to 100%: two points each
_NAME: Final = 30


def to_text(figure: Bars) -> str:
    """Return a line for each value of a figure of shares, below its category: name, interval on an axis, numbers.

    Names are cleaned and cut, so that none is a line of its own. Values to compare with have no interval.
    """
    axis = f"{'':{_NAME + 2}} {'0%':<25}{'50%':<22}100%"
    lines = [one_line(figure.title), "", axis]
    for number, category in enumerate(figure.categories):
        lines += [one_line(category), *_lines(figure, number)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _lines(figure: Bars, number: int) -> Iterator[str]:
    for series in figure.series:
        value = series.values[number]
        if value is not None:
            ends = intervals(series)[number]
            text = format_number(value, "percent1")
            text += f" [{', '.join(format_number(end, 'percent1') for end in ends)}]" if ends else ""
            yield f"  {cut(one_line(series.label), _NAME):{_NAME}} {_drawn(value, ends)} {text}"


def _drawn(value: float, ends: tuple[float, float] | None) -> str:
    """Return the axis with the interval, if there is one, and the value on it."""
    cells = ["\N{MIDDLE DOT}"] * _WIDTH
    if ends:
        first, last = map(_cell, ends)
        cells[first : last + 1] = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (last + 1 - first)
        cells[first] = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}"
        cells[last] = "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
    cells[_cell(value)] = "\N{BOX DRAWINGS HEAVY VERTICAL}" if ends else "\N{BOX DRAWINGS DOUBLE VERTICAL}"
    return "".join(cells)


def _cell(value: float) -> int:
    return round(min(max(value, 0.0), 1.0) * (_WIDTH - 1))

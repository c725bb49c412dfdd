"""Dots with intervals: a band a category, a line a model, and lines for people and chance across the band."""

from __future__ import annotations

from pipelines.benchmarks.figures import Bars
from pipelines.rendering.figures.axes import SIZE, across, finite, intervals, numbers_of
from pipelines.rendering.figures.canvas import LINE, MARGIN, WIDTH, Canvas
from pipelines.rendering.figures.style import GRID, INK, SeriesStyle, series_styles
from pipelines.rendering.figures.text import text_width, wrap

_STEP, _SPACE = 13.0, 12.0
"""Between the lines of a band, and between bands."""
_NAME_WIDTH = 150.0


def draw_dots(figure: Bars) -> bytes:
    """Draw a dot for each value; a series that is a baseline is a line through its band."""
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.series)
    pairs = list(zip(figure.series, styles, strict=True))
    dots = [(series, style) for series, style in pairs if not series.baseline]
    names = [wrap(name, _NAME_WIDTH, size=SIZE, lines=3) for name in figure.categories]
    left = MARGIN + 10 + max((text_width(row, SIZE) for rows in names for row in rows), default=0.0)
    heights = [max(len(dots) * _STEP, len(rows) * LINE) + _SPACE for rows in names]
    top = canvas.bottom
    whole = [0.0, 1.0] if figure.percent else []
    axis = across([*numbers_of(figure.series), *whole], left, WIDTH - MARGIN, percent=figure.percent)
    canvas.grid(axis, top, top + sum(heights), is_across=True)
    start = top
    for index, (rows, height) in enumerate(zip(names, heights, strict=True)):
        middle = start + height / 2
        canvas.text(rows, left - 10, middle - len(rows) * LINE / 2, anchor="end", colour=INK)
        canvas.lines([[(left, start + height), (axis.stop, start + height)]], GRID)
        for series, style in pairs:
            value = finite(series.values[index])
            if series.baseline and value is not None:
                x = axis.at(value)
                canvas.lines([[(x, start + 2), (x, start + height - 2)]], INK, width=1.8, dash=style.dash)
        for line, (series, style) in enumerate(dots):
            y = middle + (line - (len(dots) - 1) / 2) * _STEP
            value, ends = finite(series.values[index]), intervals(series)[index]
            if ends:
                canvas.lines([[(axis.at(ends[0]), y), (axis.at(ends[1]), y)]], style.colour, width=2.2)
            canvas.markers([] if value is None else [(axis.at(value), y)], style)
        start += height
    canvas.bottom = start + 7 + LINE
    canvas.caption(figure.y_label, (left + axis.stop) / 2)

    def swatch(x: float, y: float, style: SeriesStyle) -> None:
        if style.marker:
            canvas.lines([[(x, y), (x + 26, y)]] if not style.is_published else [], style.colour, width=2.2)
            canvas.markers([(x + 13, y)], style)
        else:
            canvas.lines([[(x + 13, y - 7), (x + 13, y + 7)]], INK, width=1.8, dash=style.dash)

    canvas.legend(styles, swatch)
    return canvas.svg()

"""Grouped and stacked bars, upright or flat, and rows of dots."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.benchmarks.figures import Bars, Series
from pipelines.rendering.figures.canvas import (
    GRID,
    INK,
    LINE,
    MARGIN,
    MUTED,
    SIZE,
    WIDTH,
    Axis,
    Canvas,
    Point,
    SeriesStyle,
    across,
    finite,
    intervals,
    numbers_of,
    path,
    series_styles,
    text_width,
    upward,
    widest_part,
    wrap,
)

_HEIGHT = 230.0
_MIN_THICKNESS, _MAX_THICKNESS = 6.0, 48.0  # of upright bars; where they would be thinner, they are drawn flat
_NAME_WIDTH, _NAME_LINES = 190.0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The positions of the bars: a group every `pitch` pixels from `start` on, values along `axis`."""

    axis: Axis
    start: float
    pitch: float
    thickness: float
    is_flat: bool

    def point(self, along: float, value: float) -> Point:
        return (self.axis.at(value), along) if self.is_flat else (along, self.axis.at(value))

    def centre(self, group: int) -> float:
        return self.start + (group + 0.5) * self.pitch


def draw_bars(figure: Bars) -> bytes:
    """Draw bars; they are flat where many bars or long categories would not fit below upright ones."""
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.series)
    pairs = list(zip(figure.series, styles, strict=True))
    bars = [(series, style) for series, style in pairs if not series.baseline]
    count = 1 if figure.stacked else max(1, len(bars))
    layout = _upright(canvas, figure, count) if _fits_upright(figure, count) else _flat(canvas, figure, count)
    base = [0.0] * len(figure.categories)
    for index, (series, style) in enumerate(bars):
        shift = (0.0 if figure.stacked else index - (count - 1) / 2) * layout.thickness
        _draw_series(canvas, layout, series, style, shift=shift, base=base)
        if figure.stacked:
            base = [low + (finite(value) or 0.0) for low, value in zip(base, series.values, strict=True)]
        else:
            _mark_missing(canvas, layout, [series], shift)
    if figure.stacked:
        _mark_missing(canvas, layout, [series for series, _ in bars], 0.0)
    end = layout.start + layout.pitch * len(figure.categories)
    canvas.lines([[layout.point(layout.start, 0.0), layout.point(end, 0.0)]], MUTED)
    for series, style in pairs:
        if series.baseline:
            values = [(layout.centre(group), value) for group, value in enumerate(map(finite, series.values))]
            ends = [[(at - 0.46 * layout.pitch, v), (at + 0.46 * layout.pitch, v)] for at, v in values if v is not None]
            canvas.lines([[layout.point(*end) for end in line] for line in ends], INK, width=1.8, dash=style.dash)

    def swatch(x: float, y: float, style: SeriesStyle) -> None:
        if style.marker:
            canvas.bars(f"M{x} {y - 5}h24v10h-24z", style)
        else:
            canvas.lines([[(x, y), (x + 24, y)]], INK, width=1.8, dash=style.dash)

    canvas.legend(styles, swatch)
    return canvas.svg()


def _draw_series(
    canvas: Canvas, layout: _Layout, series: Series, style: SeriesStyle, *, shift: float, base: list[float]
) -> None:
    """Draw the bars of a series from their base on, and whiskers."""
    shapes, whiskers, half = "", [], layout.thickness / 2 - 0.5
    for group, (value, interval) in enumerate(zip(map(finite, series.values), intervals(series), strict=True)):
        at, low = layout.centre(group) + shift, base[group]
        if value is not None:
            corners = ((at - half, low), (at - half, low + value), (at + half, low + value), (at + half, low))
            shapes += path([layout.point(*corner) for corner in corners], closed=True)
        if interval:
            ends = [low + end for end in interval]
            whiskers += [[(at, ends[0]), (at, ends[1])], *([(at - 2, end), (at + 2, end)] for end in ends)]
    canvas.bars(shapes, style)
    canvas.lines([[layout.point(*end) for end in line] for line in whiskers], INK, width=1.2)


def _mark_missing(canvas: Canvas, layout: _Layout, bars: Sequence[Series], shift: float) -> None:
    """Mark the groups in which none of the bars has a value."""
    for group, column in enumerate(zip(*(series.values for series in bars), strict=True)):
        x, y = layout.point(layout.centre(group) + shift, 0.0)
        if any(finite(value) is not None for value in column):
            continue
        if layout.is_flat:  # a dash alone next to the axis looks like the end of an interval at 0
            size = min(9.5, layout.thickness - 1)
            canvas.text(["no value"], x + 4, y - size / 2, size=size)
        else:
            canvas.text(["\N{EN DASH}"], x, y - SIZE, anchor="middle")


def _values(figure: Bars) -> list[float]:
    """Return what the axis must reach, 0 included; shares of more than half reach for the whole."""
    numbers, base = [0.0, *numbers_of(figure.series)], [0.0] * len(figure.categories)
    for series in figure.series if figure.stacked else ():
        if not series.baseline:
            for ends in (series.values, series.low, series.high):
                numbers += [low + (finite(end) or 0.0) for low, end in zip(base, ends, strict=False)]
            base = [low + (finite(value) or 0.0) for low, value in zip(base, series.values, strict=True)]
    return [*numbers, 1.0] if figure.percent and 0.5 < max(numbers) <= 1.0 + 1e-9 else numbers


def _fits_upright(figure: Bars, count: int) -> bool:
    """Return whether upright bars are requested, are thick enough, and have space for their labels below."""
    axis = upward(_values(figure), 1.0, 0.0, percent=figure.percent)
    pitch = (WIDTH - 2 * MARGIN - 8 - axis.label_width()) / max(1, len(figure.categories))
    if figure.horizontal or 0.8 * pitch / count < _MIN_THICKNESS:
        return False
    return all(
        widest_part(name, SIZE) <= pitch - 6 and len(wrap(name, pitch - 6, size=SIZE, lines=9)) <= _NAME_LINES
        for name in figure.categories
    )


def _upright(canvas: Canvas, figure: Bars, count: int) -> _Layout:
    canvas.caption(figure.y_label)
    top, bottom = canvas.bottom + 4, canvas.bottom + 4 + _HEIGHT
    axis = upward(_values(figure), bottom, top, percent=figure.percent)
    left, right = MARGIN + axis.label_width() + 8, WIDTH - MARGIN
    canvas.grid(axis, left, right, is_across=False)
    pitch = (right - left) / max(1, len(figure.categories))
    thickness = min(0.8 * pitch / count, _MAX_THICKNESS)
    layout = _Layout(axis=axis, start=left, pitch=pitch, thickness=thickness, is_flat=False)
    canvas.bottom = bottom + SIZE
    for group, name in enumerate(figure.categories):
        rows = wrap(name, pitch - 6, size=SIZE, lines=_NAME_LINES)
        end = canvas.text(rows, layout.centre(group), bottom + 7, anchor="middle", colour=INK)
        canvas.bottom = max(canvas.bottom, end)
    canvas.caption(figure.x_label, (left + right) / 2)
    return layout


def _flat(canvas: Canvas, figure: Bars, count: int) -> _Layout:
    canvas.caption(figure.x_label)
    names = [wrap(name, _NAME_WIDTH, size=SIZE, lines=_NAME_LINES) for name in figure.categories]
    thickness = 16.0 if count == 1 else 12.0 if count * len(names) <= 90 else 9.0
    pitch = 10 + max(count * thickness, *(len(rows) * LINE for rows in names), 0)
    left = MARGIN + 8 + max((text_width(row, SIZE) for rows in names for row in rows), default=0.0)
    top, bottom = canvas.bottom + 2, canvas.bottom + 2 + pitch * max(1, len(names))
    axis = across(_values(figure), left, WIDTH - MARGIN, percent=figure.percent)
    layout = _Layout(axis=axis, start=top, pitch=pitch, thickness=thickness, is_flat=True)
    canvas.grid(axis, top, bottom, is_across=True)
    for group, rows in enumerate(names):
        canvas.text(rows, left - 8, layout.centre(group) - len(rows) * LINE / 2, anchor="end", colour=INK)
    canvas.bottom = bottom + 7 + LINE
    canvas.caption(figure.y_label, (left + axis.stop) / 2)
    return layout


_STEP, _SPACE = 13.0, 12.0  # between the lines of a band, and between bands
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

"""Radar, Bars, Lines and Points as SVG, readable at 640 pixels and in black and white.

A missing value is a gap, never a zero; published series are dashed, hollow or hatched, and labelled.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Lines, Points, Radar, Series
from pipelines.clean_text import cut, one_line
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
    nice_ticks,
    numbers_of,
    path,
    runs_of,
    series_styles,
    text_width,
    tick_labels,
    upward,
    widest_part,
    wrap,
)
from pipelines.rendering.table_layout import format_number

_HEIGHT = 230.0
_MIN_THICKNESS, _MAX_THICKNESS = 6.0, 48.0  # of upright bars; where they would be thinner, they are drawn flat
_BAR_NAME_WIDTH, _NAME_LINES = 190.0, 4


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
    names = [wrap(name, _BAR_NAME_WIDTH, size=SIZE, lines=_NAME_LINES) for name in figure.categories]
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
_BAR_NAME_WIDTH = 150.0


def draw_dots(figure: Bars) -> bytes:
    """Draw a dot for each value; a series that is a baseline is a line through its band."""
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.series)
    pairs = list(zip(figure.series, styles, strict=True))
    dots = [(series, style) for series, style in pairs if not series.baseline]
    names = [wrap(name, _BAR_NAME_WIDTH, size=SIZE, lines=3) for name in figure.categories]
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


_MAX_MARKERS = 24
"""A curve of more points has a marker at every second, third and so on, those of each series at others."""
_HEIGHTS = {Lines: 240.0, Points: 300.0}
_RADIUS, _GAP, _NAME_WIDTH = 150.0, 9.0, 130.0  # of a radar: its circle, the space around it, and the names beside it


def to_svg_bytes(figure: Figure) -> bytes:
    """Draw one figure.

    Returns:
        UTF-8 SVG without scripts, dates or outside references; the same figure gives the same bytes.
    """
    match figure:
        case Radar():
            return _draw_radar(figure)
        case Bars():
            return draw_dots(figure) if figure.dots else draw_bars(figure)
        case Lines():
            return _draw_lines(figure)
        case Points():
            return _draw_points(figure)


def _draw_lines(figure: Lines) -> bytes:
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.series)
    x_axis, y_axis = _plot_area(canvas, figure, figure.x, [*numbers_of(figure.series), *(figure.y_range or ())])
    for series, style in zip(figure.series, styles, strict=True):
        pairs = zip(map(x_axis.at, figure.x), intervals(series), strict=True)
        for run in runs_of([ends and ((x, y_axis.at(ends[0])), (x, y_axis.at(ends[1]))) for x, ends in pairs]):
            outline = [low for low, _ in run] + [high for _, high in reversed(run)]
            canvas.element("path", d=path(outline, closed=True), fill=style.colour, fill_opacity="0.15")
    every = max(1, math.ceil(len(figure.x) / _MAX_MARKERS))
    for number, (series, style) in enumerate(zip(figure.series, styles, strict=True)):
        values = zip(map(x_axis.at, figure.x), map(finite, series.values), strict=True)
        points = [None if y is None else (x, y_axis.at(y)) for x, y in values]
        runs = runs_of(points)
        canvas.lines(runs, style.colour, width=1.8, dash=style.dash)
        isolated = {run[0] for run in runs if len(run) == 1}
        marked = [p for index, p in enumerate(points) if p and ((index + number) % every == 0 or p in isolated)]
        canvas.markers(marked if style.marker else [], style)
    canvas.legend(styles, canvas.line_swatch)
    return canvas.svg()


def _draw_points(figure: Points) -> bytes:
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.clouds)
    clouds = [[p for p in cloud.points if math.isfinite(p[0]) and math.isfinite(p[1])] for cloud in figure.clouds]
    columns = [[point[side] for cloud in clouds for point in cloud] for side in (0, 1)]
    # With a diagonal both axes are the same, so that it leads from corner to corner.
    x_axis, y_axis = _plot_area(canvas, figure, *([columns[0] + columns[1]] * 2 if figure.diagonal else columns))
    if figure.diagonal:
        canvas.lines([[(x_axis.start, y_axis.start), (x_axis.stop, y_axis.stop)]], MUTED, dash="2 3")
    for cloud, style in zip(clouds, styles, strict=True):
        canvas.markers([(x_axis.at(x), y_axis.at(y)) for x, y in cloud], style)
    canvas.legend(styles, lambda x, y, style: canvas.markers([(x + 16, y)], style))
    return canvas.svg()


def _plot_area(canvas: Canvas, figure: Lines | Points, xs: Sequence[float], ys: Sequence[float]) -> tuple[Axis, Axis]:
    """Draw both axes with grid, labels and names; curves reach from edge to edge."""
    is_lines = isinstance(figure, Lines)
    canvas.caption(figure.y_label)
    top = canvas.bottom + 4
    bottom = top + _HEIGHTS[type(figure)]
    y_axis = upward(ys, bottom, top, percent=figure.percent)
    left = MARGIN + y_axis.label_width() + 8
    x_axis = across(xs, left, WIDTH - MARGIN, percent=figure.percent and not is_lines, is_tight=is_lines)
    canvas.grid(y_axis, left, x_axis.stop, is_across=False)
    canvas.grid(x_axis, top, bottom, is_across=True)
    canvas.lines([[(left, top), (left, bottom), (x_axis.stop, bottom)]], MUTED)
    canvas.bottom = bottom + 7 + LINE
    canvas.caption(figure.x_label, (left + x_axis.stop) / 2)
    return x_axis, y_axis


def _draw_radar(figure: Radar) -> bytes:
    """Draw a radar; the circle grows with values above `maximum`, and those below 0 are at its centre."""
    canvas, styles = Canvas(figure.id, figure.title), series_styles(figure.series)
    highest = max(numbers_of(figure.series), default=0.0)
    rings = [figure.maximum * step / 5 for step in range(6)]
    if highest > figure.maximum or figure.maximum <= 0:
        rings = nice_ticks(0.0, highest if highest > 0 else 1.0, max_ticks=6)
    middle = _draw_names(canvas, figure.axes)

    def point_at(index: float, value: float) -> Point:
        angle, radius = 2 * math.pi * index / len(figure.axes), max(0.0, value) / rings[-1] * _RADIUS
        return WIDTH / 2 + radius * math.sin(angle), middle - radius * math.cos(angle)

    for ring in rings[1:]:
        canvas.element("circle", cx=WIDTH / 2, cy=middle, r=ring / rings[-1] * _RADIUS, fill="none", stroke=GRID)
    canvas.lines([[point_at(0, 0), point_at(index, rings[-1])] for index in range(len(figure.axes))], GRID)
    for series, style in zip(figure.series, styles, strict=True):
        values = enumerate(map(finite, series.values))
        points = [None if value is None else point_at(index, value) for index, value in values]
        runs, ends = runs_of([*points, points[0]]), enumerate(intervals(series))
        if series.origin == "ours" and len(runs) == 1 and len(runs[0]) > len(points):
            canvas.element("path", d=path(runs[0]), fill=style.colour, fill_opacity="0.07")
        canvas.lines(runs, style.colour, width=1.8, dash=style.dash)
        canvas.lines([[point_at(index, end) for end in pair] for index, pair in ends if pair], style.colour)
        canvas.markers([point for point in points if point and style.marker], style)
    for ring, text in zip(rings, tick_labels(rings, percent=figure.maximum == 1.0), strict=True):
        x, y = point_at(0.5, ring)
        canvas.text([text] if ring else [], x, y - 5, anchor="middle", size=9.5)
    canvas.legend(styles, canvas.line_swatch)
    return canvas.svg()


def _draw_names(canvas: Canvas, names: Sequence[str]) -> float:
    """Draw the names: the first above the circle, those of each half beside it. Return the y of the centre."""
    count = len(names)
    lines = max(1, min(4, int(2 * _RADIUS / LINE / math.ceil(count / 2))))
    rows = [wrap(name, _NAME_WIDTH, size=SIZE, lines=lines) for name in names]
    right = [index for index in range(count) if 0 < 2 * index < count]
    left = [index for index in reversed(range(count)) if 2 * index > count]
    half = max(_RADIUS + _GAP, *(sum(len(rows[index]) for index in side) * LINE / 2 for side in (left, right)))
    middle = canvas.text(rows[0], WIDTH / 2, canvas.bottom, anchor="middle") + half
    for side, sign in ((right, 1), (left, -1)):
        angles = [2 * math.pi * index / count for index in side]
        centres = [middle - (_RADIUS + _GAP) * math.cos(angle) for angle in angles]
        heights = [len(rows[index]) * LINE for index in side]
        for index, angle, preferred, top in zip(
            side, angles, centres, _spread(centres, heights, middle, half), strict=True
        ):
            bottom = top + len(rows[index]) * LINE
            nearest = max(0.0, top - middle, middle - bottom)
            x = WIDTH / 2 + sign * max(_GAP, math.sqrt(max(0.0, (_RADIUS + _GAP) ** 2 - nearest**2)))
            canvas.text(rows[index], x, top, anchor="start" if sign > 0 else "end")
            if abs((top + bottom) / 2 - preferred) > SIZE:
                axis_end = (WIDTH / 2 + _RADIUS * math.sin(angle), middle - _RADIUS * math.cos(angle))
                canvas.lines([[axis_end, (x - sign * 2, (top + bottom) / 2)]], GRID)
    opposite = rows[count // 2] if count % 2 == 0 else []
    canvas.bottom = canvas.text(opposite, WIDTH / 2, middle + half + 2, anchor="middle")
    return middle


def _spread(centres: Sequence[float], heights: Sequence[float], middle: float, half: float) -> list[float]:
    """Return the tops of boxes around the given centres, moved as far as needed not to overlap."""
    tops, edge = [], middle - half
    for centre, height in zip(centres, heights, strict=True):
        tops.append(max(edge, centre - height / 2))
        edge = tops[-1] + height
    edge = middle + half
    for index in reversed(range(len(tops))):
        tops[index] = edge = min(tops[index], edge - heights[index])
    return tops

"""Radar, Bars, Lines and Points as SVG, readable at 640 pixels and in black and white.

A missing value is a gap, never a zero; published series are dashed, hollow or hatched, and labelled.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Lines, Points, Radar
from pipelines.clean_text import cut, one_line
from pipelines.rendering.figures.bars import draw_bars, draw_dots
from pipelines.rendering.figures.canvas import (
    GRID,
    LINE,
    MARGIN,
    MUTED,
    SIZE,
    WIDTH,
    Axis,
    Canvas,
    Point,
    across,
    finite,
    intervals,
    nice_ticks,
    numbers_of,
    path,
    runs_of,
    series_styles,
    tick_labels,
    upward,
    wrap,
)
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

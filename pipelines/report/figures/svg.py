"""Radar, Bars, Lines and Points as SVG, readable at 640 pixels and in black and white.

A missing value is a gap, never a zero; published series are dashed or hatched and labelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pipelines.benchmarks.figures import Bars, Figure, Lines, Points, Radar, Series
from pipelines.report.figures.style import (
    INK,
    MUTED,
    PAPER,
    SeriesStyle,
    drawing,
    finish,
    label,
    percent_axis,
    plain_axes,
    series_styles,
    to_svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.projections.polar import PolarAxes

_MAX_MARKED = 90
"""Up to so many bars, missing ones are marked; up to so many points, each has a marker."""


def to_svg_bytes(figure: Figure) -> bytes:
    """Draw one figure.

    Returns:
        UTF-8 SVG without scripts, dates or outside references; the same figure gives the same bytes.
    """
    match figure:
        case Radar():
            return _radar(figure)
        case Bars():
            return _bars(figure)
        case Lines():
            return _lines(figure)
        case Points():
            return _points(figure)


def _radar(figure: Radar) -> bytes:
    angles = [2 * math.pi * index / len(figure.axes) for index in range(len(figure.axes))]
    with drawing(5.4) as canvas:
        axes = cast("PolarAxes", canvas.add_subplot(projection="polar"))
        axes.set_theta_offset(math.pi / 2)
        axes.set_theta_direction(-1)
        axes.set_ylim(0, figure.maximum)
        axes.set_yticks([figure.maximum * step / 5 for step in range(1, 6)])
        axes.tick_params(axis="y", labelsize=7)
        axes.set_rlabel_position(180 / len(figure.axes))
        axes.set_xticks(angles, [label(name, width=14, limit=42) for name in figure.axes])
        axes.tick_params(axis="x", pad=7)
        for text, angle in zip(axes.get_xticklabels(), angles, strict=True):
            text.set_horizontalalignment(_side(angle))
        axes.spines["polar"].set_color(MUTED)
        handles = []
        styles = _styles(figure.series)
        for series, style in zip(figure.series, styles, strict=True):
            values = _with_nan(series.values)
            (curve,) = axes.plot([*angles, angles[0]], [*values, values[0]], **_stroke(style), markersize=4)
            if not any(map(math.isnan, values)) and series.origin == "ours":
                axes.fill(angles, values, color=style.colour, alpha=0.07)
            for angle, (low, high) in zip(angles, _intervals(series), strict=True):
                axes.plot([angle, angle], [low, high], color=style.colour, linewidth=1.0, alpha=0.8)
            handles.append(curve)
        finish(canvas, figure.title, handles, [style.label for style in styles])
        return to_svg(canvas, figure.title)


def _bars(figure: Bars) -> bytes:
    groups, styles = len(figure.categories), _styles(figure.series)
    drawn = [series for series in figure.series if series.origin != "reference"]
    thickness = 0.8 if figure.stacked else 0.8 / max(1, len(drawn))
    rows = groups * (1 if figure.stacked else max(1, len(drawn)))
    with drawing((1.0 + 0.24 * rows + 0.2 * groups) if figure.horizontal else 3.6) as canvas:
        axes = canvas.add_subplot()
        plain_axes(axes)
        handles, base, position = [], [0.0] * groups, 0
        for series, style in zip(figure.series, styles, strict=True):
            if series.origin == "reference":
                handles.append(_reference_line(axes, series, style, horizontal=figure.horizontal))
                continue
            shift = 0.0 if figure.stacked else (position - (len(drawn) - 1) / 2) * thickness
            spots = [group + shift for group in range(groups)]
            handles.append(_bar_set(axes, figure, series, style=style, where=(spots, list(base), thickness)))
            if figure.stacked:
                base = [low + (value or 0.0) for low, value in zip(base, series.values, strict=True)]
            position += 1
        _bar_axes(axes, figure)
        finish(canvas, figure.title, handles, [style.label for style in styles])
        return to_svg(canvas, figure.title)


def _bar_set(
    axes: Axes, figure: Bars, series: Series, *, style: SeriesStyle, where: tuple[list[float], list[float], float]
) -> Any:
    spots, base, thickness = where
    values = [0.0 if math.isnan(value) else value for value in _with_nan(series.values)]
    fill: dict[str, Any] = {
        "color": style.colour,
        "alpha": style.alpha,
        "hatch": style.hatch,
        "edgecolor": PAPER,
        "linewidth": 0.6,
    }
    if figure.horizontal:
        handle = axes.barh(spots, values, height=thickness, left=base if figure.stacked else 0.0, **fill)
    else:
        handle = axes.bar(spots, values, width=thickness, bottom=base if figure.stacked else 0.0, **fill)
    for spot, value, (low, high) in zip(spots, series.values, _intervals(series), strict=True):
        if not math.isnan(low):
            along = ([low, high], [spot, spot]) if figure.horizontal else ([spot, spot], [low, high])
            axes.plot(*along, color=INK, linewidth=1.1, marker="|" if figure.horizontal else "_", markersize=4)
        if value is None and not figure.stacked and len(spots) * len(figure.series) <= _MAX_MARKED:
            spot_at = (0, spot) if figure.horizontal else (spot, 0)
            side: dict[str, Any] = (
                {"va": "center", "ha": "left", "fontsize": 6.5}
                if figure.horizontal
                else {"va": "bottom", "ha": "center"}
            )
            # A dash alone next to the axis looks like the end of an interval at 0.
            axes.annotate(" no value" if figure.horizontal else "\N{EN DASH}", spot_at, color=MUTED, **side)
    return handle


def _reference_line(axes: Axes, series: Series, style: SeriesStyle, *, horizontal: bool) -> Any:
    draw = axes.vlines if horizontal else axes.hlines
    positions = [position for position, value in enumerate(_with_nan(series.values)) if not math.isnan(value)]
    values = [value for value in _with_nan(series.values) if not math.isnan(value)]
    starts, stops = [position - 0.45 for position in positions], [position + 0.45 for position in positions]
    return draw(values, starts, stops, color=INK, linewidth=1.6, linestyle=style.line, zorder=3)


def _bar_axes(axes: Axes, figure: Bars) -> None:
    positions = list(range(len(figure.categories)))
    values = axes.xaxis if figure.horizontal else axes.yaxis
    if figure.horizontal:
        axes.set_yticks(positions, [label(name, width=26, limit=52) for name in figure.categories])
        axes.set_ylim(len(positions) - 0.4, -0.6)
        axes.set_xlabel(label(figure.y_label, width=70))
        axes.grid(axis="x")
    else:
        names = [label(name, width=max(9, 66 // max(1, len(positions))), limit=40) for name in figure.categories]
        is_crowded = max((len(line) for name in names for line in name.splitlines()), default=0) * len(positions) > 84
        rotation: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if is_crowded else {}
        axes.set_xticks(positions, names, **rotation)
        axes.set_ylabel(label(figure.y_label, width=40))
        if figure.x_label:
            axes.set_xlabel(label(figure.x_label, width=70))
        axes.grid(axis="y")
    axes.tick_params(axis="y" if figure.horizontal else "x", length=0)
    low, high = (axes.get_xlim if figure.horizontal else axes.get_ylim)()
    numbers = [value for series in figure.series for value in (*series.values, *series.low) if value is not None]
    if min(numbers, default=0.0) >= 0:
        low = 0.0
    if max(numbers, default=0.0) <= 0 <= low:
        high = 1.0  # bars of zero start at the axis, not in its middle
    if figure.percent:
        percent_axis(values)
        high = 1.0 if 0.5 < high <= 1.1 else high
    (axes.set_xlim if figure.horizontal else axes.set_ylim)(min(0.0, low), high)


def _lines(figure: Lines) -> bytes:
    with drawing(3.4) as canvas:
        axes = canvas.add_subplot()
        plain_axes(axes)
        axes.grid(visible=True)
        handles, styles = [], _styles(figure.series)
        for series, style in zip(figure.series, styles, strict=True):
            stroke = _stroke(style) if len(figure.x) <= _MAX_MARKED else {**_stroke(style), "marker": ""}
            (curve,) = axes.plot(figure.x, _with_nan(series.values), **stroke, markersize=4)
            lows, highs = zip(*_intervals(series), strict=True) if figure.x else ((), ())
            if series.low:
                axes.fill_between(figure.x, lows, highs, color=style.colour, alpha=0.15, linewidth=0)
            handles.append(curve)
        if figure.y_range:
            axes.set_ylim(*figure.y_range)
        if figure.percent:
            percent_axis(axes.yaxis)
        axes.set_xlabel(label(figure.x_label, width=70))
        axes.set_ylabel(label(figure.y_label, width=40))
        finish(canvas, figure.title, handles, [style.label for style in styles])
        return to_svg(canvas, figure.title)


def _points(figure: Points) -> bytes:
    with drawing(4.3) as canvas:
        axes = canvas.add_subplot()
        plain_axes(axes)
        axes.grid(visible=True)
        handles, styles = [], series_styles([(cloud.label, cloud.origin) for cloud in figure.clouds])
        for cloud, style in zip(figure.clouds, styles, strict=True):
            across, up = [point[0] for point in cloud.points], [point[1] for point in cloud.points]
            face = "none" if cloud.origin == "published" else style.colour
            handles.append(
                axes.scatter(across, up, s=34, marker=style.marker or "+", facecolors=face, edgecolors=style.colour)
            )
        if figure.diagonal:
            axes.axline((0, 0), slope=1, color=MUTED, linewidth=1, linestyle=":")
        if figure.percent:
            percent_axis(axes.xaxis)
            percent_axis(axes.yaxis)
        axes.set_xlabel(label(figure.x_label, width=70))
        axes.set_ylabel(label(figure.y_label, width=40))
        finish(canvas, figure.title, handles, [style.label for style in styles])
        return to_svg(canvas, figure.title)


def _side(angle: float) -> Literal["left", "center", "right"]:
    """Return the alignment of a label on the circle; angles run clockwise from the top."""
    across = math.sin(angle)
    if abs(across) < 0.3:
        return "center"
    return "left" if across > 0 else "right"


def _styles(series: Sequence[Series]) -> list[SeriesStyle]:
    return series_styles([(entry.label, entry.origin) for entry in series])


def _stroke(style: SeriesStyle) -> dict[str, Any]:
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.line,
        "linewidth": 1.8,
        "alpha": style.alpha,
    }


def _with_nan(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _intervals(series: Series) -> list[tuple[float, float]]:
    """Return interval ends, NaN where there are none."""
    if not series.low:
        return [(math.nan, math.nan)] * len(series.values)
    pairs = zip(_with_nan(series.low), _with_nan(series.high), strict=True)
    return [(math.nan, math.nan) if math.isnan(low + high) else (low, high) for low, high in pairs]

"""The SVG of one figure: shapes, texts, title and legend, without scripts, dates and outside references."""

import html
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

from pipelines.clean_text import one_line
from pipelines.rendering.figures.axes import SIZE, Axis
from pipelines.rendering.figures.style import DARK_STYLE, GRID, INK, MUTED, PAPER, SeriesStyle
from pipelines.rendering.figures.text import text_width, wrap

Point: TypeAlias = tuple[float, float]
T = TypeVar("T")

WIDTH = 600.0  # CSS pixels, so that text keeps its size on a page of 640 pixels
MARGIN, LINE = 10.0, 14.5  # free space at the edges, and height of a line of text
_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_TITLE_SIZE, _BOLD = 14.0, 1.12
_SWATCH, _COLUMN_GAP = 34.0, 18.0


class Canvas:
    """Collects the shapes of a figure; `bottom` is the end of what was drawn so far."""

    def __init__(self, figure_id: str, title: str) -> None:
        self._id, self._title = figure_id, one_line(title)
        self._parts: list[str] = []
        self._hatches: list[str] = []
        rows = wrap(title, (WIDTH - 2 * MARGIN) / _BOLD, size=_TITLE_SIZE, lines=4)
        self.bottom = self.text(rows, MARGIN, MARGIN, size=_TITLE_SIZE, colour=INK, font_weight="bold") + 8

    def element(self, name: str, content: str = "", **attributes: str | float) -> None:
        """Add an element with an escaped text; empty attributes are left out."""
        written = "".join(
            f' {key.replace("_", "-")}="{_number(value) if isinstance(value, float) else html.escape(str(value))}"'
            for key, value in attributes.items()
            if value != ""
        )
        self._parts.append(f"<{name}{written}>{html.escape(content)}</{name}>" if content else f"<{name}{written}/>")

    def text(  # noqa: PLR0913 - as many as the element has
        self,
        rows: Sequence[str],
        x: float,
        top: float,
        *,
        anchor: str = "",
        size: float = SIZE,
        colour: str = MUTED,
        font_weight: str = "",
    ) -> float:
        """Add lines of text below `top`; return where they end."""
        height = size * LINE / SIZE
        for index, row in enumerate(rows):
            y = top + index * height + 0.85 * size
            self.element(
                "text", row, x=x, y=y, font_size=size, fill=colour, text_anchor=anchor, font_weight=font_weight
            )
        return top + len(rows) * height

    def lines(self, runs: Sequence[Sequence[Point]], colour: str, *, width: float = 1.0, dash: str = "") -> None:
        """Add lines, each through its points, as one path."""
        if runs:
            shape = "".join(map(path, runs))
            self.element("path", d=shape, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dash)

    def bars(self, shapes: str, style: SeriesStyle) -> None:
        """Add bars, given as one path, in the colour and hatch of their series; nothing for a series without values."""
        if not shapes:
            return
        self.element("path", d=shapes, fill=style.colour)
        if style.hatch:
            self._hatches += [style.hatch] if style.hatch not in self._hatches else []
            self.element("path", d=shapes, fill=f"url(#{self._id}-hatch{self._hatches.index(style.hatch)})")

    def markers(self, points: Sequence[Point], style: SeriesStyle) -> None:
        """Add the markers of a series: hollow for a published one, a grey plus for a reference."""
        shapes = "".join(f"M{_number(x)} {_number(y)}{style.marker or 'm-4 0h8m-4-4v8'}" for x, y in points)
        is_hollow = style.is_published or not style.marker
        fill, stroke, width = (PAPER, style.colour, 1.4) if is_hollow else (style.colour, PAPER, 0.8)
        if points:
            self.element("path", d=shapes, fill=fill, stroke=stroke, stroke_width=width)

    def line_swatch(self, x: float, y: float, style: SeriesStyle) -> None:
        """Add a short line with the marker of a series, for the legend."""
        self.lines([[(x, y), (x + 26, y)]], style.colour, width=1.8, dash=style.dash)
        self.markers([(x + 13, y)] if style.marker else [], style)

    def grid(self, axis: Axis, low: float, high: float, *, is_across: bool) -> None:
        """Add grid lines from `low` to `high` and the labels of an axis: below for one across, else on the left."""
        for tick, label in axis.ticks.items():
            at = axis.at(tick)
            self.lines([[(at, low), (at, high)] if is_across else [(low, at), (high, at)]], GRID)
            if is_across:
                self.text([label], at, high + 7, anchor="middle")
            else:
                self.text([label], low - 6, at - 0.5 * SIZE, anchor="end")

    def caption(self, text: str, centre: float | None = None) -> None:
        """Add the name of an axis below what was drawn: around `centre`, or on the left."""
        rows = wrap(text, WIDTH - 2 * MARGIN, size=SIZE, lines=3)
        half = max((text_width(row, SIZE) / 2 for row in rows), default=0.0)
        if centre is None:
            self.bottom = self.text(rows, MARGIN, self.bottom) + 4
        else:
            x = centre if half + MARGIN <= centre <= WIDTH - MARGIN - half else WIDTH / 2
            self.bottom = self.text(rows, x, self.bottom + 4, anchor="middle")

    def legend(self, styles: Sequence[SeriesStyle], swatch: Callable[[float, float, SeriesStyle], None]) -> None:
        """Add swatches and names in columns below what was drawn."""
        names = [wrap(style.label, WIDTH - 2 * MARGIN - _SWATCH, size=SIZE, lines=3) for style in styles]
        step = _SWATCH + _COLUMN_GAP + max((text_width(row, SIZE) for rows in names for row in rows), default=0.0)
        lines = math.ceil(len(styles) / max(1, (WIDTH - 2 * MARGIN + _COLUMN_GAP) // step))
        columns = math.ceil(len(styles) / max(1, lines))
        left, top = (WIDTH - columns * step + _COLUMN_GAP) / 2, self.bottom + 8
        for index, (style, rows) in enumerate(zip(styles, names, strict=True)):
            if index % columns == 0:
                top = self.bottom = max(self.bottom + 3, top)
            x = left + index % columns * step
            swatch(x, top + 0.5 * SIZE, style)
            self.bottom = max(self.bottom, top + LINE, self.text(rows, x + _SWATCH, top, colour=INK))

    def svg(self) -> bytes:
        """Return the file; ids begin with that of the figure, so that several can be in one page."""
        width, height = _number(WIDTH), _number(math.ceil(self.bottom + MARGIN))
        hatches = "".join(
            f'<pattern id="{self._id}-hatch{index}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path d="{hatch}" fill="none" stroke="{PAPER}"/></pattern>'
            for index, hatch in enumerate(self._hatches)
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="{_FAMILY}">\n<title>{html.escape(self._title)}</title>\n'
            f'<style>{DARK_STYLE}</style>\n<defs>{hatches}</defs>\n<rect width="100%" height="100%" fill="{PAPER}"/>'
        )
        return "\n".join([head, *self._parts, "</svg>\n"]).encode()


def path(points: Sequence[Point], *, closed: bool = False) -> str:
    """Return the commands of a line through points."""
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points) + ("z" if closed else "")


def runs_of(points: Sequence[T | None]) -> list[list[T]]:
    """Return the stretches without gaps."""
    runs = ([point for point in run if point is not None] for _, run in groupby(points, lambda point: point is None))
    return [run for run in runs if run]


def _number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text

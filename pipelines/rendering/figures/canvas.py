"""The SVG of one figure: shapes, texts, title and legend, without scripts, dates and outside references."""

import functools
import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import TypeAlias, TypeVar

from pipelines.benchmarks.figures import Cloud, Series
from pipelines.clean_text import one_line

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
"""Text, secondary text, grid and background."""
_DARK = {INK: "#e6edf3", MUTED: "#9aa4af", GRID: "#30363d", PAPER: "#0d1117"}
_RULES = "".join(f'[fill="{old}"]{{fill:{new}}}[stroke="{old}"]{{stroke:{new}}}' for old, new in _DARK.items())
DARK_STYLE = f"@media(prefers-color-scheme:dark){{{_RULES}}}"
"""Replaces these four for readers who prefer dark pages; programs that know no such rule show the attributes."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b8569f", "#b8860b", "#4aa3df", "#b0486b", "#6a737d")
"""Distinguishable by the colour-blind (after Okabe and Ito) and visible on white and black."""
_MARKERS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "m-3.5-3.5h7v7h-7z",
    "m0-4.6l4.4 8h-8.8z",
    "m0-5l5 5l-5 5l-5-5z",
    "m0 4.6l4.4-8h-8.8z",
    "m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "m-2.2-4.6l2.2 2.2l2.2-2.2l2.4 2.4l-2.2 2.2l2.2 2.2l-2.4 2.4l-2.2-2.2l-2.2 2.2l-2.4-2.4l2.2-2.2l-2.2-2.2z",
    "m0-5.4l1.4 3.6l3.8.2l-3 2.4l1 3.8l-3.2-2.1l-3.2 2.1l1-3.8l-3-2.4l3.8-.2z",
)
"""Circle, square, triangle, diamond, triangle, plus, cross and star, as paths from their centre."""
_HATCHES = (
    "",
    "M1 1h1v1h-1zM5 5h1v1h-1z",
    "M0 0l8 8M8 0l-8 8",
    "M0 4h8",
    "M4 0v8",
    "M0 4h8M4 0v8",
    "M0 0l8 8",
    "M0 2h4M4 6h4",
)
_PUBLISHED_HATCHES = ("M-1 5l6-6M-1 9l10-10M3 9l6-6", "M-1 1l2-2M-1 9l10-10M7 9l2-2")
"""Paths in a tile of 8 by 8; those of published series slant upwards."""
_REFERENCE_DASHES = ("2 3", "", "8 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """The style of one series: published ones are dashed, hollow or hatched, references grey without marker."""

    label: str
    colour: str
    marker: str = ""
    dash: str = ""
    hatch: str = ""
    is_published: bool = False


def series_styles(series: Sequence[Series | Cloud]) -> list[SeriesStyle]:
    """Return a distinct style for each series; repeated colours get another marker and hatch."""
    styles, indices, published, references = [], count(), count(), count()
    for entry in series:
        text, is_published = one_line(entry.label), entry.origin == "published"
        if isinstance(entry, Series) and entry.baseline:
            dash = _REFERENCE_DASHES[next(references) % len(_REFERENCE_DASHES)]
            styles.append(SeriesStyle(label=text, colour=MUTED, dash=dash))
            continue
        index = next(indices)
        shifted = (index + index // len(_COLOURS)) % len(_MARKERS)
        hatch = _PUBLISHED_HATCHES[next(published) % len(_PUBLISHED_HATCHES)] if is_published else _HATCHES[shifted]
        styles.append(
            SeriesStyle(
                label=f"{text} (published)" if is_published and "published" not in text.lower() else text,
                colour=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[shifted],
                dash="6 4" if is_published else "",
                hatch=hatch,
                is_published=is_published,
            )
        )
    return styles


_EMS = {
    **dict.fromkeys(" .,:;'`!|ijlftrIJ()[]/\\-", 0.41),
    **dict.fromkeys("mwMWOQ@%+=<>#~^&\N{HORIZONTAL ELLIPSIS}\N{MINUS SIGN}", 0.93),
    **dict.fromkeys('\N{EN DASH}_*"{}?$', 0.64),
}
"""Widths relative to the font's size, of the widest common sans-serif fonts."""
_PART = re.compile(r"\s*(?:[^\s/_-]+[/_-]*|[/_-]+)")
"""What is kept in one line where it fits: words, and parts of names such as `model-7b-instruct`."""
_MAX_CHARS = 400
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def text_width(text: str, size: float) -> float:
    """Return the width of one line at a font size, at least that of common sans-serif fonts."""
    return size * sum(map(_em, text))


def widest_part(text: str, size: float) -> float:
    """Return the width below which a word or a part of a name would be broken."""
    return max((text_width(part.strip(), size) for part in _PART.findall(one_line(text)[:_MAX_CHARS])), default=0.0)


def wrap(text: str, width: float, *, size: float, lines: int) -> list[str]:
    """Return at most `lines` lines of cleaned text that fit into `width`; an ellipsis marks what was cut."""
    cleaned, rows = one_line(text), [""]
    for part in _PART.findall(cleaned[:_MAX_CHARS]):
        if text_width(rows[-1] + part, size) <= width:
            rows[-1] += part
            continue
        rows.append("")
        for char in part.lstrip():
            if rows[-1] and text_width(rows[-1] + char, size) > width:
                rows.append("")
            rows[-1] += char
    rows = [row.strip() for row in rows if row.strip()]
    if len(rows) > lines or len(cleaned) > _MAX_CHARS:
        rows = rows[:lines]
        while rows[-1] and text_width(rows[-1] + _ELLIPSIS, size) > width:
            rows[-1] = rows[-1][:-1]
        rows[-1] = rows[-1].rstrip() + _ELLIPSIS
    return rows


@functools.cache
def _em(char: str) -> float:
    category = unicodedata.category(char)
    if char in _EMS or category in ("Mn", "Me", "Cf"):
        return _EMS.get(char, 0.0)
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return 1.3 if category == "So" else 1.0
    return {"Ll": 0.64, "Nd": 0.64, "Lu": 0.78}.get(category, 0.93)


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

"""Colours, labels and reproducible SVG output of all figures.

Figures are drawn without pyplot. Two settings exist only as global parameters of matplotlib (the salt of element ids,
and whether `$` starts a formula); they are set during one drawing, under a lock, and restored.
"""

from __future__ import annotations

import functools
import html
import io
import re
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pipelines.report.tables.escaping import one_line, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#fffffe"
"""Text, secondary text, grid and background. Pages replace exactly these four in dark mode; so the background is
a white that nothing else uses."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b8569f", "#b8860b", "#4aa3df", "#b0486b", "#6a737d")
"""Distinguishable by the colour-blind (after Okabe and Ito) and visible on white and black."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "....", "xxxx", "----")
_REFERENCES = (":", "-", "-.")
_WIDTH = 6.4
"""Inches; 614 CSS pixels, so that text keeps its size on a page of 640 pixels."""
_LEGEND_LINE = 0.17
"""Inches per line of the legend."""
_LOCK = threading.Lock()
_SETTINGS = {
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "path",
    "svg.hashsalt": "vlmsweep",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": MUTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """The style of one series: published ones are dashed or hatched, references grey."""

    label: str
    colour: str
    marker: str
    line: str
    hatch: str
    alpha: float


def series_styles(series: Sequence[tuple[str, str]]) -> list[SeriesStyle]:
    """Return a distinct style for each label and origin; repeated colours get another marker and hatch."""
    styles, indices, references = [], count(), count()
    for name, origin in series:
        text = label(name, width=34, limit=68)
        if origin == "reference":
            line = _REFERENCES[next(references) % len(_REFERENCES)]
            styles.append(SeriesStyle(label=text, colour=MUTED, marker="", line=line, hatch="", alpha=0.9))
            continue
        index = next(indices)
        cycle = index // len(_COLOURS)
        is_published = origin == "published"
        styles.append(
            SeriesStyle(
                label=f"{text} (published)" if is_published and "published" not in text.lower() else text,
                colour=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[(index + cycle) % len(_MARKERS)],
                line="--" if is_published else "-",
                hatch="////" if is_published else _HATCHES[cycle % len(_HATCHES)],
                alpha=0.7 if is_published else 0.95,
            )
        )
    return styles


def label(text: str, *, width: int, limit: int = 120) -> str:
    """Return text for a figure: cleaned, cut to `limit`, wrapped at `width`, without glyphs that the font lacks."""
    glyphs = _glyphs()
    line = "".join(char if ord(char) in glyphs else "\N{WHITE SQUARE}" for char in one_line(text))
    cut = (
        line
        if len(line) <= limit
        else shorten(line, limit).partition("\N{HORIZONTAL ELLIPSIS}")[0] + "\N{HORIZONTAL ELLIPSIS}"
    )
    return "\n".join(textwrap.wrap(cut, width, break_on_hyphens=False)) or " "


@contextmanager
def drawing(height: float) -> Iterator[Drawing]:
    """Yield an empty figure of `height` inches; only our settings apply within the block."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    defaults = {key: value for key, value in mpl.rcParamsDefault.items() if not key.startswith("backend")}
    with _LOCK, mpl.rc_context({**defaults, **_SETTINGS}):
        figure = Drawing(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def finish(figure: Drawing, title: str, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add title and legend; the figure grows by the legend, so that the axes keep their size."""
    figure.suptitle(label(title, width=64, limit=200), x=0.02, ha="left", fontsize=11, fontweight="bold", color=INK)
    if not handles:
        return
    longest = max(len(line) for name in names for line in name.splitlines())
    columns = max(1, min(len(handles), 78 // (longest + 7)))
    rows = [names[start : start + columns] for start in range(0, len(names), columns)]
    lines = sum(max(len(name.splitlines()) for name in row) for row in rows)
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * lines)
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.6)


def percent_axis(axis: Any) -> None:
    """Show fractions as percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def plain_axes(axes: Axes) -> None:
    """Remove the box and put the grid behind the data."""
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def to_svg(figure: Drawing, title: str) -> bytes:
    """Return the figure as SVG without date and external references, with its title for screen readers."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    body = re.sub(r"<!DOCTYPE.*?>\s*", "", out.getvalue(), count=1, flags=re.DOTALL)
    start = body.index(">", body.index("<svg")) + 1
    titled = f'{body[: start - 1]} role="img">\n <title>{html.escape(one_line(title))}</title>{body[start:]}'
    return titled.encode()


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())

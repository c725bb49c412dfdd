"""Colours, markers, dashes and hatches of all figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

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

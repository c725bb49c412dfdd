"""V-FLUTE's figures 6, 8, 9 and 11, drawn from our numbers; the paper prints none of those behind its own."""

from __future__ import annotations

import re
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Lines, Series
from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.vflute.facts import LENGTH_BINS, SUBSETS
from pipelines.benchmarks.vflute.results import EXPLAINED, Results

_DROPS: Final = (0, 1, 4, 5, 3, 2)
"""Subsets in the order of figure 6, as indices of `SUBSETS`."""
_PANELS: Final = (("a", 0), ("a", 1), ("b", 4), ("b", 5), ("c", 2), ("c", 3))
"""Figure 11: panel, and the subset's index in `SUBSETS`."""
_FIRST_THRESHOLD: Final = 40  # hundredths, where figure 11 begins
_LENGTH_METRIC = re.compile(r"(caption|explanation)_chars_from_(\d+)")


def make_figures(results: ReportResults) -> list[Figure]:
    """Figures 6, 8, 9 and 11, drawn from our numbers; the paper prints none of those behind its own."""
    book = Results.of(*to_frames(results))
    return [*_figure6(book), *_lengths(book), *_figure11(book)]


def _figure6(book: Results) -> list[Figure]:
    subsets = [SUBSETS[place] for place in _DROPS]
    series = []
    for who in book.in_settings(*EXPLAINED):
        found = [book.find("ours", who, "percent_drop", (one.name, one.category)) for one in subsets]
        values = tuple(None if number is None else number.value for number in found)
        if any(value is not None for value in values):
            series.append(Series(label=who.label, values=values))
    if not series:
        return []
    return [
        Bars(
            id="vflute_figure6",
            title="V-FLUTE Figure 6: what of F1@0 is lost at F1@60",
            categories=tuple(one.name for one in subsets),
            series=tuple(series),
            y_label="Drop",
        )
    ]


def _lengths(book: Results) -> list[Figure]:
    """Figures 8 and 9: how long captions and explanations are, by source."""
    counts = {text: {one.source: [0] * bins for one in SUBSETS} for text, (_, bins) in LENGTH_BINS.items()}
    source = {one.name: one.source for one in SUBSETS}
    for text in LENGTH_BINS:
        for metric, subset, value in book.counts(f"{text}_chars_from_"):
            if match := _LENGTH_METRIC.fullmatch(metric):
                counts[text][source[subset]][int(match[2]) // LENGTH_BINS[text][0]] += value
    found: list[Figure] = []
    for number, (text, (width, bins)) in zip((8, 9), LENGTH_BINS.items(), strict=True):
        if not any(any(own) for own in counts[text].values()):
            continue
        found.append(
            Bars(
                id=f"vflute_figure{number}",
                title=f"V-FLUTE Figure {number}: length of {text}s by source",
                categories=(*(f"{i * width}" for i in range(bins - 1)), f"{(bins - 1) * width}+"),
                series=tuple(
                    Series(label=name, values=tuple(map(float, own))) for name, own in counts[text].items() if any(own)
                ),
                x_label="Characters",
                y_label="Test rows",
                stacked=True,
                percent=False,
                notes=(f"Characters; each bar holds {width} lengths, from the one at its foot on.",),
            )
        )
    return found


def _figure11(book: Results) -> list[Figure]:
    """A curve a model and setting, a figure a subset."""
    places = range(_FIRST_THRESHOLD, 101)
    found: list[Figure] = []
    for panel, place in _PANELS:
        one = SUBSETS[place]
        curves = ((who, book.curve(who, (one.name, one.category))) for who in book.in_settings(*EXPLAINED))
        series = tuple(
            Series(label=who.label, values=tuple(values[k] for k in places)) for who, values in curves if values
        )
        if series:
            slug = "".join(c if c.isalnum() else "-" for c in one.name.lower()).strip("-").replace("--", "-")
            found.append(
                Lines(
                    id=f"vflute_figure11{panel}_{slug}",
                    title=f"V-FLUTE Figure 11{panel}: F1 by threshold, {one.name}",
                    x=tuple(k / 100 for k in places),
                    series=series,
                    x_label="Threshold of the explanation's score",
                    y_label="F1",
                    percent=True,
                    y_range=(0.0, 1.0),
                )
            )
    return found

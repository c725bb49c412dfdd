"""V-FLUTE's figures 6, 8, 9 and 11, drawn from our numbers; the paper prints none of those behind its own."""

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Lines, Series
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.vflute.facts import EXPLAINED, LENGTH_BINS, SUBSETS, f1_curve, our_entries

_DROPS: Final = (0, 1, 4, 5, 3, 2)  # subsets in the order of figure 6, as indices of `SUBSETS`
_PANELS: Final = (("a", 0), ("a", 1), ("b", 4), ("b", 5), ("c", 2), ("c", 3))
"""Figure 11: panel, and the subset's index in `SUBSETS`."""
_FIRST_THRESHOLD: Final = 40  # hundredths, where figure 11 begins


def make_figures(results: Results) -> list[Figure]:
    """Lay out figures 6, 8, 9 and 11."""
    return [*_drop_figure(results), *_length_figures(results), *_curve_figures(results)]


def _drop_figure(results: Results) -> Iterator[Figure]:
    subsets = [SUBSETS[index] for index in _DROPS]
    series = []
    for entry in our_entries(results, *EXPLAINED):
        keys = (entry.key("percent_drop", (subset.name, subset.category)) for subset in subsets)
        values = tuple(results.value(key) for key in keys)
        if any(value is not None for value in values):
            series.append(Series(label=entry.label, values=values))
    if series:
        yield Bars(
            id="vflute_figure6",
            title="V-FLUTE Figure 6: loss from F1@0 to F1@60",
            categories=tuple(subset.name for subset in subsets),
            series=tuple(series),
            y_label="Drop",
        )


def _length_figures(results: Results) -> Iterator[Figure]:
    """Yield figures 8 and 9: how long captions and explanations are, by source as the paper names it."""
    sources = {subset.name: subset.name.partition(" (")[0] for subset in SUBSETS}
    counts = {text: {source: [0] * bins for source in sources.values()} for text, (_, bins) in LENGTH_BINS.items()}
    for text in LENGTH_BINS:
        for subset, start, count in _length_counts(results, text):
            counts[text][sources[subset]][start // LENGTH_BINS[text][0]] += count
    for number, (text, (width, bins)) in zip((8, 9), LENGTH_BINS.items(), strict=True):
        if any(any(by_bin) for by_bin in counts[text].values()):
            yield Bars(
                id=f"vflute_figure{number}",
                title=f"V-FLUTE Figure {number}: length of {text}s by source",
                categories=(*(f"{i * width}" for i in range(bins - 1)), f"{(bins - 1) * width}+"),
                series=tuple(
                    Series(label=source, values=tuple(map(float, by_bin)))
                    for source, by_bin in counts[text].items()
                    if any(by_bin)
                ),
                x_label="Characters",
                y_label="Test rows",
                stacked=True,
                percent=False,
                notes=(f"Characters; each bar holds {width} lengths, starting at its label.",),
            )


def _length_counts(results: Results, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield subset, first length and count of each bin, of one model: the data are the same for all."""
    prefix = f"{text}_chars_from_"
    lengths = {key: number for key, number in results.ours.items() if key.metric.startswith(prefix)}
    first_model = min((key.model for key in lengths), default="")
    for key, number in lengths.items():
        if key.model == first_model:
            yield key.subset, int(key.metric.removeprefix(prefix)), int(number.value or 0)


def _curve_figures(results: Results) -> Iterator[Figure]:
    """Yield figure 11: a curve a model and setting, a figure a subset."""
    thresholds = range(_FIRST_THRESHOLD, 101)
    for panel, index in _PANELS:
        subset = SUBSETS[index]
        series = [
            Series(label=entry.label, values=tuple(values[k] for k in thresholds))
            for entry in our_entries(results, *EXPLAINED)
            if (values := f1_curve(results, entry, (subset.name, subset.category)))
        ]
        if series:
            slug = "".join(c if c.isalnum() else "-" for c in subset.name.lower()).strip("-").replace("--", "-")
            yield Lines(
                id=f"vflute_figure11{panel}_{slug}",
                title=f"V-FLUTE Figure 11{panel}: F1 by threshold, {subset.name}",
                x=tuple(k / 100 for k in thresholds),
                series=tuple(series),
                x_label="Threshold of the explanation's score",
                y_label="F1",
                percent=True,
                y_range=(0.0, 1.0),
            )

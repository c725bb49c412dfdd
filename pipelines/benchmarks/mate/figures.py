"""MATE's figures 2 to 5 (arXiv 2503.03854) from our numbers; the paper prints no values in its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS
from pipelines.benchmarks.mate.results import Results
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY
from pipelines.benchmarks.tables import TableValue

if TYPE_CHECKING:
    import pandas as pd

_KINDS: Final = {"crossmodal": (2, "cross-modal"), "unimodal": (3, "unimodal")}
_PAPERS_COUNT: Final = 7
"""Objects of the scenes in Figure 4a."""
_SINGLES: Final = {"Shape": "sha", "Material": "mat", "Color": "col", "Size": "siz", COORDS_ONLY: "3dc"}


def mate_figures(metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
    """Those of the figures for which there are numbers of ours, then the share of links by object count.

    Args:
        metrics: rows of `metrics.json`.
        published: rows of the published CSV.
    """
    book = Results.of(metrics, published)
    found: list[Figure] = []
    for kind, (number, words) in _KINDS.items():
        found += _by_count(book, kind, number, words)
    return [*found, *_by_links(book), *_by_single(book), *_overlap(book), *_shares(book)]


def _by_count(book: Results, kind: str, number: int, words: str) -> Iterator[Figure]:
    counts = book.counts(kind)
    if not counts:
        return
    whats = [(kind, f"{count} objects", "exact_match") for count in counts]
    series = [_series(book.label(model), [book.find(model, what) for what in whats]) for model in book.models]
    people = [book.printed.get(("Table 4", "Human", "", what)) for what in whats]
    lines = []
    if any(people):
        values = tuple(one.value if one else None for one in people)
        lines.append(Series(label="Human, published", values=values, origin="reference"))
    lines.append(Series(label="Random, closed form", values=tuple(map(book.chance, whats)), origin="reference"))
    note = "People: only their accuracy at ten objects is printed." if any(people) else ""
    yield Bars(
        id=f"mate_figure{number}",
        title=f"MATE Figure {number}: accuracy by number of objects, {words}",
        categories=tuple(str(count) for count in counts),
        series=(*_with_values(series), *lines),
        x_label="Objects in the scene",
        y_label="Accuracy",
        notes=(*([note] if note else []), *book.notes()),
    )


def _by_links(book: Results) -> Iterator[Figure]:
    """Figure 4a at seven objects, or at the count whose smallest group is largest."""
    counts = book.counts("crossmodal")
    if not counts:
        return
    sizes_at = {count: [number.n or 0 for number in _links_at(book, book.models[0], count)] for count in counts}
    fullest = {count: (min(sizes), sum(map(bool, sizes))) for count, sizes in sizes_at.items()}
    best = _PAPERS_COUNT if all(sizes_at.get(_PAPERS_COUNT, [0])) else max(counts, key=lambda count: fullest[count])
    series = [_series(book.label(model), _links_at(book, model, best)) for model in book.models]
    sizes = ", ".join(
        f"{name}: {number.n or 0:,}"
        for name, number in zip(("1", "2", "3", "3dc"), _links_at(book, book.models[0], best), strict=True)
    )
    other = "" if best == _PAPERS_COUNT else f" The paper's count is {_PAPERS_COUNT}."
    yield from _bars(
        "mate_figure4a",
        f"MATE Figure 4a: accuracy by number of linking attributes, scenes of {best} objects",
        ("1", "2", "3", "3dc"),
        series,
        x_label="Attributes that link",
        notes=(f"3dc: only coordinates link. Answers of {book.models[0]}: {sizes}.{other}", *book.notes()),
    )


def _links_at(book: Results, model: str, count: int) -> list[TableValue]:
    names = [f"{name} @{count} objects" for name in ("links=1", "links=2", "links=3", COORDS_ONLY)]
    found = (book.find(model, ("crossmodal", name, "exact_match")) for name in names)
    return [number or TableValue(value=None, n=0) for number in found]


def _by_single(book: Results) -> Iterator[Figure]:
    """Figure 4b, bars by height: of the first model where there are several."""
    if not book.models:
        return
    first = book.models[0]
    heights = {name: book.find(first, ("crossmodal", name, "exact_match")) for name in _SINGLES}
    ordered = sorted(_SINGLES, key=lambda name: -((one.value or 0.0) if (one := heights[name]) else 0.0))
    series = [
        _series(book.label(model), [book.find(model, ("crossmodal", name, "exact_match")) for name in ordered])
        for model in book.models
    ]
    sizes = ", ".join(f"{_SINGLES[name]}: {(one.n or 0) if (one := heights[name]) else 0:,}" for name in ordered)
    yield from _bars(
        "mate_figure4b",
        "MATE Figure 4b: accuracy by the single attribute that links, all object counts",
        tuple(_SINGLES[name] for name in ordered),
        series,
        x_label="The attribute that links",
        notes=(
            f"sha shape, mat material, col color, siz size, 3dc coordinates only. Answers of {first}: {sizes}.",
            *book.notes(),
        ),
    )


def _overlap(book: Results) -> Iterator[Figure]:
    whats = [("crossmodal", f"overlap={label}", "share") for label in OVERLAP_LABELS]
    series = [_series(book.label(model), [book.find(model, what) for what in whats]) for model in book.models]
    yield from _bars(
        "mate_figure5",
        "MATE Figure 5: what is chosen where only coordinates link",
        tuple(OVERLAP_LABELS),
        series,
        x_label="Attributes shared with the object asked about",
        y_label="Share of answers",
        notes=(
            (
                "4: right; 3 to 0: attributes that the object chosen instead shares with the one asked about; -: no"
                " JSON, or no such object."
            ),
            *book.notes(),
        ),
    )


def _shares(book: Results) -> Iterator[Figure]:
    """How many attributes link, by object count: of the data, as far as the first model answered."""
    counts = book.counts("crossmodal")
    if not counts:
        return
    sizes = [[number.n or 0 for number in _links_at(book, book.models[0], count)] for count in counts]
    if not any(map(sum, sizes)):
        return
    yield Bars(
        id="mate_links_by_count",
        title="MATE: share of questions by number of linking attributes and number of objects",
        categories=tuple(str(count) for count in counts),
        series=tuple(
            Series(label=name, values=tuple(row[place] / sum(row) if sum(row) else None for row in sizes))
            for place, name in enumerate(("1", "2", "3", "3dc"))
        ),
        x_label="Objects in the scene",
        y_label="Share of questions",
        stacked=True,
        notes=("Colours: attributes that link; 3dc: only coordinates do.",),
    )


def _series(label: str, numbers: list[TableValue] | list[TableValue | None]) -> Series:
    known = [number if number is not None and number.value is not None else None for number in numbers]
    return Series(
        label=label,
        values=tuple(number.value if number else None for number in known),
        low=tuple(number.low if number else None for number in known),
        high=tuple(number.high if number else None for number in known),
    )


def _with_values(series: list[Series]) -> list[Series]:
    return [one for one in series if any(value is not None for value in one.values)]


def _bars(  # noqa: PLR0913 - what a figure says
    name: str,
    title: str,
    categories: tuple[str, ...],
    series: list[Series],
    *,
    x_label: str = "",
    y_label: str = "Accuracy",
    notes: tuple[str, ...] = (),
) -> Iterator[Figure]:
    shown = _with_values(series)
    if shown:
        yield Bars(
            id=name,
            title=title,
            categories=categories,
            series=tuple(shown),
            x_label=x_label,
            y_label=y_label,
            notes=notes,
        )

"""MATE's figures 2 to 5 (arXiv 2503.03854) from our numbers; the paper prints no values in its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS
from pipelines.benchmarks.mate.results import MateResults, accuracy
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import TableValue

_KINDS: Final = {"crossmodal": (2, "cross-modal"), "unimodal": (3, "unimodal")}
_PAPERS_COUNT: Final = 7  # objects of the scenes in Figure 4a
_SINGLES: Final = {"Shape": "sha", "Material": "mat", "Color": "col", "Size": "siz", COORDS_ONLY: "3dc"}


def make_figures(results: Results) -> list[Figure]:
    """Lay out the figures for which there are numbers of ours, then the share of links by object count."""
    mate = MateResults.of(results)
    by_count = [figure for kind, (number, name) in _KINDS.items() for figure in _by_count(mate, kind, number, name)]
    return [*by_count, *_by_links(mate), *_by_single_link(mate), *_overlap(mate), *_link_shares(mate)]


def _by_count(mate: MateResults, kind: str, number: int, name: str) -> Iterator[Figure]:
    counts = mate.object_counts(kind)
    if not counts:
        return
    keys = [accuracy(kind, f"{count} objects") for count in counts]
    series = [_series(mate.label(model), [mate.find(model, key) for key in keys]) for model in mate.models]
    people = [mate.printed("Table 4", "Human", key, "") for key in keys]
    lines = []
    if any(people):
        values = tuple(number.value if number else None for number in people)
        lines.append(Series(label="Human, published", values=values, origin="human", baseline=True))
    lines.append(Series(label="Random, closed form", values=tuple(map(mate.chance, keys)), baseline=True))
    note = "People: only their accuracy at ten objects is printed." if any(people) else ""
    yield Bars(
        id=f"mate_figure{number}",
        title=f"MATE Figure {number}: accuracy by number of objects, {name}",
        categories=tuple(str(count) for count in counts),
        series=(*_with_values(series), *lines),
        x_label="Objects in the scene",
        y_label="Accuracy",
        notes=(*([note] if note else []), *mate.notes()),
    )


def _by_links(mate: MateResults) -> Iterator[Figure]:
    """Lay out Figure 4a at seven objects, or at the count whose smallest group is largest."""
    counts = mate.object_counts("crossmodal")
    if not counts:
        return
    sizes_at = {count: [number.n or 0 for number in _links_at(mate, mate.models[0], count)] for count in counts}
    coverage = {count: (min(sizes), sum(map(bool, sizes))) for count, sizes in sizes_at.items()}
    best = _PAPERS_COUNT if all(sizes_at.get(_PAPERS_COUNT, [0])) else max(counts, key=lambda count: coverage[count])
    series = [_series(mate.label(model), _links_at(mate, model, best)) for model in mate.models]
    sizes = ", ".join(
        f"{name}: {number.n or 0:,}"
        for name, number in zip(("1", "2", "3", "3dc"), _links_at(mate, mate.models[0], best), strict=True)
    )
    other = "" if best == _PAPERS_COUNT else f" The paper's count is {_PAPERS_COUNT}."
    yield from _bars(
        "mate_figure4a",
        f"MATE Figure 4a: accuracy by number of linking attributes, scenes of {best} objects",
        ("1", "2", "3", "3dc"),
        series,
        x_label="Attributes that link",
        notes=(f"3dc: only coordinates link. Answers of {mate.models[0]}: {sizes}.{other}", *mate.notes()),
    )


def _links_at(mate: MateResults, model: str, count: int) -> list[TableValue]:
    names = [f"{name} @{count} objects" for name in ("links=1", "links=2", "links=3", COORDS_ONLY)]
    numbers = (mate.find(model, accuracy("crossmodal", name)) for name in names)
    return [number or TableValue(value=None, n=0) for number in numbers]


def _by_single_link(mate: MateResults) -> Iterator[Figure]:
    if not mate.models:
        return
    first = mate.models[0]
    heights = {name: mate.find(first, accuracy("crossmodal", name)) for name in _SINGLES}
    ordered = sorted(_SINGLES, key=lambda name: -((number.value or 0.0) if (number := heights[name]) else 0.0))
    series = [
        _series(mate.label(model), [mate.find(model, accuracy("crossmodal", name)) for name in ordered])
        for model in mate.models
    ]
    sizes = ", ".join(f"{_SINGLES[name]}: {(number.n or 0) if (number := heights[name]) else 0:,}" for name in ordered)
    yield from _bars(
        "mate_figure4b",
        "MATE Figure 4b: accuracy by the single attribute that links, all object counts",
        tuple(_SINGLES[name] for name in ordered),
        series,
        x_label="The attribute that links",
        notes=(
            f"sha shape, mat material, col color, siz size, 3dc coordinates only. Answers of {first}: {sizes}.",
            *mate.notes(),
        ),
    )


def _overlap(mate: MateResults) -> Iterator[Figure]:
    keys = [Key("share", "crossmodal", category=f"overlap={label}") for label in OVERLAP_LABELS]
    series = [_series(mate.label(model), [mate.find(model, key) for key in keys]) for model in mate.models]
    yield from _bars(
        "mate_figure5",
        "MATE Figure 5: objects chosen where only coordinates link",
        tuple(OVERLAP_LABELS),
        series,
        x_label="Attributes shared with the target object",
        y_label="Share of answers",
        notes=(
            (
                "4: right; 3 to 0: attributes that the chosen object shares with the target object; -: no JSON, or no"
                " such object."
            ),
            *mate.notes(),
        ),
    )


def _link_shares(mate: MateResults) -> Iterator[Figure]:
    """Lay out how many attributes link, by object count, as far as the first model answered."""
    counts = mate.object_counts("crossmodal")
    if not counts:
        return
    sizes = [[number.n or 0 for number in _links_at(mate, mate.models[0], count)] for count in counts]
    if not any(map(sum, sizes)):
        return
    yield Bars(
        id="mate_links_by_count",
        title="MATE: share of questions by number of linking attributes and number of objects",
        categories=tuple(str(count) for count in counts),
        series=tuple(
            Series(label=name, values=tuple(row[index] / sum(row) if sum(row) else None for row in sizes))
            for index, name in enumerate(("1", "2", "3", "3dc"))
        ),
        x_label="Objects in the scene",
        y_label="Share of questions",
        stacked=True,
        notes=("Colours: attributes that link; 3dc: only coordinates do.",),
    )


def _series(label: str, numbers: list[TableValue] | list[TableValue | None]) -> Series:
    measured = [number if number is not None and number.value is not None else None for number in numbers]
    return Series.of(label, measured)


def _with_values(series: list[Series]) -> list[Series]:
    return [curve for curve in series if any(value is not None for value in curve.values)]


def _bars(  # noqa: PLR0913 - a figure's parts
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

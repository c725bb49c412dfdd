"""MATE's figures 2 to 5 (arXiv 2503.03854) from our numbers; the paper prints no values in its own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.figures import PUBLISHED_ALONE, Bars, Figure, Series
from pipelines.benchmarks.layout import curves
from pipelines.benchmarks.mate import tables
from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS
from pipelines.benchmarks.mate.metrics import COORDS_ONLY
from pipelines.benchmarks.mate.tables import PAPER_SETTING, accuracy, object_counts
from pipelines.benchmarks.results import Key, Results, Source

_KINDS: Final = {"crossmodal": (2, "cross-modal"), "unimodal": (3, "unimodal")}
_PAPERS_COUNT: Final = 7  # objects of the scenes in Figure 4a
_LINKS: Final = ("1", "2", "3", "3dc")  # attributes that link; 3dc: coordinates alone
_SINGLES: Final = {"Shape": "sha", "Material": "mat", "Color": "col", "Size": "siz", COORDS_ONLY: "3dc"}


def make_figures(results: Results) -> list[Figure]:
    """Lay out the figures for which there are numbers of ours, then the share of links by object count."""
    notes = tuple(tables.data_notes(results))
    best = tables.in_best_setting(results.without_published() if tables.is_generated(results) else results)
    by_count = [figure for kind, (number, name) in _KINDS.items() for figure in _by_count(best, kind, number, name)]
    first = next(iter(results.models()), "")
    figures = [*by_count, *_by_links(best, first), *_by_single_link(best, first), _overlap(best)]
    shown = [replace(figure, notes=(*figure.notes, *notes)) for figure in figures if figure.series]
    return [*shown, *_link_shares(best)]


def _by_count(results: Results, kind: str, number: int, name: str) -> Iterator[Bars]:
    counts = object_counts(results, kind)
    if not counts:
        return
    keys = [accuracy(kind, f"{count} objects", PAPER_SETTING) for count in counts]
    human = {"Human, published": [key.of("Human", "") for key in keys]}
    people = [
        replace(line, origin="human", baseline=True)
        for line in curves(results, human, "published", table="Table 4", ends=False)
    ]
    guessed = Series(
        label="Random, closed form", values=tuple(tables.chance(results, key) for key in keys), baseline=True
    )
    yield Bars(
        id=f"mate_figure{number}",
        title=f"MATE Figure {number}: accuracy by number of objects, {name}",
        categories=tuple(str(count) for count in counts),
        series=(*_series(results, keys), *people, guessed),
        x_label="Objects in the scene",
        y_label="Accuracy",
        notes=("People: only their accuracy at ten objects is printed.",) if people else (),
    )


def _by_links(results: Results, first: str) -> Iterator[Bars]:
    """Lay out Figure 4a at seven objects, or at the count whose smallest group is largest."""
    counts = object_counts(results, "crossmodal")
    if not counts:
        return
    sizes_at = {count: _link_sizes(results, count) for count in counts}
    coverage = {count: (min(sizes), sum(map(bool, sizes))) for count, sizes in sizes_at.items()}
    best = _PAPERS_COUNT if all(sizes_at.get(_PAPERS_COUNT, [0])) else max(counts, key=lambda count: coverage[count])
    sizes = ", ".join(f"{name}: {n:,}" for name, n in zip(_LINKS, _link_sizes(results, best), strict=True))
    other = "" if best == _PAPERS_COUNT else f" The paper's count is {_PAPERS_COUNT}."
    yield Bars(
        id="mate_figure4a",
        title=f"MATE Figure 4a: accuracy by number of linking attributes, scenes of {best} objects",
        categories=_LINKS,
        series=_series(results, _link_keys(best)),
        x_label="Attributes that link",
        y_label="Accuracy",
        notes=(f"3dc: only coordinates link. Answers of {first}: {sizes}.{other}",),
    )


def _link_keys(count: int) -> list[Key]:
    categories = (f"{name} @{count} objects" for name in ("links=1", "links=2", "links=3", COORDS_ONLY))
    return [accuracy("crossmodal", category, PAPER_SETTING) for category in categories]


def _link_sizes(results: Results, count: int) -> list[int]:
    """Return how many questions the first model answered, by number of attributes that link."""
    numbers = (results.find(key.of(results.models()[0])) for key in _link_keys(count))
    return [number.n or 0 if number else 0 for number in numbers]


def _by_single_link(results: Results, first: str) -> Iterator[Bars]:
    """Lay out Figure 4b; without numbers of ours with those of Table 5."""
    source: Source = "ours" if results.models() else "published"
    table = "" if results.models() else "Table 5"
    models = results.models(source, table=table)
    if not models:
        return
    keys = {name: accuracy("crossmodal", name, PAPER_SETTING) for name in _SINGLES}
    heights = {name: results.find(key.of(models[0]), source, table=table) for name, key in keys.items()}
    ordered = sorted(_SINGLES, key=lambda name: -((number.value or 0.0) if (number := heights[name]) else 0.0))
    sizes = ", ".join(f"{_SINGLES[name]}: {(number.n or 0) if (number := heights[name]) else 0:,}" for name in ordered)
    printed = (replace(Series.of(models[0], [heights[name] for name in ordered]), origin="published"),)
    names = "sha shape, mat material, col color, siz size, 3dc coordinates only."
    yield Bars(
        id="mate_figure4b",
        title="MATE Figure 4b: accuracy by the single attribute that links, all object counts",
        categories=tuple(_SINGLES[name] for name in ordered),
        series=printed if table else _series(results, [keys[name] for name in ordered]),
        x_label="The attribute that links",
        y_label="Accuracy",
        notes=(names, PUBLISHED_ALONE) if table else (f"{names} Answers of {first}: {sizes}.",),
    )


def _overlap(results: Results) -> Bars:
    keys = [Key("share", "crossmodal", PAPER_SETTING, category=f"overlap={label}") for label in OVERLAP_LABELS]
    return Bars(
        id="mate_figure5",
        title="MATE Figure 5: objects chosen where only coordinates link",
        categories=tuple(OVERLAP_LABELS),
        series=_series(results, keys),
        x_label="Attributes shared with the target object",
        y_label="Share of answers",
        notes=(
            (
                "4: right; 3 to 0: attributes that the chosen object shares with the target object; -: no JSON, or no"
                " such object."
            ),
        ),
    )


def _link_shares(results: Results) -> Iterator[Figure]:
    """Lay out how many attributes link, by object count, as far as the first model answered."""
    counts = object_counts(results, "crossmodal")
    sizes = [_link_sizes(results, count) for count in counts]
    if not any(map(sum, sizes)):
        return
    yield Bars(
        id="mate_links_by_count",
        title="MATE: share of questions by number of linking attributes and number of objects",
        categories=tuple(str(count) for count in counts),
        series=tuple(
            Series(label=name, values=tuple(row[index] / sum(row) if sum(row) else None for row in sizes))
            for index, name in enumerate(_LINKS)
        ),
        x_label="Objects in the scene",
        y_label="Share of questions",
        stacked=True,
        notes=("Colours: attributes that link; 3dc: only coordinates do.",),
    )


def _series(results: Results, keys: Sequence[Key]) -> tuple[Series, ...]:
    return curves(results, {model: [key.of(model) for key in keys] for model in results.models()})

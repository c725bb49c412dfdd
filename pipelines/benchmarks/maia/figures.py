"""TODO doc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pipelines.benchmarks.figures import Figure, Radar, Series
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.results import BLOCKS, HEADS, OEVQA, POOLS, STATEMENTS, Kind, Origin, Results
from pipelines.benchmarks.maia.tables import _WORDS
from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames

_FIGURES: Final[Mapping[Kind, tuple[str, int, str]]] = {
    STATEMENTS: ("3a", 6, "statement"),
    POOLS: ("3b", 7, "pool"),
    OEVQA: ("3c", 8, "oevqa"),
}
"""Figure of the model shown in the text, figure of the others, name in the ids of ours."""


_SHOWN_IN_TEXT = "Qwen-2.5-VL 72B"


_SLUG = 50
"""Longest part of a figure's id that a model's name takes."""


def make_figures(results: ReportResults) -> list[Figure]:
    """Radars with a curve for each setting: ours first, then the paper's for the published models."""
    book = Results.of(*to_frames(results))
    others = _slugs(name for name in book.models["published"] if name != _SHOWN_IN_TEXT)
    found: list[Figure] = []
    for kind, (_, _, name) in _FIGURES.items():
        for model, slug in _slugs(book.models["ours"]).items():
            found += _radar(book, "ours", model, kind, figure=(f"maia_radar_{name}_{slug}", ""))
    for kind, (shown, _, _) in _FIGURES.items():
        found += _radar(book, "published", _SHOWN_IN_TEXT, kind, figure=(f"maia_figure{shown}", f" Figure {shown}"))
    for kind, (_, number, _) in _FIGURES.items():
        for model, slug in others.items():
            figure = (f"maia_figure{number}_{slug}", f" Figure {number}")
            found += _radar(book, "published", model, kind, figure=figure)
    return found


def _radar(book: Results, origin: Origin, model: str, kind: Kind, *, figure: tuple[str, str]) -> Iterator[Figure]:
    """The figure, given its id and its number for the title; nothing where there is no value."""
    found = {
        heading: [book.find(origin, model, setting, kind, category) for category in COLUMNS]
        for setting, heading in BLOCKS.items()
    }
    values = {heading: tuple(n.value if n else None for n in numbers) for heading, numbers in found.items()}
    if all(value is None for curve in values.values() for value in curve):
        return
    doubts = [
        f"{heading}, {axis}: {number.note}"
        for heading, numbers in found.items()
        for axis, number in zip(HEADS, numbers, strict=True)
        if number is not None and number.doubtful
    ]
    yield Radar(
        id=figure[0],
        title=f"MAIA{figure[1]}: {model}, {_WORDS[kind]}",
        axes=HEADS,
        series=tuple(Series(label=heading, values=curve, origin=origin) for heading, curve in values.items()),
        notes=(*doubts, *(book.subset_notes() if origin == "ours" else ())),
    )


def _slugs(models: Iterable[str]) -> dict[str, str]:
    """Models' names as parts of file names, each its own."""
    found: dict[str, str] = {}
    for model in models:
        slug = plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:_SLUG] or "model"
        taken = 1
        while slug in found.values():
            taken += 1
            slug = f"{plain}-{taken}"
        found[model] = slug
    return found

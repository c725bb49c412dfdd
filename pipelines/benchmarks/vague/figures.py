"""VAGUE's figures: which wrong readings models choose (Figure 4), and what speakers ask for (Figure B1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Radar, Series
from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.vague.facts import SIZES
from pipelines.benchmarks.vague.results import ERRORS, SETTING_LABELS, Key, Results

_SHOWN: Final = ("lm", "sm", "vlm")
_READINGS: Final = ("Fake scene", "Superficial", "Nonexistent entity")
_TABLES: Final = {"VCR": "Table H3", "Ego4D": "Table H4"}
_SLUG: Final = 50
"""Longest part of a figure's id that a model's name takes."""


def make_figures(results: ReportResults) -> list[Figure]:
    """Figure 4 for each model, ours first, then the actions of the data."""
    book = Results.of(*to_frames(results))
    found: list[Figure] = []
    for model, slug in _slugs(book.asked(_SHOWN)).items():
        found += _errors(book, model, f"vague_errors_{slug}", printed=False)
    for model, slug in _slugs(book.printed_models("Table H3")).items():
        found += _errors(book, model, f"vague_figure4_{slug}", printed=True)
    for subset in _TABLES:
        found += _actions(book, subset)
    return found


def _errors(book: Results, model: str, name: str, *, printed: bool) -> Iterator[Figure]:
    """Wrong readings chosen, a bar a setting."""
    bars = []
    for setting in _SHOWN:
        values = tuple(_chosen(book, Key(model=model, setting=setting, metric=one), printed=printed) for one in ERRORS)
        if any(value is not None for value in values):
            bars.append(Series(label=SETTING_LABELS[setting], values=values, origin="published" if printed else "ours"))
    if not bars:
        return
    asked = (book.find("", Key(model=model, setting=setting, metric="accuracy")) for setting in _SHOWN)
    size = SIZES[""] if printed else max((one.n or 0 for one in asked if one is not None), default=0)
    yield Bars(
        id=name,
        title=f"VAGUE{' Figure 4' if printed else ''}: {model}, wrong readings chosen",
        categories=_READINGS,
        series=tuple(bars),
        y_label=f"items of {size:,}",
        percent=False,
        notes=() if printed else book.incomplete([""]),
    )


def _chosen(book: Results, key: Key, *, printed: bool) -> float | None:
    """A count over the whole; the published one is the sum over both subsets."""
    if not printed:
        found = book.find("", key)
        return None if found is None else found.value
    total = 0.0
    for subset, table in _TABLES.items():
        part = book.find(table, Key(model=key.model, setting=key.setting, metric=key.metric, subset=subset))
        if part is None or part.value is None:
            return None
        total += part.value
    return total


def _actions(book: Results, subset: str) -> Iterator[Figure]:
    """The actions that speakers ask for most; the data of the first model, for it is the same for all."""
    for model in book.models:
        found = {
            key.category: number.value or 0.0
            for key, number in book.ours.items()
            if key.model == model and key.metric == "count_action" and key.subset == subset
        }
        if not found:
            continue
        name, title = f"vague_figureb1_{subset.lower()}", f"VAGUE Figure B1: what speakers ask for most, {subset}"
        series, notes = (Series(label="Items", values=tuple(found.values())),), book.incomplete([subset])
        if len(found) < 3:
            categories = tuple(found)
            yield Bars(id=name, title=title, categories=categories, series=series, percent=False, notes=notes)
        else:
            most = 5.0 * math.ceil(max(found.values()) / 5)  # five rings, each a whole number
            yield Radar(id=name, title=title, axes=tuple(found), series=series, maximum=most, notes=notes)
        return


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

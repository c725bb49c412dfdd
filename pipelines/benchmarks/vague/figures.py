"""VAGUE's figures: which wrong readings models choose (Figure 4), and what speakers ask for (Figure B1)."""

import math
from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Radar, Series, model_slugs
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Origin
from pipelines.benchmarks.vague.facts import ERRORS, FULL_TABLES, SETTING_LABELS, SIZES, incomplete_notes

_SETTINGS: Final = ("lm", "sm", "vlm")
_READINGS: Final = ("Fake scene", "Superficial", "Nonexistent entity")


def make_figures(results: Results) -> list[Figure]:
    """Lay out Figure 4 for each model, ours first, then the actions of the data."""
    figures: list[Figure] = []
    for model, slug in model_slugs(results.models()).items():
        figures += _error_bars(results, model, f"vague_errors_{slug}", is_published=False)
    for model, slug in model_slugs(results.models("published", table="Table H3")).items():
        figures += _error_bars(results, model, f"vague_figure4_{slug}", is_published=True)
    for subset in FULL_TABLES:
        figures += _action_figure(results, subset)
    return figures


def _error_bars(results: Results, model: str, figure_id: str, *, is_published: bool) -> Iterator[Figure]:
    """Yield bars of wrong readings chosen, a series a setting; nothing without numbers."""
    origin: Origin = "published" if is_published else "ours"
    series = []
    for setting in _SETTINGS:
        keys = (Key(metric, "mcq", setting, model=model) for metric in ERRORS)
        values = tuple(_published_count(results, key) if is_published else results.value(key) for key in keys)
        if any(value is not None for value in values):
            series.append(Series(label=SETTING_LABELS[setting], values=values, origin=origin))
    if not series:
        return
    answered = (results.find(Key("accuracy", "mcq", setting, model=model)) for setting in _SETTINGS)
    size = SIZES[""] if is_published else max((number.n or 0 for number in answered if number is not None), default=0)
    yield Bars(
        id=figure_id,
        title=f"VAGUE{' Figure 4' if is_published else ''}: {model}, wrong interpretations chosen",
        categories=_READINGS,
        series=tuple(series),
        y_label=f"items of {size:,}",
        percent=False,
        notes=() if is_published else incomplete_notes(results, [""]),
    )


def _published_count(results: Results, key: Key) -> float | None:
    """Return a published count over all items, the sum over both subsets."""
    total = 0.0
    for subset, table in FULL_TABLES.items():
        count = results.value(key._replace(subset=subset), table=table)
        if count is None:
            return None
        total += count
    return total


def _action_figure(results: Results, subset: str) -> Iterator[Figure]:
    """Yield the actions that speakers ask for most; the data of the first model, because it is the same for all."""
    actions: dict[str, dict[str, float]] = {}
    for key, number in results.ours.items():
        if (key.metric, key.subset) == ("count_action", subset):
            actions.setdefault(key.model, {})[key.category] = number.value or 0.0
    if not actions:
        return
    counts = next(iter(actions.values()))
    figure_id, title = f"vague_figureb1_{subset.lower()}", f"VAGUE Figure B1: what speakers ask for most, {subset}"
    series, notes = (Series(label="Items", values=tuple(counts.values())),), incomplete_notes(results, [subset])
    names = tuple(counts)
    if len(counts) < 3:
        yield Bars(id=figure_id, title=title, categories=names, series=series, percent=False, notes=notes)
    else:
        maximum = 5.0 * math.ceil(max(counts.values()) / 5)  # five rings, each a whole number
        yield Radar(id=figure_id, title=title, axes=names, series=series, maximum=maximum, notes=notes)

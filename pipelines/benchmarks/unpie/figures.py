"""Figures of UNPIE's numbers. All are ours: those of the paper are illustrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Points, Series
from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.extra_tables import HEADLINES
from pipelines.benchmarks.unpie.metrics import MARGIN_BINS, margin_name
from pipelines.benchmarks.unpie.results import TYPES, Key, Origin, Results

_BINS: Final = (
    f"< {MARGIN_BINS[0]:.2f}",
    *(f"{low:.2f}" for low in MARGIN_BINS[:-1]),
    f">= {MARGIN_BINS[-1]:.2f}",
)


def make_figures(results: ReportResults) -> list[Figure]:
    """Bars by input, margins, and both kinds of pun against each other; those that have any value of ours."""
    book = Results.of(*to_frames(results))
    return [*_bars(book), *_margins(book), *_kinds(book)]


def _bars(book: Results) -> Iterator[Figure]:
    """For each task and language: models by input."""
    for task, (metric, subsets) in HEADLINES.items():
        for subset in subsets:
            keys = {setting: Key(task, setting, metric, subset, ALL) for setting in TYPES}
            models = book.with_values("ours", keys.values())
            if not models:
                continue
            name = f"{task}_{subset.lower().replace('-', '_')}".strip("_")
            yield Bars(
                id=f"unpie_inputs_{name}",
                title=f"UNPIE: {task}{f', {subset}' if subset else ''}, {metric.replace('_', ' ')} by input",
                categories=tuple(models),
                series=tuple(
                    _series(book, models, TYPES[setting], key)
                    for setting, key in keys.items()
                    if any(book.value("ours", model, key) is not None for model in models)
                ),
                y_label="percent",
                notes=("Mean of homographic and heterographic puns, with 95% intervals.", *book.subset_notes(task)),
            )


def _series(book: Results, models: list[str], label: str, key: Key) -> Series:
    found = [book.find("ours", model, key) for model in models]
    return Series(
        label=label,
        values=tuple(number.value if number else None for number in found),
        low=tuple(number.low if number else None for number in found),
        high=tuple(number.high if number else None for number in found),
    )


def _margins(book: Results) -> Iterator[Figure]:
    """How clearly translations lean to the wanted meaning."""
    for setting in ("sm", "vlm"):
        keys = [Key("disambiguation", setting, margin_name(place)) for place in range(len(_BINS))]
        models = [
            model for model in book.with_values("ours", keys) if any(book.value("ours", model, key) for key in keys)
        ]
        if models:
            yield Bars(
                id=f"unpie_margins_{setting}",
                title=f"UNPIE: margins of translations, {TYPES[setting]}",
                categories=_BINS,
                series=tuple(
                    Series(label=model, values=tuple(book.value("ours", model, key) for key in keys))
                    for model in models
                ),
                y_label="translations",
                percent=False,
                notes=(
                    (
                        "BERTScore to the wanted translation minus that to the other; bins by their "
                        "lower end. Above 0 is right."
                    ),
                ),
            )


def _kinds(book: Results) -> Iterator[Figure]:
    """Homographic against heterographic puns, a point a model and language, ours and the published."""
    for task, (metric, subsets) in HEADLINES.items():
        clouds: list[Cloud] = []
        origins: tuple[Origin, ...] = ("ours", "published")
        for origin in origins:
            for setting, words in TYPES.items():
                places = [Key(task, setting, metric, subset) for subset in subsets]
                points = tuple(
                    point
                    for model in book.models[origin]
                    for key in places
                    if (point := _point(book, origin, model, key)) is not None
                )
                clouds += [Cloud(label=words, points=points, origin=origin)] if points else []
        if any(cloud.origin == "ours" for cloud in clouds):
            yield Points(
                id=f"unpie_kinds_{task}",
                title=f"UNPIE: {task}, homographic and heterographic puns",
                clouds=tuple(clouds),
                x_label="Homo, percent",
                y_label="Hetero, percent",
                percent=True,
                diagonal=True,
                notes=book.subset_notes(task),
            )


def _point(book: Results, origin: Origin, model: str, key: Key) -> tuple[float, float] | None:
    first, second = (book.find(origin, model, key._replace(category=kind)) for kind in KINDS)
    if first is None or second is None or first.value is None or second.value is None:
        return None
    return None if first.doubtful or second.doubtful else (first.value, second.value)

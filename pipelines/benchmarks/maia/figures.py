"""MAIA's radar figures 3, 6, 7 and 8 (arXiv 2502.16989), of our models and of the published ones."""

from collections.abc import Iterator, Mapping
from typing import Final

from pipelines.benchmarks.figures import Figure, Radar, Series, model_slugs
from pipelines.benchmarks.maia.facts import (
    CATEGORY_HEADS,
    COLUMNS,
    OEVQA,
    POOLS,
    SETTING_HEADS,
    STATEMENTS,
    subset_notes,
)
from pipelines.benchmarks.results import Key, Results, Source

_FIGURES: Final[Mapping[Key, tuple[str, int, str]]] = {
    STATEMENTS: ("3a", 6, "statement"),
    POOLS: ("3b", 7, "pool"),
    OEVQA: ("3c", 8, "oevqa"),
}
"""Figure of the model shown in the paper's text, figure of the others, name in the ids of ours."""
_TITLES: Final[Mapping[Key, str]] = {
    STATEMENTS: "statement accuracy",
    POOLS: "pool accuracy",
    OEVQA: "accuracy of open answers",
}
_SHOWN_IN_TEXT: Final = "Qwen-2.5-VL 72B"


def make_figures(results: Results) -> list[Figure]:
    """Lay out radars with a curve per setting, ours first; a model without any value of a metric has none of it."""
    results = results.without_people()
    figures: list[Figure] = []
    for key, (_, _, name) in _FIGURES.items():
        for model, slug in model_slugs(results.models()).items():
            figures += _radar(results, "ours", key.of(model), figure=(f"maia_radar_{name}_{slug}", ""))
    for key, (number, _, _) in _FIGURES.items():
        figure = (f"maia_figure{number}", f" Figure {number}")
        figures += _radar(results, "published", key.of(_SHOWN_IN_TEXT), figure=figure)
    slugs = model_slugs(model for model in results.models("published") if model != _SHOWN_IN_TEXT)
    for key, (_, appendix_number, _) in _FIGURES.items():
        for model, slug in slugs.items():
            figure = (f"maia_figure{appendix_number}_{slug}", f" Figure {appendix_number}")
            figures += _radar(results, "published", key.of(model), figure=figure)
    return figures


def _radar(results: Results, source: Source, key: Key, *, figure: tuple[str, str]) -> Iterator[Figure]:
    numbers = {
        heading: [results.find(key._replace(setting=setting, category=category), source) for category in COLUMNS]
        for setting, heading in SETTING_HEADS.items()
    }
    curves = {heading: tuple(n.value if n else None for n in points) for heading, points in numbers.items()}
    if all(value is None for curve in curves.values() for value in curve):
        return
    doubts = [
        f"{heading}, {axis}: {number.note}"
        for heading, points in numbers.items()
        for axis, number in zip(CATEGORY_HEADS, points, strict=True)
        if number is not None and number.doubtful
    ]
    yield Radar(
        id=figure[0],
        title=f"MAIA{figure[1]}: {key.model}, {_TITLES[key.of('', '')]}",
        axes=CATEGORY_HEADS,
        series=tuple(Series(label=heading, values=curve, origin=source) for heading, curve in curves.items()),
        notes=(*doubts, *(subset_notes(results) if source == "ours" else ())),
    )

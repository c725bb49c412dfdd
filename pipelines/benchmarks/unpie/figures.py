"""Figures of UNPIE's numbers. All are ours: those of the paper are illustrations."""

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.figures import PUBLISHED_ALONE, Bars, Cloud, Figure, Points
from pipelines.benchmarks.layout import BOTH, curves
from pipelines.benchmarks.results import Key, Results, Source
from pipelines.benchmarks.unpie.metrics import ALL, HEADLINES, KINDS, MARGIN_BINS, TYPES, margin_name, subset_notes

_BINS: Final = (f"< {MARGIN_BINS[0]:.2f}", *(f"{low:.2f}" for low in MARGIN_BINS[:-1]), f">= {MARGIN_BINS[-1]:.2f}")


_MARGIN_NOTE: Final = (
    "BERTScore to the wanted translation minus that to the other; bins by their lower end. Above 0 is right."
)


def make_figures(results: Results) -> list[Figure]:
    """Lay out bars by input, margins, and both kinds of pun against each other; without ours the published ones."""
    return [*_input_bars(results), *_margins(results), *_kinds(results)]


def _input_bars(results: Results) -> Iterator[Figure]:
    for task, (metric, subsets) in HEADLINES.items():
        for subset in subsets:
            keys = {setting: Key(metric, task, setting, subset, ALL) for setting in TYPES}
            source: Source = "ours" if results.models_with(keys.values()) else "published"
            models = results.models_with(keys.values(), source)
            if not models:
                continue
            intervals = "Mean of homographic and heterographic puns, with 95% intervals."
            name = f"{task}_{subset.lower().replace('-', '_')}".strip("_")
            yield Bars(
                id=f"unpie_inputs_{name}",
                title=f"UNPIE: {task}{f', {subset}' if subset else ''}, {metric.replace('_', ' ')} by input",
                categories=tuple(models),
                series=curves(
                    results, {TYPES[name]: [key.of(model) for model in models] for name, key in keys.items()}, source
                ),
                y_label="percent",
                notes=(intervals, *subset_notes(results, task)) if source == "ours" else (PUBLISHED_ALONE,),
            )


def _margins(results: Results) -> Iterator[Figure]:
    for setting in ("sm", "vlm"):
        keys = [Key(margin_name(index), "disambiguation", setting) for index in range(len(_BINS))]
        models = [model for model in results.models_with(keys) if any(results.value(key.of(model)) for key in keys)]
        if models:
            yield Bars(
                id=f"unpie_margins_{setting}",
                title=f"UNPIE: margins of translations, {TYPES[setting]}",
                categories=_BINS,
                series=curves(results, {model: [key.of(model) for key in keys] for model in models}, ends=False),
                y_label="translations",
                percent=False,
                notes=(_MARGIN_NOTE,),
            )


def _kinds(results: Results) -> Iterator[Figure]:
    for task, (metric, subsets) in HEADLINES.items():
        clouds: list[Cloud] = []
        for source in reversed(BOTH):
            for setting, label in TYPES.items():
                whole = Key(metric, task, setting)
                keys = [whole.of(model)._replace(subset=name) for model in results.models(source) for name in subsets]
                points = tuple(point for key in keys if (point := _point(results, key, source)) is not None)
                clouds += [Cloud(label=label, points=points, origin=source)] if points else []
        if clouds:
            has_ours = any(cloud.origin == "ours" for cloud in clouds)
            yield Points(
                id=f"unpie_kinds_{task}",
                title=f"UNPIE: {task}, homographic and heterographic puns",
                clouds=tuple(clouds),
                x_label="Homo, percent",
                y_label="Hetero, percent",
                percent=True,
                diagonal=True,
                notes=subset_notes(results, task) if has_ours else (PUBLISHED_ALONE,),
            )


def _point(results: Results, key: Key, source: Source) -> tuple[float, float] | None:
    first, second = (results.find(key._replace(category=kind), source) for kind in KINDS)
    if first is None or second is None or first.value is None or second.value is None:
        return None
    return None if first.doubtful or second.doubtful else (first.value, second.value)

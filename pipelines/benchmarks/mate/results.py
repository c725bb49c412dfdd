"""What MATE's tables and figures show: our numbers in each model's best setting, chance, and what our data lack."""

import re
from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.layout import coverage_notes
from pipelines.benchmarks.mate.rows import COT
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.results import Key, Results

CLOSED_MODELS: Final = frozenset(
    {"Gemini 1.5", "GPT-4o", "Claude 3.5", "gemini-1.5-flash", "gpt-4o-2024-11-20", "claude-3-5-sonnet-20241022"}
)
"""Published models behind an API; all others are open."""
FULL_SET: Final = 5500  # cross-modal examples behind the published numbers, and as many unimodal ones
PAPER_SETTING: Final = "2-shot"

_PREFERRED_SETTINGS: Final = (PAPER_SETTING, "1-shot", "0-shot", COT)
_MEAN_OF_RUNS: Final = re.compile(r".+, mean of \d+ runs(, .+)?")  # as `random_runs` names it, and its setting
_OBJECT_COUNT: Final = re.compile(r"(\d+) objects")


def accuracy(task: str, category: str = "", setting: str = "") -> Key:
    """Return the key of an accuracy, without model."""
    return Key("exact_match", task, setting, category=category)


def is_generated_sample(sample: Sample) -> bool:
    """Return whether a scene is generated."""
    return bool(sample.data.get("generated"))


def is_generated(results: Results) -> bool:
    """Return whether our rows come from generated data, which have no published numbers."""
    return any(key.metric == "generated" and number.value for key, number in results.ours.items())


def label(results: Results, model: str) -> str:
    """Return the model's name, with its best setting where that is not the paper's."""
    setting = _best_setting(results, model)
    return model if setting == PAPER_SETTING else f"{model}, {setting}"


def _best_setting(results: Results, model: str) -> str:
    """Return the setting whose numbers stand for a model: 2-shot as in the paper, else the next best."""
    settings = {key.setting for key in results.ours if key.model == model and key.metric == "exact_match"}
    return next((setting for setting in _PREFERRED_SETTINGS if setting in settings), PAPER_SETTING)


def is_mean_of_runs(model: str) -> bool:
    """Return whether a row stands for the runs of the random baseline, which is no model."""
    return _MEAN_OF_RUNS.fullmatch(model) is not None


def in_best_setting(results: Results) -> Results:
    """Return each model's numbers in its best setting as those of the paper's, under its label."""
    best = {model: (_best_setting(results, model), label(results, model)) for model in results.models()}
    ours = {
        key.of(best[key.model][1], PAPER_SETTING): number
        for key, number in results.ours.items()
        if key.setting == best[key.model][0]
    }
    return Results(results.benchmark, ours, results.published, results.printed)


def chance(results: Results, key: Key) -> float | None:
    """Return what guessing would score on our rows; None for anything but accuracy."""
    if key.metric != "exact_match":
        return None
    models = [*results.without_people().models(), *results.annotators]
    numbers = (results.find(key._replace(metric="chance", model=model)) for model in models)
    return next((number.value for number in numbers if number is not None), None)


def object_counts(results: Results, task: str, setting: str = PAPER_SETTING) -> list[int]:
    """Return the numbers of objects of the scenes that any of our models was tested on."""
    keys = (key for key in results.without_people().ours if (key.task, key.setting) == (task, setting))
    return sorted({int(match[1]) for key in keys if (match := _OBJECT_COUNT.fullmatch(key.category))})


def data_notes(results: Results) -> Iterator[str]:
    """Yield the notes on our data that every table has."""
    if is_generated(results):
        yield "Generated data: published numbers are left out, for they are of other data."
        return
    wholes = (accuracy("crossmodal"), accuracy("unimodal"))
    sizes = results.sizes(lambda key: key.of("", "") in wholes)
    yield from coverage_notes(
        sizes, FULL_SET, "Subset: {size:,} of {full:,} examples; not comparable with the published full-set values."
    )

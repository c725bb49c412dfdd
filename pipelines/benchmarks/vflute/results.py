"""What V-FLUTE's tables and figures look up: models by setting, annotators, the curve of F1@k, and published rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from pipelines.benchmarks.layout import View, coverage_notes
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.vflute.facts import FULL_TEST, SETTINGS, TASK

Group: TypeAlias = tuple[str, str]
"""Subset and category."""

WHOLE: Final[Group] = ("", "")
EXPLAINED: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image")
"""Settings with explanations."""
_SUFFIXES: Final[Mapping[str, str]] = {
    "zero-shot": "",
    "scene-graph": " + SG",
    "no-image": " \N{MINUS SIGN} Image",
    "fine-tuned": "",
    "fine-tuned (-Image)": " \N{MINUS SIGN} Image",
}


class ModelSetting(NamedTuple):
    """A model in a setting: the subject of most table rows."""

    model: str
    setting: str

    @property
    def label(self) -> str:
        """As the paper names it."""
        return self.model + _SUFFIXES.get(self.setting, f", {self.setting}" if self.setting else "")

    def key(self, metric: str, group: Group = WHOLE) -> Key:
        """Return the key of a metric."""
        return Key(metric, TASK, self.setting, *group, self.model)


HUMAN: Final = ModelSetting("Human", "")


def entry_label(view: View) -> str:
    """Return a row's model and setting as the paper names them."""
    return ModelSetting(view.key.model, view.key.setting).label


def our_entries(results: Results, *settings: str) -> list[ModelSetting]:
    """Return our models by setting, in the order of settings, without annotators; in all settings if none is given."""
    entries = dict.fromkeys(ModelSetting(key.model, key.setting) for key in results.ours if key.setting)
    models = [entry for entry in entries if not is_person(entry.model)]
    return sorted(
        (entry for entry in models if entry.setting in (settings or SETTINGS)),
        key=lambda entry: SETTINGS.index(entry.setting),
    )


def published_entries(results: Results, table: str) -> list[ModelSetting]:
    """Return the rows of a published table."""
    return list(dict.fromkeys(ModelSetting(key.model, key.setting) for key in results.index("published", table)))


def f1_curve(results: Results, entry: ModelSetting, group: Group) -> list[float] | None:
    """Return F1@k of k = 0..100; a threshold without a row has the value of the one before."""
    value = results.value(entry.key("f1_at_0", group))
    if value is None or results.find(entry.key("f1_at_60", group)) is None:
        return None
    values = [float(value)]
    for k in range(1, 101):
        at_k = results.value(entry.key(f"f1_at_{k}", group))
        values.append(values[-1] if at_k is None else float(at_k))
    return values


def subset_notes(results: Results) -> tuple[str, ...]:
    """Return notes on our results that do not cover the full test split."""
    sizes = results.sizes(lambda key: key.of("", "") == Key("accuracy", TASK) and key.setting in SETTINGS)
    words = "Ours: {size:,} of {full} test rows; not comparable with the published full-set values."
    return coverage_notes(sizes, FULL_TEST, words)

"""V-FLUTE: settings, subsets and phenomena as in the paper (arXiv 2405.01474, Table 1), and what tables look up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from pipelines.benchmarks.layout import View, coverage_notes
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.results import Key, Results

TASK: Final = "entailment"
ROBUST: Final = "_robust"  # ending of the values and metrics of the second parser
SETTINGS: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only")  # in the order of tables
TUNED_FOR: Final = ("label-only fine-tuning", "label + explanation multi-task fine-tuning")
"""Settings of the paper's appendix J."""
LABELS: Final[Mapping[str, int]] = {"entailment": 1, "contradiction": 0}
LENGTH_BINS: Final[Mapping[str, tuple[int, int]]] = {"caption": (20, 12), "explanation": (100, 10)}
"""Text -> width of a bin in characters, number of bins; the last one has no upper end."""
FULL_TEST: Final = 723  # rows of the test split
REPORTED_THRESHOLDS: Final = (0, 53, 60)  # thresholds of F1@k in the paper, in hundredths
PHENOMENA: Final = ("Metaphor/Simile", "Idiom", "Sarcasm", "Humor")


@dataclass(frozen=True, slots=True)
class Subset:
    """One of the six rows of the paper's tables."""

    name: str
    source: str  # `source_dataset` in the data
    phenomena: tuple[str, ...]  # `phenomenon` in the data
    category: str  # the phenomenon as printed
    style: str
    figurative: str  # the figurative part: image, caption or both


FACTS: Final[Mapping[str, Any]] = load_facts(__package__, "facts.yaml")
SUBSETS: Final = tuple(Subset(**fields) for fields in FACTS["subsets"])
GROUPS: Final = (*((subset.name, subset.category) for subset in SUBSETS), ("", ""))
"""Subset and category of each row of the paper's tables by subset, the whole last."""
SOURCES: Final = tuple(dict.fromkeys(subset.source for subset in SUBSETS))


def subset_of(source: str, phenomenon: str) -> Subset:
    """Return the subset of a row; ValueError for an unknown source, or an IRFL row of another phenomenon.

    Other sources have one subset each; their phenomenon is ignored, as one distribution has wrong tags.
    """
    subsets = [subset for subset in SUBSETS if subset.source == source]
    if not subsets:
        raise ValueError(f"source_dataset is {source!r}; known sources: {', '.join(SOURCES)}")
    if len(subsets) == 1:
        return subsets[0]
    for subset in subsets:
        if phenomenon in subset.phenomena:
            return subset
    raise ValueError(f"phenomenon is {phenomenon!r}; {source} has metaphor, simile and idiom")


Group: TypeAlias = tuple[str, str]  # subset and category

WHOLE: Final[Group] = ("", "")
EXPLAINED: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image")  # settings with explanations
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

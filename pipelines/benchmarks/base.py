"""The interface of a benchmark: a definition that names its functions, and capabilities that only some have.

A benchmark names no model, uses no cluster and opens no store: samples come in as records; prompts, verdicts and
metrics go out as records. Only `source`, `prompts` and `read` are required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from models.messages import Step
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.item_lists import ItemList
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import (
    JudgeRequest,
    Metric,
    Prompt,
    Publication,
    PublishedValue,
    RawSample,
    Reading,
    Rejection,
    Row,
    Sample,
    SimilarityRequest,
    Source,
    SourceWarning,
)
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.benchmarks.metrics_kernel.definitions import Measures
    from pipelines.benchmarks.metrics_kernel.paired import PairedMetric

SourceItem: TypeAlias = RawSample | Rejection | SourceWarning
Reduce: TypeAlias = "Callable[[pd.DataFrame, Mapping[str, Sample]], list[Metric]]"
EnsembleMetrics: TypeAlias = "Callable[[Mapping[str, pd.DataFrame], Mapping[str, Sample]], dict[str, list[Metric]]]"


def lazy(package: str, name: str) -> Callable[..., Any]:
    """Return the function `module.name` of a package, imported when it is called: pandas takes a second to load."""
    module, _, function = name.rpartition(".")

    def call(*args: Any) -> Any:
        return getattr(import_module(f"{package}.{module}"), function)(*args)

    return call


@dataclass(frozen=True, slots=True)
class PromptInput:
    """The inputs of the prompts of one sample in one task and setting."""

    sample: Sample
    task: str
    setting: str
    texts: PromptTexts
    seed: int
    captions: Mapping[str, str] | None = None  # by picture hash; None where the sweep has no captioner


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How a judge model is asked about answers, and what rests on its verdicts."""

    ask: Callable[[Row, PromptTexts], JudgeRequest | bool | None]
    """The question about a row; a bool if a rule decides without asking; None if none is needed."""
    read: Callable[[str], bool | None]  # a reply; None if it cannot be read
    tasks: tuple[str, ...] = ()  # whose answers the judge is asked about
    metrics: tuple[str, ...] = ()  # that rest on its verdicts; of several judges shown by judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Captions:
    """Pictures that a captioner describes for prompts of text alone."""

    steps: Callable[[Sample, str], Sequence[Step]] = lambda _sample, _setting: ()  # one picture a step
    settings: tuple[str, ...] = ()  # whose prompts hold captions, asked once for each captioner


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Metrics that several models make together."""

    metrics: EnsembleMetrics  # by the name under which they are shown, from scores by model
    settings: tuple[str, ...] = ()  # in which several models make one row
    is_member: Callable[[str], bool] = lambda _model: True  # by the model's name
    replaces_members: bool = False  # tables and figures show the ensemble in place of its members


@dataclass(frozen=True, slots=True)
class PredictionsReader:
    """Reads predictions in the form in which a benchmark's authors distribute them."""

    accepts: Callable[[PurePath], bool]  # whether a file is named like such a file
    rows: Callable[[PurePath, str], Iterator[tuple[int, dict[str, Any] | Exception]]]
    """Yields the lines, by number, as rows of a predictions file, or why they are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkDefinition:
    """One benchmark, found by the name `BENCHMARK` of its package or module."""

    name: str
    version: str  # raised when reading or scoring changes meaning
    title: str
    citation: str  # where the benchmark comes from: paper and data
    tasks: Mapping[str, tuple[str, ...]]  # task -> settings
    source: Callable[[Source, Mapping[str, str]], Iterable[SourceItem]]
    """Yields the rows of a source folder; raises SourceError if it holds no data of this benchmark.

    The mapping is our name -> the source's name of a column; keys are of `column_map_names`.
    """
    prompts: Callable[[PromptInput], Iterable[Prompt]]
    """Yields the prompts of one sample in one task and setting, in the order of their variants."""
    read: Callable[[Row], Reading]
    """Reads an answer; a request that failed has none, and no value."""

    headline: str = "accuracy"  # the metric that stands for the benchmark everywhere; higher is better
    headline_at: tuple[str, str] = ("", "")  # task and setting in which it does; '': the first
    printed_headline: str = ""  # under which name papers and people's values have it, where under another
    whole_category: str = ""  # category of the value that stands for the whole, where it is not the pooled one
    measure: str = ""  # what the headline measures: a sentence in plain words for the report
    secondary_metrics: tuple[str, ...] = ()  # metrics shown with it at the end of a run
    corpus_metrics: tuple[str, ...] = ()  # metrics that are no mean over rows, such as F1
    lower_is_better: tuple[str, ...] = ()  # metrics of which less is better
    chance: Mapping[str, float | str] = field(default_factory=dict)
    """Metric -> what guessing scores, or the metric that holds it on the same rows; `human` may know more."""
    derived_tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tasks without requests of their own: name -> the tasks that they are computed from."""
    explicit_settings: tuple[str, ...] = ()  # settings that run only where `--settings` names them
    people_settings: tuple[str, ...] = ()
    """Settings whose answers are people's, in the data; added where `--settings` names them, and sent to no model."""
    prompt_texts: Mapping[str, str] = field(default_factory=dict)  # wording by version name
    prompt_sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Versions used in place of others, by a name such as `paper`: a run may ask in several sets of words."""
    default_scorers: Mapping[str, str] = field(default_factory=dict)  # scorer kind -> `model[:layer]`
    descriptive_values: tuple[str, ...] = ()  # values of `Reading` that judge nothing; comparisons skip them
    content_field: str = ""  # data field with a hash of the content, for comparison with the previous ingest
    column_map_names: tuple[str, ...] = ()  # names that `--column-map` accepts; none: the flag is refused
    published_values: tuple[PublishedValue, ...] = ()  # the paper's; empty: those of the package's `published.csv`
    publication: Publication = field(default_factory=Publication)  # what the paper's numbers were measured on and with

    judge: Judge | None = None
    captions: Captions = field(default_factory=Captions)
    ensemble: Ensemble | None = None
    people: Callable[[], HumanBaseline] = HumanBaseline  # human figures, annotation files and forms
    similarity: Callable[[Row], Sequence[SimilarityRequest]] | None = None  # text comparisons a row needs
    expected: Callable[[Row], Sequence[str]] | None = None  # the right answers of a row, as other tools show them
    options: Callable[[Row], Mapping[str, str]] | None = None
    """The letters of a row's options, or `yes` and `no`, with their texts; empty for a row that has none."""
    permuted: Callable[[Sample, Sequence[int]], Sample] | None = None
    """A sample with its options in another order, in each place the one of this number; for stress tests."""
    predictions_reader: PredictionsReader | None = None  # of the authors' own prediction files

    metrics: Reduce = lazy(__package__, "default_reporter.reduce_scores")  # noqa: RUF009 - a function
    """Returns all metrics of one model, from one row per planned request: sample_id, task, setting, variant, subset,
    category, cluster, status (`ok`, `error`, `excluded`, or `missing` when it was never run), answer, rule, flags,
    finish_reason, verdict_state, and a float column per value (NaN where there is none); and samples by id."""
    tables: Callable[[Results], Sequence[Table]] = lazy(__package__, "default_reporter.make_tables")  # noqa: RUF009 - a function
    figures: Callable[[Results], Sequence[Figure]] = lazy(__package__, "default_reporter.make_figures")  # noqa: RUF009 - a function
    item_lists: Callable[[pd.DataFrame, Mapping[str, Sample]], list[ItemList]] | None = None
    """The items behind the tables' numbers, from the scores of one model and samples by id."""
    measures: Measures | None = None
    """Metrics of two models that are no mean of a score, for comparisons; samples are empty if the data are absent."""

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """Return all metrics of one model, as `metrics`; of repeated requests means over the repeats."""
        from pipelines.benchmarks.metrics_kernel.repeats import reduce_repeats  # pandas and numpy take a second

        return reduce_repeats(self.metrics, scores, samples)

    def paired_metrics(self, a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterable[PairedMetric]:
        """Return the `measures` of A and B from the same rows of one setting in the same order, which both answered."""
        from pipelines.benchmarks.metrics_kernel.definitions import compared

        return compared(self.measures, a, b, samples) if self.measures else ()

    def reading(self, row: Row) -> Reading:
        """Return the answer of a row, as it was read; none of a row without an answer."""
        return self.read(row) if row.status == "ok" else Reading(answer=None, rule=row.status)

    @property
    def human(self) -> HumanBaseline:
        """What is known of people."""
        return self.people()

    @property
    def judged_metrics(self) -> tuple[str, ...]:
        """The metrics that rest on a judge's verdicts."""
        return self.judge.metrics if self.judge else ()

    @property
    def judged_tasks(self) -> tuple[str, ...]:
        """The tasks whose answers a judge is asked about."""
        return self.judge.tasks if self.judge else ()

    @property
    def published(self) -> tuple[PublishedValue, ...]:
        """The paper's numbers."""
        return self.published_values or load_published(self.name)

    def headline_group(self, groups: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the task and setting, of those that a run has, whose headline stands for the benchmark."""
        order = [(task, setting) for task, settings in self.tasks.items() for setting in settings]
        preferred_task, preferred_setting = self.headline_at if any(self.headline_at) else order[0]

        def rank(group: tuple[str, str]) -> tuple[bool, bool, int, tuple[str, str]]:
            place = order.index(group) if group in order else len(order)
            return group[0] != preferred_task, group[1] != preferred_setting, place, group

        return min(groups, key=rank, default=None)

    @property
    def main_metrics(self) -> tuple[str, ...]:
        """The headline, and the metrics shown with it."""
        return self.headline, *self.secondary_metrics

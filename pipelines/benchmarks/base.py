"""The interface of a benchmark: a definition that names its parts, and the protocols that the parts follow.

A benchmark names no model, uses no cluster and opens no store: samples come in as records; prompts, verdicts and
metrics go out as records. Only `source`, `prompter` and `grader` are required; one object may be several parts.
Parameters of parts are positional, so an implementation may call an unused one `_name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from models.messages import Step
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.item_lists import ItemList
from pipelines.benchmarks.people.annotation import AnnotationForm
from pipelines.benchmarks.prompt_templates import PromptTexts, load_facts
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import (
    JudgeRequest,
    Metric,
    Notice,
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
)
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.benchmarks.metrics_kernel.paired import PairedMetric


class SampleSource(Protocol):
    """Reads a benchmark as distributed."""

    def read(self, source: Source, column_map: Mapping[str, str], /) -> Iterator[RawSample | Rejection | Notice]:
        """Yield the rows of a source folder; raise SourceError where it holds no data of this benchmark.

        `column_map` is our name -> the source's name of a column; keys are of `BenchmarkDefinition.column_map_names`.
        """


@dataclass(frozen=True, slots=True)
class PromptInput:
    """The inputs of the prompts of one sample in one task and setting."""

    sample: Sample
    task: str
    setting: str
    texts: PromptTexts
    seed: int
    captions: Mapping[str, str] | None = None  # by picture hash; None where the sweep has no captioner


class Prompter(Protocol):
    """Makes the prompts of a benchmark."""

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield the prompts of one sample in one task and setting, in the order of their variants."""


class Grader(Protocol):
    """Reads and scores answers."""

    def read_answer(self, row: Row, /) -> Reading:
        """Read one prediction. Rows of every status come; an error row gets no value that it did not earn."""


class JudgePrompter(Protocol):
    """Asks a judge model about answers, for a benchmark that needs one."""

    def judge_request(self, row: Row, texts: PromptTexts, /) -> JudgeRequest | bool | None:
        """Return the question about a row; a bool where a rule decides without asking; None where none is needed."""

    def read_verdict(self, text: str, /) -> bool | None:
        """Read the judge's reply; None where it cannot be read."""


class PredictionsReader(Protocol):
    """Reads predictions in the form in which a benchmark's authors distribute them."""

    def accepts(self, path: PurePath, /) -> bool:
        """Return whether a file is named like such a file."""

    def rows(self, path: PurePath, text: str, /) -> Iterator[tuple[int, dict[str, Any] | Exception]]:
        """Yield the lines, by number, as rows of a predictions file, or why they are none."""


class Reporter(Protocol):
    """Turns scored rows into metrics, tables and figures."""

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample], /) -> list[Metric]:
        """Return all metrics of one model.

        Args:
            scores: one row per planned request: sample_id, task, setting, variant, subset, category, cluster, status
                (`ok`, `error`, `excluded`, or `missing` when it was never run), answer, rule, flags, finish_reason,
                verdict_state, and a float column per value (NaN where there is none).
            samples: by id, for references.
        """

    def tables(self, results: Results, /) -> Sequence[Table]:
        """Lay out the tables of the paper, and others."""

    def figures(self, results: Results, /) -> Sequence[Figure]:
        """Lay out the figures."""


PairedMetrics: TypeAlias = "Callable[[pd.DataFrame, pd.DataFrame, Mapping[str, Sample]], Iterable[PairedMetric]]"
"""Scores of A and B in one setting, the same rows in the same order, which both answered, and samples by id.

Without data `samples` is empty, and only what needs none is returned.
"""


class LazyPart:
    """Stand-in for `module:attribute`, imported on first use: pandas, numpy and scipy take a second to load.

    With arguments it stands for what the attribute makes of them.
    """

    def __init__(self, reference: str, *arguments: Any) -> None:
        self._module, _, self._attribute = reference.partition(":")
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        # Pickle asks before the state is set.
        if name.startswith("__") or name in ("_module", "_attribute", "_arguments"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def __call__(self, *args: Any) -> Any:
        """Call the part."""
        return self._load()(*args)

    def _load(self) -> Any:
        part = getattr(import_module(self._module), self._attribute)
        return part(*self._arguments) if self._arguments else part


def lazy_part(reference: str, *arguments: Any) -> Any:
    """Return the part `module:attribute`, or what it makes of arguments, imported on first use."""
    return LazyPart(reference, *arguments)


class PackageReporter:
    """Reporter made of `metrics.reduce_scores`, `tables.make_tables` and `figures.make_figures` of a package."""

    def __init__(self, package: str) -> None:
        self.reduce = lazy_part(f"{package}.metrics:reduce_scores")
        self.tables = lazy_part(f"{package}.tables:make_tables")
        self.figures = lazy_part(f"{package}.figures:make_figures")


def _default_reporter() -> Reporter:
    return cast("Reporter", lazy_part("pipelines.benchmarks.default_reporter:REPORTER"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkDefinition:
    """One benchmark, found by the name `BENCHMARK` of its package or module."""

    name: str
    version: str  # raised when reading or scoring changes meaning
    title: str
    citation: str  # where the benchmark comes from: paper and data
    tasks: Mapping[str, tuple[str, ...]]  # task -> settings
    whole_category: str = ""  # category of the value that stands for the whole, where it is not the pooled one
    headline: str = "accuracy"  # the metric that stands for the benchmark everywhere; higher is better
    headline_at: tuple[str, str] = ("", "")  # task and setting in which it does; '': the first
    printed_headline: str = ""  # under which name papers and people's values have it, where under another
    measure: str = ""  # what the headline measures: a sentence in plain words for the report
    secondary_metrics: tuple[str, ...] = ()  # metrics shown with it at the end of a run
    corpus_metrics: tuple[str, ...] = ()  # metrics that are no mean over rows, such as F1
    lower_is_better: tuple[str, ...] = ()  # metrics of which less is better
    chance: Mapping[str, float | str] = field(default_factory=dict)
    """Metric -> what guessing scores, or the metric that holds it on the same rows; `human` may know more."""
    derived_tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tasks without requests of their own: name -> the tasks that they are computed from."""
    explicit_settings: tuple[str, ...] = ()  # settings that run only where `--settings` names them
    ensemble_settings: tuple[str, ...] = ()  # settings in which several models make one row
    people_settings: tuple[str, ...] = ()
    """Settings whose answers are people's, in the data; added where `--settings` names them, and sent to no model."""
    prompt_texts: Mapping[str, str] = field(default_factory=dict)  # wording by version name
    prompt_sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Versions used in place of others, by a name such as `paper`: a run may ask in several sets of words."""
    default_scorers: Mapping[str, str] = field(default_factory=dict)  # scorer kind -> `model[:layer]`
    descriptive_values: tuple[str, ...] = ()  # values of `Reading` that judge nothing; comparisons skip them
    content_field: str = ""  # data field with a hash of the content, for comparison with the previous ingest
    published_values: tuple[PublishedValue, ...] = ()  # the paper's; empty: those of the package's `published.csv`
    publication: Publication = field(default_factory=Publication)  # what the paper's numbers were measured on and with
    column_map_names: tuple[str, ...] = ()  # names that `--column-map` accepts; none: the flag is refused

    source: SampleSource
    prompter: Prompter
    grader: Grader
    reporter: Reporter = field(default_factory=_default_reporter)
    judge: JudgePrompter | None = None
    judged_metrics: tuple[str, ...] = ()  # those that rest on the judge's verdicts; of several judges shown by judge
    judged_tasks: tuple[str, ...] = ()  # tasks whose answers the judge is asked about
    captions: Callable[[Sample, str], Sequence[Step]] | None = None  # one picture a step
    captioned_settings: tuple[str, ...] = ()  # settings whose prompts hold captions, asked once for each captioner
    similarity: Callable[[Row], Sequence[SimilarityRequest]] | None = None  # text comparisons a row needs
    expected: Callable[[Row], Sequence[str]] | None = None  # the right answers of a row, as other tools show them
    options: Callable[[Row], Mapping[str, str]] | None = None
    """The letters of a row's options, or `yes` and `no`, with their texts; empty for a row that has none."""
    permuted: Callable[[Sample, Sequence[int]], Sample] | None = None
    """A sample with its options in another order, in each place the one of this number; for stress tests."""
    ensemble: Callable[[Mapping[str, pd.DataFrame], Mapping[str, Sample]], Mapping[str, list[Metric]]] | None = None
    """Metrics that several models make together, by the name under which they are shown, from scores by model."""
    is_ensemble_member: Callable[[str], bool] = lambda _model: True  # which models the ensemble is made of, by name
    ensemble_replaces_members: bool = False  # tables and figures show the ensemble in place of its members
    predictions_reader: PredictionsReader | None = None  # of the authors' own prediction files
    item_lists: Callable[[pd.DataFrame, Mapping[str, Sample]], list[ItemList]] | None = None
    """The items behind the tables' numbers, from the scores of one model and samples by id."""
    paired_metrics: PairedMetrics | None = None  # for comparisons: metrics of two models that are no mean of a score
    annotation_form: Callable[[Iterable[Sample], Iterable[Row]], AnnotationForm] | None = None
    """What people are asked about samples and models' answers, from which forms are drawn."""
    human: HumanBaseline = field(default_factory=HumanBaseline)  # human figures and annotation files

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """Return all metrics of one model, as `Reporter.reduce`; of repeated requests means over the repeats."""
        from pipelines.benchmarks.metrics_kernel.repeats import reduce_repeats  # pandas and numpy take a second

        return reduce_repeats(self.reporter.reduce, scores, samples)

    @property
    def published(self) -> tuple[PublishedValue, ...]:
        """The paper's numbers."""
        return self.published_values or load_published(self.name)

    def headline_cell(self, cells: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
        """Return the task and setting, of those that a run has, whose headline stands for the benchmark."""
        order = [(task, setting) for task, settings in self.tasks.items() for setting in settings]
        preferred_task, preferred_setting = self.headline_at if any(self.headline_at) else order[0]

        def rank(cell: tuple[str, str]) -> tuple[bool, bool, int, tuple[str, str]]:
            place = order.index(cell) if cell in order else len(order)
            return cell[0] != preferred_task, cell[1] != preferred_setting, place, cell

        return min(cells, key=rank, default=None)

    @property
    def main_metrics(self) -> tuple[str, ...]:
        """The headline, and the metrics shown with it."""
        return self.headline, *self.secondary_metrics


_FURTHER_PARTS: Final = ("similarity", "expected", "options", "permuted", "captions")


def packaged_definition(package: str, parts: Any, **fields: Any) -> BenchmarkDefinition:
    """Return the definition in `benchmark.yaml` of a benchmark's package.

    The file has the definition's fields that are words and numbers, the `publication`, and under `parts` what is
    imported on first use, as `module:attribute` of the package.

    Args:
        package: with the file, and with the modules of `PackageReporter`.
        parts: source, prompter and grader, judge where it asks one, and by their names the further parts it has.
        fields: further ones.
    """
    entry: dict[str, Any] = load_facts(package, "benchmark.yaml")
    printed = entry.pop("publication")
    judges = {(task, metric): name for task, by in printed.pop("judges", {}).items() for metric, name in by.items()}
    return BenchmarkDefinition(
        source=parts,
        prompter=parts,
        grader=parts,
        judge=parts if hasattr(parts, "judge_request") else None,
        reporter=PackageReporter(package),
        publication=Publication(**printed, judges=judges),
        **{name: getattr(parts, name) for name in _FURTHER_PARTS if hasattr(parts, name)},
        **{name: lazy_part(f"{package}.{reference}") for name, reference in entry.pop("parts").items()},
        **entry,
        **fields,
    )

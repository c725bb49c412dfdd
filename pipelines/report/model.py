"""The content of a report: records that the report stage fills and the renderer reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.item_lists import ItemList
from pipelines.benchmarks.tables import Table
from pipelines.predict.records import TaskCount
from pipelines.report.landing.sentences import Judging
from pipelines.report.landing.standing import Standing
from pipelines.report.metrics_file import Measured
from pipelines.report.tables.token_efficiency import Efficiency

Verdict: TypeAlias = Literal["reproduced", "consistent", "different", "not comparable"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleAnswer:
    """One answer as an example: question, output and parsed answer."""

    benchmark: str
    model: str
    task: str
    setting: str
    sample_id: str
    variant: str = ""
    prompt_set: str = ""  # the set of prompts, of several
    question: str
    output: str | None  # raw; None for an error
    read_as: str | None = None
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"]
    note: str = ""  # the parsing rule, the error, or another explanation of the verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionResult:
    """One published number of a model of ours, and our own."""

    benchmark: str
    model: str
    published_model: str  # as printed
    table: str
    task: str
    setting: str
    published_setting: str  # as printed
    subset: str
    category: str
    metric: str
    ours: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    unit: str  # as of the metric
    published: float
    rounding: float  # half of the last digit that the paper prints
    difference: float | None  # ours minus published
    verdict: Verdict
    reasons: tuple[str, ...]  # why it is not comparable, each `kind: in what`
    own_rows: tuple[str, ...] = ()  # of a different one: what our own rows could explain of it


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelItems:
    """Items of one model behind a table's numbers."""

    benchmark: str
    model: str
    prompt_set: str = ""  # the set of prompts, of several
    items: ItemList
    outputs: Mapping[str, str]  # of the items that the page shows, by request id


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSection:
    """The section of one benchmark."""

    name: str
    title: str
    source: str = ""
    measure: str = ""  # what the headline measures, a sentence in plain words
    headline: str  # name of the metric
    settings: tuple[str, ...] = ()  # order in the headline table; others follow
    replaced: frozenset[str] = frozenset()  # models that one row stands for, such as runs of one model
    baselines: frozenset[str] = frozenset()  # models that guess: compared with, never the best
    leader: tuple[str, str, str] | None = None
    """Task, setting and model that is significantly better than the next on the headline."""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section across benchmarks."""

    name: str  # its anchor and the name of its page, such as `people`
    title: str
    summary: tuple[Table, ...] = ()  # short tables, on the landing page too
    tables: tuple[Table, ...] = ()  # long ones: a section with any has a page of its own
    figures: tuple[Figure, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)  # further ones, by path in the output


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """A whole report. Raises ValueError if two tables or figures have the same id and would overwrite each other."""

    run: Mapping[str, Any] = field(default_factory=dict)
    """As in `run.json`: a mapping of mappings becomes a table of its rows, another mapping one of two columns."""
    metrics: tuple[Measured, ...] = ()
    across: tuple[Section, ...] = ()  # sections before those of the benchmarks
    benchmarks: tuple[BenchmarkSection, ...] = ()
    counts: tuple[TaskCount, ...] = ()
    answers: tuple[ExampleAnswer, ...] = ()
    warnings: tuple[str, ...] = ()  # what the reader of the numbers should know
    notes: tuple[str, ...] = ()  # what nobody asked for and was left out
    standings: tuple[Standing, ...] = ()  # the models on each benchmark's headline
    judgings: tuple[Judging, ...] = ()  # who judged the answers, by benchmark
    baselines: frozenset[str] = frozenset()  # models that guess: compared with, never ranked
    cost: Table | None = None
    efficiency: tuple[Efficiency, ...] = ()
    items: tuple[ModelItems, ...] = ()
    reproduction: tuple[ReproductionResult, ...] = ()  # our numbers next to the published ones, by benchmark

    def __post_init__(self) -> None:
        ids: set[str] = set()
        tables = [table.id for part in self.benchmarks for table in part.tables]
        figures = [figure.id for part in self.benchmarks for figure in part.figures]
        shared = [item.id for section in self.across for item in (*section.summary, *section.tables, *section.figures)]
        for name in (*tables, *figures, *shared):
            if name in ids:
                raise ValueError(f"two tables or figures are named {name}")
            ids.add(name)

"""What a report is made of. The stage that reduces scores fills these records; the renderer reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.tables import Table
from pipelines.predict.records import CellCount
from pipelines.report.token_efficiency import Efficiency

METRIC_KEYS = (
    "benchmark",
    "task",
    "model",
    "setting",
    "subset",
    "category",
    "metric",
    "value",
    "unit",
    "n",
    "n_failed",
    "ci_low",
    "ci_high",
)
"""Keys of a row of `metrics.json`, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleAnswer:
    """One answer as an example: what was asked, what came back, how it was read. The caller bounds their number."""

    benchmark: str
    model: str
    task: str
    setting: str
    sample_id: str
    variant: str = ""
    question: str
    output: str | None
    """The model's words as they came; None for an error."""
    read_as: str | None = None
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"]
    note: str = ""
    """The gold answer, the reader's rule, the error, or whatever helps to see why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSection:
    """One benchmark's share of the report."""

    name: str
    title: str
    source: str = ""
    headline: str
    """Name of the metric that stands first."""
    settings: tuple[str, ...] = ()
    """Order of settings in the headline table; others follow as they come."""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A share of the report that belongs to no single benchmark."""

    name: str
    """Its place on the page, such as `people`."""
    title: str
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """A whole report.

    Raises:
        ValueError: two tables or figures have one id, and would overwrite each other.
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    """What was run, as in `run.json`: single values make a list of facts; a mapping of mappings, such as `models` or
    `datasets`, makes a table with a row each; any other mapping, such as `versions`, a table of two columns."""
    metrics: tuple[Mapping[str, Any], ...] = ()
    """Rows with `METRIC_KEYS`, and `note`: why a value is null, or how to read it."""
    across: tuple[Section, ...] = ()
    """What is told of all benchmarks together; stands before them."""
    benchmarks: tuple[BenchmarkSection, ...] = ()
    counts: tuple[CellCount, ...] = ()
    answers: tuple[ExampleAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    efficiency: tuple[Efficiency, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        tables = [table.id for part in self.benchmarks for table in part.tables]
        figures = [figure.id for part in self.benchmarks for figure in part.figures]
        shared = [item.id for section in self.across for item in (*section.tables, *section.figures)]
        for name in (*tables, *figures, *shared):
            if name in seen:
                raise ValueError(f"two tables or figures are named {name}")
            seen.add(name)

"""Batch evaluation of vision-language models: plan, predict, score, reduce and report.

These names are the Python interface (`examples/` shows three uses). Values of metrics are fractions 0 to 1 unless their
`unit` says otherwise; pictures and frames are height x width x 3 arrays of bytes. Every error that a user can fix is a
`PipelineError`, whose `exit_code` is that of the command line; anything else is a bug.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pipelines.benchmarks import benchmark, benchmark_names
    from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
    from pipelines.benchmarks.default_reporter import DefaultReporter
    from pipelines.benchmarks.human import HumanKind, HumanLevel
    from pipelines.benchmarks.layout import Fixed, Rows, TableDef
    from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure, MetricDef, estimates, with_intervals
    from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
    from pipelines.benchmarks.people.baseline import FileBaseline
    from pipelines.benchmarks.prompt_templates import PromptTexts
    from pipelines.benchmarks.published import parse_published
    from pipelines.benchmarks.records import (
        MediaFile,
        MediaRef,
        Metric,
        Notice,
        Prompt,
        Publication,
        RawSample,
        Reading,
        Rejection,
        Row,
        Sample,
        Source,
    )
    from pipelines.benchmarks.results import Key, Results, with_interval
    from pipelines.errors import DatasetError, ModelUnavailableError, PipelineError, SourceError, StoreError, UsageError
    from pipelines.ingest.dataset import Dataset
    from pipelines.ingest.ingest import IngestResult, ingest_benchmark
    from pipelines.ingest.source_folder import Folder
    from pipelines.plan.run_spec import FailureBudget, RunSpec, ScorerSpec, Stage
    from pipelines.plan.selection import Limit
    from pipelines.progress import NullProgress, ProgressListener
    from pipelines.report.compare import Comparison, Difference, compare
    from pipelines.storage.store import Store
    from pipelines.sweep.result import SweepResult
    from pipelines.sweep.run import run_sweep
    from pipelines.version import __version__

__all__ = [
    "BenchmarkDefinition",
    "Comparison",
    "Dataset",
    "DatasetError",
    "DefaultReporter",
    "Difference",
    "FailureBudget",
    "FileBaseline",
    "Fixed",
    "Folder",
    "Grouping",
    "HumanKind",
    "HumanLevel",
    "IngestResult",
    "Key",
    "Limit",
    "Measure",
    "MediaFile",
    "MediaRef",
    "Metric",
    "MetricDef",
    "ModelUnavailableError",
    "Notice",
    "NullProgress",
    "PipelineError",
    "ProgressListener",
    "Prompt",
    "PromptInput",
    "PromptTexts",
    "Publication",
    "RawSample",
    "Reading",
    "Rejection",
    "Results",
    "Row",
    "Rows",
    "RunSpec",
    "Sample",
    "ScoredRows",
    "ScorerSpec",
    "Source",
    "SourceError",
    "Stage",
    "Store",
    "StoreError",
    "SweepResult",
    "TableDef",
    "UsageError",
    "__version__",
    "benchmark",
    "benchmark_names",
    "compare",
    "estimates",
    "ingest_benchmark",
    "parse_published",
    "run_sweep",
    "with_interval",
    "with_intervals",
]

_MODULES: Final = {
    "pipelines.benchmarks": "benchmark benchmark_names",
    "pipelines.benchmarks.base": "BenchmarkDefinition PromptInput",
    "pipelines.benchmarks.default_reporter": "DefaultReporter",
    "pipelines.benchmarks.human": "HumanKind HumanLevel",
    "pipelines.benchmarks.layout": "Fixed Rows TableDef",
    "pipelines.benchmarks.metrics_kernel.definitions": "Grouping Measure MetricDef estimates with_intervals",
    "pipelines.benchmarks.metrics_kernel.rows": "ScoredRows",
    "pipelines.benchmarks.people.baseline": "FileBaseline",
    "pipelines.benchmarks.prompt_templates": "PromptTexts",
    "pipelines.benchmarks.published": "parse_published",
    "pipelines.benchmarks.records": "MediaFile MediaRef Metric Notice Prompt Publication RawSample Reading Rejection "
    "Row Sample Source",
    "pipelines.benchmarks.results": "Key Results with_interval",
    "pipelines.errors": "DatasetError ModelUnavailableError PipelineError SourceError StoreError UsageError",
    "pipelines.ingest.dataset": "Dataset",
    "pipelines.ingest.ingest": "IngestResult ingest_benchmark",
    "pipelines.ingest.source_folder": "Folder",
    "pipelines.plan.run_spec": "FailureBudget RunSpec ScorerSpec Stage",
    "pipelines.plan.selection": "Limit",
    "pipelines.progress": "NullProgress ProgressListener",
    "pipelines.report.compare": "Comparison Difference compare",
    "pipelines.storage.store": "Store",
    "pipelines.sweep.result": "SweepResult",
    "pipelines.sweep.run": "run_sweep",
    "pipelines.version": "__version__",
}  # modules are imported on first use of a name, which keeps imports light


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

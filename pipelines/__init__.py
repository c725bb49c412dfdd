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
    from pipelines.benchmarks.prompt_templates import PromptTexts
    from pipelines.benchmarks.records import (
        MediaFile,
        MediaRef,
        Metric,
        Notice,
        Prompt,
        RawSample,
        Reading,
        Rejection,
        Row,
        Sample,
        Source,
    )
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
    "Difference",
    "FailureBudget",
    "Folder",
    "IngestResult",
    "Limit",
    "MediaFile",
    "MediaRef",
    "Metric",
    "ModelUnavailableError",
    "Notice",
    "NullProgress",
    "PipelineError",
    "ProgressListener",
    "Prompt",
    "PromptInput",
    "PromptTexts",
    "RawSample",
    "Reading",
    "Rejection",
    "Row",
    "RunSpec",
    "Sample",
    "ScorerSpec",
    "Source",
    "SourceError",
    "Stage",
    "Store",
    "StoreError",
    "SweepResult",
    "UsageError",
    "__version__",
    "benchmark",
    "benchmark_names",
    "compare",
    "ingest_benchmark",
    "run_sweep",
]

_MODULES: Final = {
    "pipelines.benchmarks": "benchmark benchmark_names",
    "pipelines.benchmarks.base": "BenchmarkDefinition PromptInput",
    "pipelines.benchmarks.prompt_templates": "PromptTexts",
    "pipelines.benchmarks.records": "MediaFile MediaRef Metric Notice Prompt RawSample Reading Rejection Row Sample "
    "Source",
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

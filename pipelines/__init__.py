"""Batch evaluation of vision-language models: plan, predict, score, reduce and report.

These names are the Python interface (`examples/` shows three uses). Values of metrics are fractions 0 to 1 unless their
`unit` says otherwise; pictures and frames are height x width x 3 arrays of bytes. Every error that a user can fix is a
`PipelineError`, whose `exit_code` is that of the command line; anything else is a bug.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pipelines.benchmarks import benchmark as benchmark
    from pipelines.benchmarks import benchmark_names as benchmark_names
    from pipelines.benchmarks.base import BenchmarkDefinition as BenchmarkDefinition
    from pipelines.benchmarks.base import Captions as Captions
    from pipelines.benchmarks.base import Ensemble as Ensemble
    from pipelines.benchmarks.base import Judge as Judge
    from pipelines.benchmarks.base import PromptInput as PromptInput
    from pipelines.benchmarks.base import lazy as lazy
    from pipelines.benchmarks.human import HumanKind as HumanKind
    from pipelines.benchmarks.human import HumanLevel as HumanLevel
    from pipelines.benchmarks.layout import Fixed as Fixed
    from pipelines.benchmarks.layout import Rows as Rows
    from pipelines.benchmarks.layout import TableDef as TableDef
    from pipelines.benchmarks.metrics_kernel.definitions import Grouping as Grouping
    from pipelines.benchmarks.metrics_kernel.definitions import Measure as Measure
    from pipelines.benchmarks.metrics_kernel.definitions import MetricDef as MetricDef
    from pipelines.benchmarks.metrics_kernel.definitions import estimates as estimates
    from pipelines.benchmarks.metrics_kernel.definitions import with_intervals as with_intervals
    from pipelines.benchmarks.metrics_kernel.rows import ScoredRows as ScoredRows
    from pipelines.benchmarks.people import FileBaseline as FileBaseline
    from pipelines.benchmarks.prompt_templates import PromptTexts as PromptTexts
    from pipelines.benchmarks.published import parse_published as parse_published
    from pipelines.benchmarks.records import JudgeRequest as JudgeRequest
    from pipelines.benchmarks.records import MediaFile as MediaFile
    from pipelines.benchmarks.records import MediaRef as MediaRef
    from pipelines.benchmarks.records import Metric as Metric
    from pipelines.benchmarks.records import Prompt as Prompt
    from pipelines.benchmarks.records import Publication as Publication
    from pipelines.benchmarks.records import RawSample as RawSample
    from pipelines.benchmarks.records import Reading as Reading
    from pipelines.benchmarks.records import Rejection as Rejection
    from pipelines.benchmarks.records import Row as Row
    from pipelines.benchmarks.records import Sample as Sample
    from pipelines.benchmarks.records import Source as Source
    from pipelines.benchmarks.records import SourceWarning as SourceWarning
    from pipelines.benchmarks.results import Key as Key
    from pipelines.benchmarks.results import Results as Results
    from pipelines.benchmarks.results import with_interval as with_interval
    from pipelines.errors import DatasetError as DatasetError
    from pipelines.errors import ModelUnavailableError as ModelUnavailableError
    from pipelines.errors import PipelineError as PipelineError
    from pipelines.errors import SourceError as SourceError
    from pipelines.errors import StoreError as StoreError
    from pipelines.errors import UsageError as UsageError
    from pipelines.ingest.dataset import Dataset as Dataset
    from pipelines.ingest.ingest import IngestResult as IngestResult
    from pipelines.ingest.ingest import ingest_benchmark as ingest_benchmark
    from pipelines.ingest.source_folder import Folder as Folder
    from pipelines.plan.run_spec import RunSpec as RunSpec
    from pipelines.plan.run_spec import Stage as Stage
    from pipelines.progress import NullProgress as NullProgress
    from pipelines.progress import ProgressListener as ProgressListener
    from pipelines.report.compare import Comparison as Comparison
    from pipelines.report.compare import Difference as Difference
    from pipelines.report.compare import compare as compare
    from pipelines.storage.store import Store as Store
    from pipelines.sweep.result import SweepResult as SweepResult
    from pipelines.sweep.run import run_sweep as run_sweep
    from pipelines.version import __version__ as __version__

_MODULES: Final = {
    "pipelines.benchmarks": "benchmark benchmark_names",
    "pipelines.benchmarks.base": "BenchmarkDefinition Captions Ensemble Judge PromptInput lazy",
    "pipelines.benchmarks.human": "HumanKind HumanLevel",
    "pipelines.benchmarks.layout": "Fixed Rows TableDef",
    "pipelines.benchmarks.metrics_kernel.definitions": "Grouping Measure MetricDef estimates with_intervals",
    "pipelines.benchmarks.metrics_kernel.rows": "ScoredRows",
    "pipelines.benchmarks.people": "FileBaseline",
    "pipelines.benchmarks.prompt_templates": "PromptTexts",
    "pipelines.benchmarks.published": "parse_published",
    "pipelines.benchmarks.records": "JudgeRequest MediaFile MediaRef Metric SourceWarning Prompt Publication RawSample "
    "Reading Rejection Row Sample Source",
    "pipelines.benchmarks.results": "Key Results with_interval",
    "pipelines.errors": "DatasetError ModelUnavailableError PipelineError SourceError StoreError UsageError",
    "pipelines.ingest.dataset": "Dataset",
    "pipelines.ingest.ingest": "IngestResult ingest_benchmark",
    "pipelines.ingest.source_folder": "Folder",
    "pipelines.plan.run_spec": "RunSpec Stage",
    "pipelines.progress": "NullProgress ProgressListener",
    "pipelines.report.compare": "Comparison Difference compare",
    "pipelines.storage.store": "Store",
    "pipelines.sweep.result": "SweepResult",
    "pipelines.sweep.run": "run_sweep",
    "pipelines.version": "__version__",
}  # modules are imported on first use of a name, which keeps imports light
__all__ = tuple(sorted(" ".join(_MODULES.values()).split()))


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

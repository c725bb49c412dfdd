"""Results and benchmarks in the YAML of the Hugging Face hub, one headline number a task and setting.

`models/MODEL/.eval_results/BENCHMARK.yaml` belongs into a model's repository, `datasets/BENCHMARK/eval.yaml` into the
benchmark's.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from jobs.export.files import HUB_ID, hub_id
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.selection import check_names
from pipelines.report.measured import Measured
from pipelines.samples.media import MediaReader
from pipelines.samples.rows import ExportedRun, RowReader
from pipelines.storage.backend import portable_name
from pipelines.storage.parts import safe_model

_FRAMEWORK: Final = "vlmsweep"


def export_hf_eval(
    run: ExportedRun, _reader: RowReader, _media: MediaReader, folder: Path, *, datasets: Mapping[str, str]
) -> list[Path]:
    """Write results of models and the benchmarks that they name, and return their paths.

    `datasets` are hub ids by benchmark, before those that the benchmarks cite.

    Raises:
        UsageError: a benchmark is not in the output, no chosen benchmark has a hub id, or there are no numbers.
    """
    paths: dict[Path, Any] = {}
    check_names("benchmark", list(datasets), sorted({entry.benchmark for entry in run.entries}))
    for entry in run.entries:
        definition = entry.definition
        dataset = datasets.get(entry.benchmark) or hub_id(definition)
        numbers = list(_headlines(run, entry))
        if not dataset or not numbers or entry.model in run.run.baselines:
            continue
        name = f"{portable_name(entry.benchmark)}.yaml"
        date = datetime.fromisoformat(run.run.updated).date().isoformat()
        path = folder / "models" / portable_name(safe_model(entry.model)) / ".eval_results" / name
        paths[path] = [_result(definition, number, dataset, date) for number in numbers]
        benchmark_file = folder / "datasets" / portable_name(entry.benchmark) / "eval.yaml"
        paths.setdefault(benchmark_file, _benchmark(run, entry))
    if not paths:
        raise UsageError(
            "no number to export: each needs a report (`vlmsweep report`), a model that is no baseline and a benchmark "
            "that is a data set of the hub, which `--datasets NAME=OWNER/NAME` names"
        )
    for path, content in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return list(paths)


def read_datasets(texts: tuple[str, ...]) -> dict[str, str]:
    """Return hub ids by benchmark from `NAME=OWNER/NAME`; UsageError for anything else."""
    datasets = {}
    for text in texts:
        name, _, dataset = text.partition("=")
        if not name or not HUB_ID.fullmatch(dataset):
            raise UsageError(f"--datasets {text}: not BENCHMARK=OWNER/NAME")
        datasets[name] = dataset
    return datasets


def _headlines(run: ExportedRun, entry: ManifestEntry) -> Iterator[Measured]:
    """Yield the headline numbers over all samples."""
    for number in run.metrics_of(entry):
        if number.is_whole and number.metric == entry.definition.headline and number.value is not None:
            yield number


def _result(definition: BenchmarkDefinition, number: Measured, dataset: str, date: str) -> dict[str, Any]:
    notes = f"{number.metric} ({number.unit}) of {number.n} rows, {number.n_failed} failed"
    if number.ci_low is not None and number.ci_high is not None:
        notes += f"; 95% interval {number.ci_low:.4f} to {number.ci_high:.4f}"
    return {
        "dataset": {"id": dataset, "task_id": _task_id(number.task, number.setting)},
        "value": number.value,
        "date": date,
        "evaluation_framework": _FRAMEWORK,
        "notes": f"{notes}; version {definition.version} of the benchmark's reader",
    }


def _benchmark(run: ExportedRun, entry: ManifestEntry) -> dict[str, Any]:
    """Return the benchmark with the tasks of which any model has a number."""
    definition = entry.definition
    ids = dict.fromkeys(
        _task_id(number.task, number.setting)
        for of in run.entries
        for number in _headlines(run, of)
        if number.benchmark == entry.benchmark
    )
    return {
        "name": definition.title,
        "description": definition.measure or definition.title,
        "evaluation_framework": _FRAMEWORK,
        "tasks": [{"id": name, "config": "default", "split": "test"} for name in ids],
    }


def _task_id(task: str, setting: str) -> str:
    return "_".join(filter(None, (task, setting)))

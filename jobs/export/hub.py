"""A data set folder for the Hugging Face hub: Parquet files a benchmark, the metrics, and a card with their names.

What may be private stays out: messages of errors, locations, the command and the settings of models. Media are
left out unless they are asked for, because most benchmarks' licences do not let others publish them.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.export.files import HUB_ID, copy_media, hub_id, hub_model
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.selection import check_names
from pipelines.rendering.environment import markdown
from pipelines.report.metrics_file import NUMBERS, Measured, metric_row
from pipelines.samples.media import MediaReader
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, text_of
from pipelines.schemas import without_surrogates
from pipelines.storage.backend import portable_name
from pipelines.storage.parts import batched, iter_parts, safe_model

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


_ROW_GROUP: Final = 1_000
_MESSAGE: Final = pa.struct([("role", pa.string()), ("content", pa.string())])
_PREDICTION: Final = ("request_id", "model", "model_revision", "prompt_version", "captioner", "status", "error_type")
_ANSWER: Final = ("output", "reasoning", "finish_reason", "decoding")
_NUMBERS: Final = ("input_tokens", "output_tokens", "cached_tokens", "frames_used")
_SCORE: Final = ("answer", "rule", "verdict_state")
_ROWS: Final = """\
One row is one request: the messages that were sent, the answer, how it was read, and its scores (`score_*`).
`status` is `ok`, `error` (the model failed: there is no answer) or `excluded` (never sent).
A score that is null was not computed, which is not zero."""
_METRIC: Final = ("benchmark", "task", "model", "setting", "subset", "category", "metric", "unit")


def export_hub(
    run: ExportedRun, reader: RowReader, media: MediaReader, folder: Path, *, with_media: bool
) -> list[Path]:
    """Write the data set and return the path of its card."""
    benchmarks = list(dict.fromkeys(entry.benchmark for entry in run.entries))
    for entry in run.entries:
        _write_entry(run, entry, _copying(reader, entry, media, folder) if with_media else reader.rows(entry), folder)
    has_metrics = _write_metrics(run, folder)
    card = folder / "README.md"
    card.write_text(_card(run, benchmarks, has_metrics=has_metrics, with_media=with_media), encoding="utf-8")
    return [card]


def _copying(reader: RowReader, entry: ManifestEntry, media: MediaReader, folder: Path) -> Iterator[ExportRow]:
    for row in reader.rows(entry):
        copy_media(row, "", media, reader.dataset(entry), folder)
        yield row


def _write_entry(run: ExportedRun, entry: ManifestEntry, rows: Iterable[ExportRow], folder: Path) -> None:
    schema = _schema(_score_names(run, entry.benchmark))
    path = folder / "data" / entry.benchmark / f"{safe_model(entry.model)}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batched(map(_row, rows), _ROW_GROUP):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def _score_names(run: ExportedRun, name: str) -> list[str]:
    """Return the names of all scores on a benchmark: files of one configuration have the same columns."""
    names: set[str] = set()
    for _, table in iter_parts(run.out, f"scores/benchmark={name}", ["values"]):
        names.update(key for row in table["values"].to_pylist() for key, _ in row or ())
    return sorted(names)


def _schema(scores: Iterable[str]) -> pa.Schema:
    texts = [(name, pa.string()) for name in ("sample_id", "task", "setting", "variant", "category", "subset")]
    lists = [("flags", pa.list_(pa.string())), ("expected", pa.list_(pa.string())), ("media", pa.list_(pa.string()))]
    return pa.schema(
        [
            *texts,
            *((name, pa.string()) for name in (*_PREDICTION, "prompt_set", *_ANSWER, *_SCORE)),
            *((name, pa.int64()) for name in _NUMBERS),
            ("latency_s", pa.float64()),
            ("messages", pa.list_(_MESSAGE)),
            ("steps", pa.list_(pa.string())),
            *lists,
            *((f"score_{name}", pa.float64()) for name in scores),
        ]
    )


def _row(row: ExportRow) -> dict[str, Any]:
    prediction, scores = row.prediction, row.scores or {}
    messages = [
        {"role": role, "content": without_surrogates(text_of(parts))} for step in row.steps for role, parts in step
    ]
    messages += [{"role": "user", "content": without_surrogates(text)} for text in row.scored_texts]
    return {
        **row.named("sample_id", "task", "setting", "variant", "category"),
        "subset": without_surrogates(row.sample.subset),
        **{name: prediction.get(name) for name in (*_PREDICTION, *_ANSWER, *_NUMBERS, "latency_s", "steps")},
        **{name: scores.get(name) for name in (*_SCORE, "flags")},
        "prompt_set": row.prompt_set,
        "messages": messages,
        "expected": [without_surrogates(text) for text in row.expected],
        "media": [f"{medium.sha256}{medium.ref.extension}" for medium in row.media if medium.ref],
        **{f"score_{name}": value for name, value in row.values.items()},
    }


def _write_metrics(run: ExportedRun, folder: Path) -> bool:
    """Write the metrics of the entries; return whether there are any."""
    rows = [metric_row(number) for entry in run.entries for number in run.metrics_of(entry)]
    if not rows:
        return False
    numbers = [(name, pa.float64()) for name in NUMBERS]
    counts = [(name, pa.int64()) for name in ("n", "n_failed")]
    schema = pa.schema([*((name, pa.string()) for name in _METRIC), *numbers, *counts])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "data" / "metrics.parquet", compression="zstd")
    return True


def _card(run: ExportedRun, benchmarks: list[str], *, has_metrics: bool, with_media: bool) -> str:
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "test", "path": f"data/{name}/*.parquet"}]}
        for name in benchmarks
    ]
    if has_metrics:
        configs.append({"config_name": "metrics", "data_files": [{"split": "test", "path": "data/metrics.parquet"}]})
    head = {"pretty_name": "Answers of vision-language models", "tags": ["evaluation", "vlmsweep"], "configs": configs}
    note = "They are in `media/`." if with_media else "They are not included; the benchmarks' authors distribute them."
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip(),
        "---",
        "# Answers of vision-language models",
        "",
        f"Made by {markdown(run.run.product)}, finished {markdown(run.run.updated)}.",
        _ROWS,
        f"In messages `<image:SHA256>` and `<video:SHA256>` stand for media, and `media` names their files. {note}",
        "The questions and references are the benchmarks' own and under their licences; do not train on them.",
        "",
        "| benchmark | source |",
        "|---|---|",
        *(f"| {markdown(name)} | {markdown(benchmark(name).citation)} |" for name in benchmarks),
        "",
        "| model | weights | revision | benchmarks |",
        "|---|---|---|---|",
        *(f"| {' | '.join(map(markdown, row))} |" for row in _models(run.entries)),
    ]
    return "\n".join(lines) + "\n"


def _models(entries: Iterable[ManifestEntry]) -> Iterator[tuple[str, ...]]:
    """Yield name, weights, revision and benchmarks of each model; weights that are no hub id may be a private path."""
    by_model: dict[str, list[ManifestEntry]] = {}
    for entry in entries:
        by_model.setdefault(entry.model, []).append(entry)
    for model, model_entries in by_model.items():
        revision = str(model_entries[0].target.fingerprint.get("revision") or "")
        yield model, hub_model(model_entries[0]), revision, ", ".join(entry.benchmark for entry in model_entries)

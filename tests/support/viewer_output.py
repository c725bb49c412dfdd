"""An output with answers of our choice to MAIA's questions, as a run leaves it; no model is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipelines.benchmarks.tables import Table, TableRow
from pipelines.ingest.dataset import Dataset
from pipelines.plan.options import SweepOptions
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, save_run
from pipelines.plan.selection import TaskSetting
from pipelines.plan.stored_plan import PlanRow
from pipelines.report.model import BenchmarkSection, ExampleAnswer, ReportData
from pipelines.report.render import render
from pipelines.schemas import PREDICTIONS, SCORES
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from tests.support.requests import target_of

CELLS = (TaskSetting("oevqa", "32-frames"), TaskSetting("vsv", "black-video"))
SAMPLE = "video1/Sentiment_A"
HOSTILE = """</p></section><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> "' &amp; \u202e"""

Answer = dict[str, Any]
"""`output`, and what of `status`, `error`, `latency_s`, `right` and `answer` is not as for a right answer."""


def make_target(
    dataset: Dataset, model: str, benchmark: str = "maia", cells: tuple[TaskSetting, ...] = CELLS
) -> ModelTarget:
    """Return what builds the requests of a model."""
    return target_of(
        benchmark_name=benchmark,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model=model,
        fingerprint={"model": model},
        task_settings=cells,
        seed=42,
    )


def write_output(
    out: str, data: str, models: Iterable[str], answer: Callable[[str, PlanRow], Answer] | None = None
) -> str:
    """Write predictions, scores, metrics and `run.json`; return the output's address."""
    store, dataset, entries = Store(out), Dataset.open(Store(data), "maia"), []
    for model in models:
        target = make_target(dataset, model)
        entries.append(ManifestEntry(benchmark="maia", model=model, data=data, target=target))
        rows = [row for sample in dataset.samples() for row in target.prompts.rows(sample)]
        write_part(store, target, rows, answer or (lambda _model, row: {"output": f"{row.sample_id} answered"}))
    save_run(store, RunManifest(), RunManifest(sweep=SweepOptions(data=data), entries=tuple(entries)))
    return out


def write_part(
    store: Store, target: ModelTarget, rows: list[PlanRow], answer: Callable[[str, PlanRow], Answer]
) -> None:
    """Write the answers of one model as one part of predictions and one of scores."""
    predictions, scores = [], []
    for row in rows:
        given = {"status": "ok", "right": True, "answer": "A", "latency_s": 0.5, **answer(target.model, row)}
        columns = target.columns(row)
        predictions.append(
            {**columns, "finish_reason": "stop", "input_tokens": 7, "output_tokens": 3, **_answer_columns(given)}
        )
        verdict = {"verdict_state": "ok", "values": [("accepted", float(given["right"]))]}
        statement = {"verdict_state": "absent", "values": [("correct", float(given["right"]))]}
        category = row.sample_id.rpartition("/")[2]
        score = {"category": category, "status": given["status"], "answer": given["answer"], "rule": "single"}
        judged = verdict if row.task == "oevqa" else statement
        scores.append({**columns, **score, **(judged if given["status"] == "ok" else {"values": []})})
    for kind, content, schema in (("predictions", predictions, PREDICTIONS), ("scores", scores, SCORES)):
        rows_of_kind = [{name: row.get(name) for name in schema.names} for row in content]
        store.put(
            f"{part_folder(kind, 'maia', target.model)}/37a680133bd09342f934afb8.parquet",
            to_parquet(rows_of_kind, schema),
        )


def metric(model: str, setting: str, value: float | None, category: str = "") -> dict[str, Any]:
    """Return a row of `metrics.json`."""
    key = {"benchmark": "maia", "task": "vsv", "setting": setting, "subset": "", "category": category}
    ends = {"ci_low": 0.25, "ci_high": 0.75} if value is not None else {"ci_low": None, "ci_high": None}
    return {**key, "model": model, "metric": "pool_accuracy", "value": value, "unit": "fraction", "n": 8, **ends}


def write_metrics(out: str, rows: list[dict[str, Any]]) -> None:
    """Write `report/metrics.json`."""
    import json

    Store(out).put("report/metrics.json", json.dumps([{"n_failed": 0, **row} for row in rows]).encode())


def part(out: str, kind: str, model: str) -> Path:
    """Return the file of a model's part."""
    return Path(out, part_folder(kind, "maia", model), "37a680133bd09342f934afb8.parquet")


def _answer_columns(given: Answer) -> dict[str, Any]:
    names = ("output", "status", "error", "error_type", "latency_s", "steps")
    return {name: given[name] for name in names if name in given}


def write_report(out: str, model: str, text: str = "words") -> None:
    """Write a report with an example, and with a table of a model that has answers and of one that has none."""
    rows = tuple(TableRow(label=name, cells=(0.5,)) for name in (model, "unknown"))
    answer = ExampleAnswer(
        benchmark="maia",
        model=model,
        task="vsv",
        setting="black-video",
        sample_id=SAMPLE,
        variant="3",
        question=text,
        output=text,
        verdict="right",
    )
    part = BenchmarkSection(
        name="maia",
        title="MAIA",
        headline="pool_accuracy",
        tables=(Table(id="t", title=text, columns=("a",), rows=rows),),
    )
    for path, content in render(ReportData(benchmarks=(part,), answers=(answer,))).items():
        Store(out).put(path, content)

"""Files as lm-evaluation-harness writes them: `MODEL/samples_TASK_DATE.jsonl` and `MODEL/results_DATE.json`.

lmms-eval's files have the same fields. A task is one of a benchmark's under one setting, such as `maia_vsv_32-frames`.
Media are in `media/`, written once; in prompts `<image:SHA256>` and `<video:SHA256>` stand for them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from jobs.export.files import copy_media
from pipelines.benchmarks import benchmark
from pipelines.json_records import dump_json
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.metrics_file import Measured, metric_row
from pipelines.samples.media import MediaReader
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, text_of
from pipelines.storage.parts import safe_model


def export_lm_eval(run: ExportedRun, reader: RowReader, media: MediaReader, folder: Path) -> list[Path]:
    """Write samples and results of each model, and return the paths of the results."""
    date = datetime.fromisoformat(run.run.updated).strftime("%Y-%m-%dT%H-%M-%S.%f")
    paths = []
    for model in dict.fromkeys(entry.model for entry in run.entries):
        model_folder = folder / safe_model(model)
        model_folder.mkdir(exist_ok=True)  # a model may have the name `media`
        entries = [entry for entry in run.entries if entry.model == model]
        counts: Counter[str] = Counter()
        for entry in entries:
            counts += _write_samples(reader, entry, media, folder, date)
        paths.append(model_folder / f"results_{date}.json")
        paths[-1].write_text(dump_json(_results(run, entries, counts), indent=2), encoding="utf-8")
    return paths


def _write_samples(
    reader: RowReader, entry: ManifestEntry, media: MediaReader, folder: Path, date: str
) -> Counter[str]:
    """Write a file a task, and return the number of samples of each."""
    counts: Counter[str] = Counter()
    files: dict[str, TextIO] = {}
    dataset = reader.dataset(entry)
    with ExitStack() as stack:
        for row in reader.rows(entry):
            name = _task_name(entry.benchmark, row.planned.task, row.planned.setting)
            if name not in files:
                path = folder / safe_model(entry.model) / f"samples_{name}_{date}.jsonl"
                files[name] = stack.enter_context(path.open("w", encoding="utf-8"))
            line = _sample(row, counts[name], copy_media(row, "", media, dataset, folder))
            files[name].write(dump_json(line) + "\n")
            counts[name] += 1
    return counts


def _task_name(name: str, task: str, setting: str) -> str:
    return "_".join(filter(None, (name, task, setting)))


def _sample(row: ExportRow, number: int, media: list[str]) -> dict[str, Any]:
    """Return one line; an answer that failed is null, a score that is missing too."""
    prediction, scores = row.prediction, row.scores or {}
    prompts = ["\n".join(text_of(parts) for _, parts in step) for step in row.steps]
    document = {
        **row.named("sample_id", "task", "setting", "variant", "category", "subset", "prompt_set"),
        "data": dict(row.sample.data),
    }
    target = list(row.expected) if len(row.expected) > 1 else "".join(row.expected)
    output = prediction["output"] if prediction["status"] == "ok" else None
    return {
        "doc_id": number,
        "doc": document,
        "target": target,
        "arguments": _arguments(prompts, row.scored_texts, row.planned.generation),
        "media": media,
        "resps": [[output]],
        "filtered_resps": [scores.get("answer")],
        "filter": "none",
        "metrics": sorted(row.values),
        "doc_hash": _sha256(dump_json(document)),
        "prompt_hash": _sha256("".join((*prompts, *row.scored_texts))),
        "target_hash": _sha256(dump_json(target)),
        "status": prediction["status"],
        "error": prediction["error"] or None,
        "request_id": prediction["request_id"],
        "input_tokens": prediction["input_tokens"],
        "output_tokens": prediction["output_tokens"],
        **row.values,
    }


def _arguments(prompts: Sequence[str], scored_texts: Sequence[str], generation: str) -> dict[str, dict[str, Any]]:
    """Return the calls of a request, as the harness names them."""
    if scored_texts:
        prompt = prompts[-1] if prompts else ""
        return {f"gen_args_{number}": {"arg_0": prompt, "arg_1": text} for number, text in enumerate(scored_texts)}
    settings = json.loads(generation) if prompts else []
    names = ("max_gen_toks", "temperature", "num_beams", "seed")
    return {
        f"gen_args_{number}": {"arg_0": prompt, "arg_1": dict(zip(names, values, strict=True))}
        for number, (prompt, values) in enumerate(zip(prompts, settings, strict=True))
    }


def _results(run: ExportedRun, entries: Sequence[ManifestEntry], counts: Mapping[str, int]) -> dict[str, Any]:
    rows = [row for entry in entries for row in run.metrics_of(entry)]
    task_benchmarks = {
        _task_name(entry.benchmark, group.task, group.setting): entry.benchmark
        for entry in entries
        for group in entry.prompts.task_settings
    }
    task_benchmarks |= {_task_name(row.benchmark, row.task, row.setting): row.benchmark for row in rows}
    names = dict.fromkeys([*counts, *(_task_name(row.benchmark, row.task, row.setting) for row in rows)])
    benchmarks = {name: benchmark(task_benchmarks[name]) for name in names}
    fingerprint = entries[0].target.fingerprint
    return {
        "results": {name: {"alias": name, **_metrics(rows, name)} for name in names},
        "group_subtasks": {name: [] for name in names},
        "configs": {name: {"task": name, "metadata": {"version": benchmarks[name].version}} for name in names},
        "versions": {name: benchmarks[name].version for name in names},
        "n-shot": {name: _shots(name) for name in names},
        "higher_is_better": {name: {benchmarks[name].headline: True} for name in names},
        "n-samples": {name: {"original": count, "effective": count} for name, count in counts.items()},
        "config": {
            "model": fingerprint.get("engine", ""),
            "model_args": dict(fingerprint),
            "model_revision": fingerprint.get("revision", ""),
            "random_seed": entries[0].prompts.seed,
            "gen_kwargs": dict(entries[0].target.generation),
        },
        "date": datetime.fromisoformat(run.run.updated).timestamp(),
        "model_source": run.run.product,
        "model_name": entries[0].model,
        "model_name_sanitized": safe_model(entries[0].model),
        "metrics": [metric_row(row) for row in rows],  # all of them, by subset and category too, with intervals
    }


def _metrics(rows: Iterable[Measured], name: str) -> dict[str, Any]:
    """Return the values over all samples of a task by the harness's keys; those without a value are absent."""
    values: dict[str, Any] = {}
    for row in rows:
        if row.is_overall and _task_name(row.benchmark, row.task, row.setting) == name and row.value is not None:
            values |= {f"{row.label},none": row.value, f"{row.label}_stderr,none": "N/A"}
    return values


def _shots(name: str) -> int:
    """Return the number of solved examples that a setting such as `2-shot-cot` names."""
    number, _, rest = name.rpartition("_")[2].partition("-")
    return int(number) if rest.startswith("shot") and number.isdecimal() else 0


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

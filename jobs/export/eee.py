"""Records of Every Eval Ever 0.3: aggregate and samples of each model and benchmark, in the datastore's folders.

`data/BENCHMARK/DEVELOPER/MODEL/UUID.json` has the metrics, `UUID_samples.jsonl` a line a request. What may be private
stays out: messages of errors, locations, the command and the settings of models.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from jobs.export.files import hub_id, hub_model
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.metrics_file import Measured, identity
from pipelines.samples.media import MediaReader
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, text_of
from pipelines.schemas import without_surrogates
from pipelines.storage.backend import portable_name
from pipelines.storage.parts import safe_model

SCHEMA_VERSION: Final = "0.3.0"
_CONFIDENCE: Final = 0.95
_UNITS: Final = {"fraction": "proportion"}
_LOCAL_ENGINES: Final = ("transformers", "vllm", "random")
_UNKNOWN: Final = "unknown"


def export_eee(
    run: ExportedRun, reader: RowReader, _media: MediaReader, folder: Path, *, organization: str
) -> list[Path]:
    """Write the records and return the paths of the aggregates."""
    return [_write_record(_Record(run, entry, organization or _UNKNOWN), reader, folder) for entry in run.entries]


class _Record:
    """What aggregate and samples of one model on one benchmark share."""

    def __init__(self, run: ExportedRun, entry: ManifestEntry, organization: str) -> None:
        self.run, self.entry, self.organization = run, entry, organization
        developer, _, name = hub_model(entry).partition("/")
        self.folder = portable_name(developer or "local"), portable_name(name or safe_model(entry.model))
        self.model_id = "/".join(self.folder)
        self.time = str(datetime.fromisoformat(run.run.updated).timestamp())
        self.evaluation_id = f"{entry.benchmark}/{safe_model(entry.model)}/{self.time}"
        digest = hashlib.sha256(f"{organization}/{self.evaluation_id}".encode()).digest()
        self.path = "/".join(
            ("data", portable_name(entry.benchmark), *self.folder, str(uuid.UUID(bytes=digest[:16], version=4)))
        )


def _write_record(record: _Record, reader: RowReader, folder: Path) -> Path:
    path = folder / f"{record.path}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = path.with_name(f"{path.stem}_samples.jsonl")
    rows = unscored = 0
    digest = hashlib.sha256()
    with samples.open("wb") as file:
        for row in reader.rows(record.entry):
            name = row.main_score
            if not name:
                unscored += 1
                continue
            line = _json(_sample(record, row, name)) + b"\n"
            digest.update(line)
            file.write(line)
            rows += 1
    detailed = {
        "format": "jsonl",
        "file_path": f"{record.path}_samples.jsonl",
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": rows,
        "additional_details": {"requests_without_score": str(unscored)},
    }
    if not rows:
        samples.unlink()
    path.write_bytes(_json(_aggregate(record, {"detailed_evaluation_results": detailed} if rows else {}), indent=2))
    return path


def _aggregate(record: _Record, detailed: dict[str, Any]) -> dict[str, Any]:
    product, _, version = record.run.run.product.partition(" ")
    numbers = [number for number in record.run.metrics_of(record.entry) if number.value is not None]
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": record.evaluation_id,
        "evaluation_timestamp": record.time,
        "retrieved_timestamp": record.time,
        "source_metadata": {
            "source_name": "vlmsweep",
            "source_type": "evaluation_run",
            "source_organization_name": record.organization,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": product or "vlmsweep", "version": version or _UNKNOWN},
        "model_info": _model_info(record),
        "evaluation_results": list(map(partial(_result, record.entry.definition), numbers)),
        **detailed,
    }


def _model_info(record: _Record) -> dict[str, Any]:
    """Return what is public of a model; an engine on own hardware is one that this product starts itself."""
    fingerprint = record.entry.target.fingerprint
    engine = str(fingerprint.get("engine") or "")
    details = {
        "deployment_type": "self_deployed" if engine in _LOCAL_ENGINES else _UNKNOWN,
        "model_availability": "open_weights" if hub_model(record.entry) and fingerprint.get("revision") else _UNKNOWN,
        "revision": str(fingerprint.get("revision") or ""),
    }
    info: dict[str, Any] = {
        "name": record.entry.model,
        "id": record.model_id,
        "developer": record.folder[0],
        "additional_details": {name: value for name, value in details.items() if value},
    }
    if engine:
        info["inference_engine"] = {"name": engine}
    return info


def _result(definition: BenchmarkDefinition, number: Measured) -> dict[str, Any]:
    assert number.value is not None
    names = (number.benchmark, number.task, number.setting, number.subset, number.category)
    metric: dict[str, Any] = {
        "metric_id": number.metric,
        "metric_name": number.label,
        "metric_unit": _UNITS.get(number.unit, number.unit),
        "lower_is_better": number.metric in definition.lower_is_better,
    }
    if number.metric == definition.headline and number.unit == "fraction" and 0 <= number.value <= 1:
        metric |= {"score_type": "continuous", "min_score": 0, "max_score": 1}
    if number.metric == definition.headline and definition.measure:
        metric["evaluation_description"] = definition.measure
    score: dict[str, Any] = {
        "score": number.value,
        "details": {"n": str(number.n), "n_failed": str(number.n_failed)},
        "uncertainty": {"num_samples": number.n},
    }
    if number.ci_low is not None and number.ci_high is not None:
        interval = {"lower": number.ci_low, "upper": number.ci_high, "confidence_level": _CONFIDENCE}
        score["uncertainty"]["confidence_interval"] = interval
    return {
        "evaluation_result_id": "/".join(identity(number)),
        "evaluation_name": " ".join(filter(None, names)),
        "source_data": _source(definition),
        "metric_config": metric,
        "score_details": score,
    }


def _source(definition: BenchmarkDefinition) -> dict[str, Any]:
    """Return where the questions come from: of a table of own questions, only its title."""
    repository = hub_id(definition)
    kind = {"source_type": "hf_dataset", "hf_repo": repository} if repository else {"source_type": "other"}
    return {"dataset_name": definition.title, **kind}


def _sample(record: _Record, row: ExportRow, name: str) -> dict[str, Any]:
    """Return the line of a request with a score; several steps are turns of a conversation."""
    prediction, outputs = row.prediction, list(row.prediction.get("steps") or ())
    final = prediction["output"] or ""
    turns = list(_turns(row, outputs))
    question = "\n".join(text for role, text in turns if role != "assistant")
    is_single = len(row.steps) <= 1
    reasoning = prediction.get("reasoning")
    messages = [
        {"turn_idx": number, "role": role, "content": text}
        for number, (role, text) in enumerate([*turns, ("assistant", final)])
    ]
    answer = (row.scores or {}).get("answer")
    source = "output.raw" if is_single else f"messages[{len(messages) - 1}].content"
    metadata = {
        **row.named("task", "setting", "variant", "category", "subset", "prompt_set"),
        "score_name": name,
        **{f"score_{key}": str(value) for key, value in sorted(row.values.items())},
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": record.evaluation_id,
        "model_id": record.model_id,
        "evaluation_name": f"{record.entry.benchmark} {row.planned.task} {row.planned.setting}".strip(),
        "sample_id": row.item_id,
        "sample_hash": hashlib.sha256(without_surrogates(question + "".join(row.expected)).encode()).hexdigest(),
        "interaction_type": "single_turn" if is_single else "multi_turn",
        "input": {"raw": question, "reference": list(row.expected), "choices": list(row.scored_texts) or None},
        "output": {"raw": [final], "reasoning_trace": [reasoning] if reasoning else None} if is_single else None,
        "messages": None if is_single else messages,
        "answer_attribution": [] if answer is None else [_attribution(row, answer, source, len(messages) - 1)],
        "evaluation": {"score": row.values[name], "is_correct": row.values[name] >= 1, "num_turns": len(messages)},
        **_usage(row),
        "error": prediction["error_type"] or None,
        "metadata": {key: value for key, value in metadata.items() if value},
    }


def _turns(row: ExportRow, outputs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield role and text of each turn before the last answer."""
    for number, step in enumerate(row.steps):
        for role, parts in step:
            yield role, text_of(parts)
        if number < len(row.steps) - 1 and number < len(outputs):
            yield "assistant", outputs[number]


def _attribution(row: ExportRow, answer: str, source: str, turn: int) -> dict[str, Any]:
    return {
        "turn_idx": turn if source != "output.raw" else 0,
        "source": source,
        "extracted_value": answer,
        "extraction_method": (row.scores or {}).get("rule") or _UNKNOWN,
        "is_terminal": True,
    }


def _usage(row: ExportRow) -> dict[str, Any]:
    """Return tokens and seconds, where they were counted."""
    read, written, cached = (row.prediction.get(name) for name in ("input_tokens", "output_tokens", "cached_tokens"))
    usage: dict[str, Any] = {}
    if read is not None and written is not None:
        tokens = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        usage["token_usage"] = {**tokens, "input_tokens_cache_read": cached}
    if row.prediction.get("latency_s") is not None:
        usage["performance"] = {"latency_ms": 1000 * row.prediction["latency_s"]}
    return usage


def _json(value: Any, indent: int | None = None) -> bytes:
    """Return ASCII: readers of JSON lines split at U+2028 too. Unpaired surrogates are replaced."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not text.isascii():
        value = json.loads(without_surrogates(text))
    return json.dumps(value, allow_nan=False, indent=indent).encode()

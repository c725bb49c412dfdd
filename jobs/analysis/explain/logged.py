"""A log of another harness as one side: its own verdicts are how it was scored, our reader reads the same replies."""

from collections.abc import Sequence
from typing import Any, Final

from jobs.analysis.explain.requests import Key, StoredRequest
from jobs.analysis.explain.rows import Side, keys_of, scored_rows
from jobs.analysis.explain.sides import LogSide
from models.errors import suggest
from pipelines.benchmarks.records import RIGHT
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.logged_answers.matching import match_logs, words
from pipelines.logged_answers.readers import tool_files
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_spec import RunSpec
from pipelines.score.rows import ScoringContext, row_of
from pipelines.storage.store import Store

_NOT_STORED: Final = "a log holds neither weights, media nor settings: it is taken as the other side's model"


def read_log(log: LogSide, spec: RunSpec, *, label: str, tool: str | None = None) -> Side:
    """Read the answers of a log to the only benchmark of a spec; UsageError where none fits."""
    logs = tool_files(log.path, tool)
    if not logs:
        raise UsageError(f"{log.path}: neither the --out of a run nor a log of a harness; --from names the harness")
    rejections, groups = match_logs(spec, [record for reader, file in logs for record in reader.read(file)])
    (name,) = spec.benchmarks
    models = sorted(model for _, model in groups)
    if not models:
        first = f"; the first: {rejections[0].reason}" if rejections else ""
        raise UsageError(f"{log.path}: no answer fits a question of {name}{first}")
    if log.model not in (models if log.model else [""]):
        raise UsageError(f"{log.path}: no model {log.model!r}{suggest(log.model, models)}; there are {models}")
    if not log.model and len(models) > 1:
        raise UsageError(f"{log.path}: answers of {', '.join(models)}; name one as LOG:MODEL")
    model = log.model or models[0]
    notes = [f"{label}: {_NOT_STORED}"]
    if rejections:
        notes.append(f"{label}: {len(rejections):,} answers of the log are left out; the first: {rejections[0].reason}")
    return _side(spec, model, [row for _, row in groups[name, model]], f"{label}, {model}", notes)


def _side(spec: RunSpec, model: str, logged: Sequence[dict[str, Any]], label: str, notes: Sequence[str]) -> Side:
    (name,) = spec.benchmarks
    dataset = Dataset.open(Store(spec.data), name)
    prompts = PromptPlan(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        task_settings=(),
        seed=spec.seed,
        table=dataset.manifest.table,
    )
    context = ScoringContext(dataset=dataset, prompts=prompts)
    by_key: dict[Key, dict[str, Any]] = {}
    for row in logged:  # of several answers to a request the first counts, as where a log is scored
        by_key.setdefault((row["task"], row["setting"], row["sample_id"], row["variant"]), row)
    rows = {key: row_of(_prediction(row), context.samples[row["sample_id"]], context) for key, row in by_key.items()}
    frame = scored_rows(rows, prompts.benchmark)
    column = next((name for name in RIGHT if name in frame), None)
    for index, key in enumerate(keys_of(frame)):
        verdict = by_key[key]["their_correct"]
        if verdict is not None and column is not None:
            frame.loc[index, column] = verdict
            frame.loc[index, "status"] = "ok"  # a failed request that the harness counts
    return Side(
        label=label,
        model=model,
        definition=prompts.benchmark,
        samples=context.samples,
        frame=frame,
        rows=rows,
        requests={key: StoredRequest(text=words(row["prompt"])) for key, row in by_key.items()},
        notes=tuple(notes),
    )


def _prediction(row: dict[str, Any]) -> dict[str, Any]:
    """Return a logged answer as a stored prediction."""
    return {
        **row,
        "request_id": "/".join(row[name] for name in ("task", "setting", "sample_id", "variant")),
        "status": "error" if row["output"] is None else "ok",
        "prompt_version": "",
        "finish_reason": "",
        "steps": (),
        "given": {},
    }

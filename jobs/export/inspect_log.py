"""Logs for Inspect, written by Inspect's own writer: one `.eval` file per model and task of a benchmark.

Pictures are embedded as data URIs, which the writer stores once a sample. Of a clip the frames that the model got are
embedded as one picture, because Inspect's viewer plays no files; the clip itself is in `media/`, written once.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobs.export.files import copy_media
from models.guards.regular_files import read_regular
from pipelines.benchmarks import benchmark
from pipelines.errors import UsageError
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.metrics_file import Measured, metric_row
from pipelines.samples.media import MediaReader, media_type
from pipelines.samples.prompts import ShownMedia, ShownPart
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, tasks_of, text_of

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalMetric, EvalSample, EvalScore, HeadlineMetric
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, Content, ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

_NOT_INSTALLED: Final = "Inspect's logs need the package inspect-ai, which is not installed: pip install "
_STOP_REASONS: Final = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
_SHARED_PICTURES: Final = 256  # whose data URIs requests about them share in memory
_BUFFERED_SAMPLES: Final = 200  # that Inspect's recorder holds; it searches all of them at each new one


def export_inspect(
    run: ExportedRun, reader: RowReader, media: MediaReader, folder: Path, *, with_media: bool
) -> list[Path]:
    """Write the logs and return their paths; without media a text names each. UsageError where Inspect is missing."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise UsageError(f"{_NOT_INSTALLED}'vlmsweep[inspect]'") from error
    paths = []
    for entry in run.entries:
        pictures = _Pictures(media, reader.dataset(entry)) if with_media else None
        for task in tasks_of(entry):
            rows = list(reader.rows(entry, task))
            if not rows:
                continue
            for row in rows if with_media else ():
                copy_media(row, "video", media, reader.dataset(entry), folder)
            log = _log(run, entry, task, rows)
            paths.append(folder / _file_name(log))
            asyncio.run(_write(log, (_sample(row, pictures) for row in rows), paths[-1]))
    return paths


async def _write(log: EvalLog, samples: Iterable[EvalSample], path: Path) -> None:
    """Write a log in parts. `write_eval_log` holds all samples, and takes time quadratic in their number."""
    from inspect_ai.log import condense_sample
    from inspect_ai.log._recorders.eval import EvalRecorder

    recorder = EvalRecorder(str(path.parent))
    await recorder.log_init(log.eval, str(path), clean=True)
    await recorder.log_start(log.eval, log.plan)
    (file,) = recorder.data.values()
    for number, sample in enumerate(samples, 1):
        await recorder.log_sample(log.eval, condense_sample(sample))
        if number % _BUFFERED_SAMPLES == 0:
            await file.write_buffered_samples()
    await recorder.log_finish(log.eval, log.status, log.stats, log.results, None, header_only=True)


def _file_name(log: EvalLog) -> str:
    """Return a name as Inspect's own, from which it reads task and id without opening the file."""
    created = log.eval.created.replace(":", "-")
    model, task = (re.sub(r"[^A-Za-z0-9.-]+", "-", name) for name in (log.eval.model, log.eval.task))
    return f"{created}_{task}_{model}_{log.eval.task_id}.eval"


def _log(run: ExportedRun, entry: ManifestEntry, task: str, rows: Sequence[ExportRow]) -> EvalLog:
    """Return a log without its samples."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalPlan, EvalResults, EvalSpec, EvalStats
    from inspect_ai.model import GenerateConfig

    target = entry.target
    metrics = [row for row in run.metrics_of(entry) if row.task == task]
    scores = list(_metric_groups(metrics, entry.benchmark))
    headline = _headline(scores, entry.benchmark)
    spec = EvalSpec(
        eval_id=stable_id({"eval": target.to_dict(), "task": task})[:22],
        run_id=stable_id({"run": run.run.created})[:22],
        task_id=stable_id({"entry": [entry.benchmark, entry.model], "task": task})[:22],
        created=run.run.created,
        task=f"{entry.benchmark}-{task}",
        task_version=target.prompts.benchmark.version,
        dataset=EvalDataset(name=entry.benchmark, samples=len(rows), sample_ids=[row.item_id for row in rows]),
        task_args={
            "settings": list(
                dict.fromkeys(group.setting for group in target.prompts.task_settings if group.task == task)
            )
        },
        model=entry.model,
        model_args=dict(target.fingerprint),
        model_generate_config=GenerateConfig(
            max_tokens=target.generation.get("max_new_tokens"), temperature=target.generation.get("temperature")
        ),
        config=EvalConfig(),
        headline_metric=headline,
        packages=dict(run.run.versions),
        metadata={"dataset_fingerprint": target.prompts.dataset_fingerprint, "seed": target.prompts.seed},
    )
    results = EvalResults(
        total_samples=len(rows),
        completed_samples=sum(row.prediction["status"] != "error" for row in rows),
        scores=scores,
        headline=headline,
        metadata={"metrics": [metric_row(row) for row in metrics]},
    )
    usage = [_usage(row.prediction) for row in rows if row.prediction["status"] == "ok"]
    stats = EvalStats(model_usage={entry.model: sum(usage[1:], usage[0])} if usage else {})
    return EvalLog(status="success", eval=spec, plan=EvalPlan(), results=results, stats=stats)


def _headline(scores: Sequence[EvalScore], scorer: str) -> HeadlineMetric | None:
    """Return the benchmark's headline metric of the first setting that has it."""
    from inspect_ai.log import HeadlineMetric

    label = benchmark(scorer).headline
    setting = next((score.name for score in scores if label in score.metrics), None)
    return HeadlineMetric(scorer=scorer, score=setting, metric=label) if setting else None


def _metric_groups(metrics: Sequence[Measured], scorer: str) -> Iterator[EvalScore]:
    """Yield the metrics of each setting over all its samples, the headline first; those without a value are absent."""
    from inspect_ai.log import EvalMetric, EvalScore

    headline = benchmark(scorer).headline
    by_setting: dict[str, dict[str, EvalMetric]] = {}
    for row in sorted(metrics, key=lambda row: row.label != headline):
        if row.value is not None and row.is_overall:
            details = {name: getattr(row, name) for name in ("unit", "n", "n_failed", "ci_low", "ci_high")}
            metric = EvalMetric(name=row.label, value=row.value, metadata=details)
            by_setting.setdefault(row.setting, {})[row.label] = metric
    for setting, values in by_setting.items():
        yield EvalScore(name=setting or "all", scorer=scorer, metrics=values)


def _sample(row: ExportRow, pictures: _Pictures | None) -> EvalSample:
    from inspect_ai._util.error import EvalError
    from inspect_ai.log import EvalSample

    prediction = row.prediction
    messages = _messages(row, pictures)
    answer = _answer(prediction) if prediction["status"] == "ok" else None
    error = None
    if prediction["status"] == "error":
        text = ": ".join(filter(None, (prediction["error_type"], prediction["error"]))) or "no answer"
        error = EvalError(message=text, traceback=text, traceback_ansi=text)
    output = _output(prediction, answer)
    usage = {prediction["model"]: output.usage} if output.usage else {}
    return EvalSample(
        id=row.item_id,
        epoch=1,
        input=messages or "",
        target=list(row.expected) if len(row.expected) > 1 else "".join(row.expected),
        messages=[*messages, *([answer] if answer else [])],
        output=output,
        scores=_scores(row) or None,
        metadata=_metadata(row),
        error=error,
        model_usage=usage,
        total_time=prediction["latency_s"],
        uuid=prediction["request_id"],
    )


def _metadata(row: ExportRow) -> dict[str, Any]:
    prediction, scores = row.prediction, row.scores or {}
    names = ("status", "request_id", "prompt_version", "prompt_sha256", "captioner", "finish_reason", "frames_used")
    values: dict[str, Any] = {
        **row.named("sample_id", "task", "setting", "variant", "category", "subset"),
        **{name: prediction.get(name) for name in names},
        "rule": scores.get("rule"),
        "flags": scores.get("flags"),
        "verdict_state": scores.get("verdict_state"),
        "media": [
            {"kind": medium.kind, "frames": medium.frames, "sha256": medium.sha256, "blank": medium.blank}
            for medium in row.media
        ],
    }
    if prediction["status"] == "excluded":
        values["excluded"] = row.planned.excluded or prediction["error"]
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _scores(row: ExportRow) -> dict[str, Score]:
    """Return the scores that a row has; where it has none they are absent, which is not zero."""
    from inspect_ai.scorer import Score

    answer = (row.scores or {}).get("answer")
    return {name: Score(value=value, answer=answer) for name, value in sorted(row.values.items())}


def _messages(row: ExportRow, pictures: _Pictures | None) -> list[ChatMessage]:
    """Return all that was sent, step by step, with what the model said after each step but the last."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds: Mapping[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    messages: list[ChatMessage] = []
    outputs = list(row.prediction.get("steps") or ())
    for number, step in enumerate(row.steps):
        messages += [kinds[role](content=_content(parts, row, pictures)) for role, parts in step]
        if number < len(row.steps) - 1 and number < len(outputs):
            messages.append(ChatMessageAssistant(content=outputs[number]))
    messages += [ChatMessageUser(content=text) for text in row.scored_texts]
    return messages


def _content(parts: Sequence[ShownPart], row: ExportRow, pictures: _Pictures | None) -> str | list[Content]:
    from inspect_ai.model import ContentImage, ContentText

    content: list[Content] = []
    for part in parts:
        if part.media is None:
            content.append(ContentText(text=part.text))
        elif part.media.ref is None or pictures is None:
            content.append(ContentText(text=text_of([part])))
        else:
            content.append(ContentImage(image=pictures.data_uri(part.media, row.prediction.get("frames_used"))))
    if len(content) == 1 and not any(part.media for part in parts):
        return parts[0].text
    return content


def _answer(prediction: Mapping[str, Any]) -> ChatMessageAssistant:
    from inspect_ai.model import ChatMessageAssistant, ContentReasoning, ContentText

    text, reasoning = prediction["output"] or "", prediction.get("reasoning")
    parts: list[Content] = [ContentReasoning(reasoning=reasoning), ContentText(text=text)] if reasoning else []
    return ChatMessageAssistant(content=parts or text, model=prediction["model"], source="generate")


def _output(prediction: Mapping[str, Any], answer: ChatMessageAssistant | None) -> ModelOutput:
    from inspect_ai.model import ChatCompletionChoice, ModelOutput

    if answer is None:
        return ModelOutput(model=prediction["model"], error=prediction["error"] or None)
    stop: Any = _STOP_REASONS.get(prediction["finish_reason"] or "", "unknown")
    return ModelOutput(
        model=prediction["model"],
        choices=[ChatCompletionChoice(message=answer, stop_reason=stop)],
        usage=_usage(prediction),
        time=prediction["latency_s"],
    )


def _usage(prediction: Mapping[str, Any]) -> ModelUsage:
    from inspect_ai.model import ModelUsage

    read, written, cached = (prediction.get(name) or 0 for name in ("input_tokens", "output_tokens", "cached_tokens"))
    return ModelUsage(  # Inspect counts cached tokens separately
        input_tokens=read - cached, output_tokens=written, total_tokens=read + written, input_tokens_cache_read=cached
    )


class _Pictures:
    """Data URIs of the media of one data set."""

    def __init__(self, media: MediaReader, dataset: Dataset) -> None:
        self._media, self._dataset = media, dataset
        self._cached = lru_cache(maxsize=_SHARED_PICTURES)(self._read)

    def data_uri(self, medium: ShownMedia, frames_used: int | None) -> str:
        """Return a picture, or the frames of a clip that the model got as one picture."""
        return self._cached(medium, frames_used if medium.kind == "video" else None)

    def _read(self, medium: ShownMedia, frames_used: int | None) -> str:
        assert medium.ref is not None
        if medium.kind == "video":
            content = self._media.contact_sheet(self._dataset, medium.ref, frames_used or medium.frames)
            return _data_uri("image/jpeg", content)
        file = self._media.file(self._dataset, medium.ref)
        return _data_uri(media_type(file, medium.ref), read_regular(file))


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"

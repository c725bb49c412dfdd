"""Prompts as sent to a model: rebuilt from the data, and compared with the hash in the prediction."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from models.messages import Media, Part, Step, StepOutput, Text
from pipelines.benchmarks.records import MediaRef, Row, Sample, is_person, split_variant
from pipelines.ingest.dataset import Dataset
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.selection import TaskSetting
from pipelines.plan.stress.conditions import Condition
from pipelines.samples.outputs import Output

SHARDS: Final = 8  # shards of data sets in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMedia:
    """A picture or clip as it is sent with a prompt."""

    kind: str
    frames: int
    sha256: str = ""  # '' where it is no stored file
    blank: str = ""  # what a generated one shows
    change: str = ""  # of its pixels or frames, as `models.messages.Media.change`
    ref: MediaRef | None = None

    @property
    def changed(self) -> str:
        """What a stress test changed of it, in words; '' for nothing."""
        condition = Condition.from_change(self.change.rpartition("~")[2])
        return condition.text if condition else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A part of a turn: a text, what an earlier step answered, or a medium."""

    text: str = ""
    step: int | None = None
    media: ShownMedia | None = None


ShownSteps: TypeAlias = tuple[tuple[tuple[str, tuple[ShownPart, ...]], ...], ...]  # steps, turns: role and parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPrompt:
    """All steps of one request, or why they are not shown."""

    steps: ShownSteps = ()
    note: str = ""


def prompt_of(output: Output, prediction: Mapping[str, Any], sample: Sample | None) -> ShownPrompt:
    """Return what was sent for a prediction."""
    benchmark, model = prediction["benchmark"], prediction["model"]
    if is_person(model):
        return ShownPrompt(note="a person's answer: nothing was sent")
    entry = output.entry(benchmark, model)
    if entry is None or sample is None:
        missing = f"run.json does not name {model}" if sample else "the sample's data are gone"
        return ShownPrompt(note=f"the prompt cannot be shown: {missing}")
    steps, is_same = _steps(output, entry, prediction, sample)
    if not steps:
        return ShownPrompt(note="the prompt cannot be shown: the benchmark no longer asks this")
    note = "" if is_same else "not what was sent: data or wording have changed since this answer"
    if entry.external:
        note = "the answer was imported; this is what a run would send"
    return ShownPrompt(steps=shown_steps(steps, tuple(prediction.get("steps") or ()), sample), note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What an item asks, for a line of a list and for the head of its page."""

    question: str
    expected: tuple[str, ...]  # the right answers; () where the benchmark names none
    options: Mapping[str, str]  # texts of the options by letter, of a row that has them
    media: tuple[ShownMedia, ...]

    @property
    def line(self) -> str:
        """What differs between samples: the options that a question holds, or else its last paragraph."""
        if self.has_options_in_question:
            return " | ".join(f"{name} {text}" for name, text in self.options.items())
        return last_paragraph(self.question)

    @property
    def has_options_in_question(self) -> bool:
        """Whether the question names all options."""
        return bool(self.options) and all(text in self.question for text in self.options.values())


def last_paragraph(text: str) -> str:
    """Return the end of a text: prompts begin with what all samples share."""
    return text.strip().rpartition("\n\n")[2]


def brief_of(output: Output, row: Mapping[str, Any], sample: Sample | None) -> Brief | None:
    """Return what a row of the index asks; None where its data are gone or its benchmark no longer asks this."""
    prediction = {"request_id": "", "prompt_sha256": "", **row, "status": "ok"}
    prompt = prompt_of(output, prediction, sample)
    entry = output.entry(row["benchmark"], row["model"])
    if sample is None or entry is None or not prompt.steps:
        return None
    definition = entry.prompts.benchmark
    answered = answered_row(prediction, sample, entry.prompts.seed)
    return Brief(
        question=question_of(prompt.steps, sample),
        expected=tuple(definition.expected(answered)) if definition.expected else (),
        options=definition.options(answered) if definition.options else {},
        media=media_of(prompt.steps),
    )


def media_of(steps: ShownSteps) -> tuple[ShownMedia, ...]:
    """Return the pictures and clips of a prompt in order, each once."""
    parts = (part for step in steps for _, parts in step for part in parts)
    return tuple(dict.fromkeys(part.media for part in parts if part.media))


def unshown(steps: ShownSteps, sample: Sample | None) -> str:
    """Say that a sample's picture or clip was not sent; '' where it was, or there is none."""
    kinds = [ref.kind for ref in sample.media] if sample and steps else []
    return f"No {'clip' if 'video' in kinds else 'picture'} was shown." if kinds and not media_of(steps) else ""


def question_of(steps: ShownSteps, sample: Sample) -> str:
    """Return the longest of a sample's own texts that a prompt holds; the prompt itself where it holds none."""
    texts = [part.text for step in steps for role, parts in step if role == "user" for part in parts]
    prompt = "\n\n".join(filter(None, (text.strip() for text in texts)))
    fields = [value for value in sample.data.values() if isinstance(value, str) and " " in value and value in prompt]
    return max(fields, key=len, default=prompt)


def shown_steps(steps: Sequence[Step], outputs: Sequence[str], sample: Sample) -> ShownSteps:
    """Return steps with the outputs of earlier ones filled in, and with the sample's media."""
    refs = {ref.sha256: ref for ref in sample.media}
    return tuple(
        tuple((turn.role, tuple(_part(part, outputs, refs) for part in turn.parts)) for turn in step.turns)
        for step in steps
    )


def answered_row(prediction: Mapping[str, Any], sample: Sample, seed: int) -> Row:
    """Return a prediction as benchmarks read it."""
    return Row(
        request_id=prediction["request_id"],
        sample=sample,
        model=prediction["model"],
        task=prediction["task"],
        setting=prediction["setting"],
        variant=split_variant(prediction["variant"] or "")[0],
        status=prediction["status"],
        output=prediction["output"],
        finish_reason=prediction.get("finish_reason") or "",
        steps=tuple(prediction.get("steps") or ()),
        seed=seed,
    )


def _steps(
    output: Output, entry: ManifestEntry, prediction: Mapping[str, Any], sample: Sample
) -> tuple[tuple[Step, ...], bool]:
    """Return the steps, and whether their hash is that of the prediction; () if the benchmark no longer asks this."""
    steps: tuple[Step, ...] = ()
    for in_set in entry.by_prompt_set():
        captions = output.captions(in_set)
        group = TaskSetting(prediction["task"], prediction["setting"])
        for row in replace(in_set.prompts, task_settings=(group,)).rows(sample, captions):
            if row.variant != (prediction["variant"] or ""):
                continue
            if row.prompt_sha256 == prediction["prompt_sha256"]:
                return row.steps, True
            steps = steps or row.steps
    return steps, False


def _part(part: Part, outputs: Sequence[str], refs: Mapping[str, MediaRef]) -> ShownPart:
    if isinstance(part, Text):
        return ShownPart(text=part.text)
    if isinstance(part, StepOutput):
        text = outputs[part.step] if part.step < len(outputs) else ""
        return ShownPart(text=text.strip() if part.stripped else text, step=part.step)
    return ShownPart(media=_media(part, refs))


def _media(media: Media, refs: Mapping[str, MediaRef]) -> ShownMedia:
    if media.source.startswith("blank:"):
        _, colour, size, *_ = media.source.split(":")
        return ShownMedia(kind=media.kind, frames=media.frames, blank=f"#{colour}, {size} pixels")
    ref = refs.get(media.file)
    return ShownMedia(kind=media.kind, frames=media.frames, sha256=media.file, change=media.change, ref=ref)


class SampleReader:
    """Finds single samples of data sets; the last few shards stay in memory."""

    def __init__(self) -> None:
        self._shards: OrderedDict[tuple[str, str], dict[str, Sample]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, dataset: Dataset, sample_id: str, only: str = "") -> Sample | None:
        """Return a sample, of one shard alone if given by its hash; errors as `Dataset.read_shard`."""
        with self._lock:  # many frames of one clip are asked for at once
            shards = {
                (dataset.store.uri, shard.sha256): shard.path
                for shard in dataset.manifest.shards
                if only in ("", shard.sha256)
            }
            for key in sorted(shards, key=lambda key: key not in self._shards):  # those in memory first
                if sample := self._load(dataset, key, shards[key]).get(sample_id):
                    return sample
        return None

    def _load(self, dataset: Dataset, key: tuple[str, str], path: str) -> dict[str, Sample]:
        if key not in self._shards:
            self._shards[key] = {sample.sample_id: sample for sample in dataset.read_shard(path)}
        self._shards.move_to_end(key)
        while len(self._shards) > SHARDS:
            self._shards.popitem(last=False)
        return self._shards[key]

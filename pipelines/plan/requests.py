"""From samples to requests: the one place where ids are made, used alike by the planner and by the workers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from models.messages import Generation, Media, Request, Step, prompt_sha256
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.hashing import stable_id
from pipelines.plan.captions import caption_key
from pipelines.plan.selection import TaskSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request of the plan: what is sent, and the columns that describe it."""

    columns: dict[str, Any]
    request: Request
    excluded: str

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.request.request_id

    @property
    def group(self) -> str:
        """The media group: what is fetched, decoded and encoded once for all that share it; '' for text."""
        media = first_media(self.request)
        return media_group_key(media) if media else ""


def media_group_key(media: Media) -> str:
    """The media group of requests that start with this medium."""
    return f"{media.kind}:{media.source}:{media.frames}"


def first_media(request: Request) -> Media | None:
    """The medium that a request starts with."""
    for step in request.steps:
        for turn in step.turns:
            for part in turn.parts:
                if isinstance(part, Media):
                    return part
    return None


@dataclass(frozen=True, kw_only=True)
class RequestBuilder:
    """Makes requests of one benchmark for one model. Light and sent to every worker."""

    benchmark_name: str
    dataset_fingerprint: str
    model: str
    model_fingerprint: Mapping[str, Any]
    """All of the model's spec that changes answers (`models.fingerprint.answer_fingerprint`)."""
    generation: Mapping[str, Any]
    """The model's own generation settings, laid over the benchmark's."""
    cells: tuple[TaskSetting, ...]
    prompts: Mapping[str, str]
    """The user's own wording by prompt version."""
    instead: Mapping[str, str]
    """Prompt version -> another version of the benchmark, used in its place."""
    seed: int
    captioner: str = ""
    """Key of the captioner whose captions the prompts may hold; '' for none."""
    kind: Literal["answer", "caption"] = "answer"
    """A captioner is asked what the benchmark wants captioned, once a picture, and nothing else."""

    @cached_property
    def _benchmark(self) -> Benchmark:
        return benchmark(self.benchmark_name)

    @cached_property
    def _texts(self) -> PromptTexts:
        return PromptTexts(self._benchmark.prompt_texts, self.prompts, self.instead)

    def ask(self, sample: Sample, captions: Mapping[str, str] | None = None) -> Iterator[PlannedRequest]:
        """All requests of one sample, cell by cell, in the order of their variants.

        Args:
            sample: whose.
            captions: what the captioner said, by picture hash; read only when there is a captioner.
        """
        if self.kind == "caption":
            yield from self._captions(sample)
            return
        known = (captions or {}) if self.captioner else None
        for cell in self.cells:
            for prompt in self._benchmark.prompts(
                sample, cell.task, cell.setting, texts=self._texts, seed=self.seed, captions=known
            ):
                yield self._addressed(sample, cell, prompt)

    def _captions(self, sample: Sample) -> Iterator[PlannedRequest]:
        """The same picture has the same id whoever shows it, so that it is captioned once."""
        for setting in dict.fromkeys(cell.setting for cell in self.cells):
            for wanted in self._benchmark.caption(sample, setting, self._texts):
                step = self._with_generation(wanted)
                columns = self._columns(
                    sample, TaskSetting("caption", ""), caption_key(self.model, self.model_fingerprint)
                )
                columns["prompt_sha256"] = prompt_sha256([step])
                request_id = stable_id({"caption": columns["prompt_version"], "asked": self._asked([step], columns)})
                request = Request(request_id=request_id, steps=(step,))
                media = first_media(request)
                columns["variant"] = media.source if media else ""
                yield PlannedRequest(columns={"request_id": request_id, **columns}, request=request, excluded="")

    def _addressed(self, sample: Sample, cell: TaskSetting, prompt: Prompt) -> PlannedRequest:
        steps = tuple(self._with_generation(step) for step in prompt.steps)
        columns = self._columns(sample, cell, prompt.version)
        columns |= {"variant": prompt.variant, "prompt_sha256": prompt_sha256(steps)}
        request_id = stable_id({**columns, **self._asked(steps, columns)})
        return PlannedRequest(
            columns={"request_id": request_id, **columns},
            request=Request(request_id=request_id, steps=steps),
            excluded=prompt.excluded,
        )

    def _columns(self, sample: Sample, cell: TaskSetting, version: str) -> dict[str, Any]:
        return {
            "sample_id": sample.sample_id,
            "benchmark": self.benchmark_name,
            "task": cell.task,
            "setting": cell.setting,
            "variant": "",
            "model": self.model,
            "model_revision": str(self.model_fingerprint.get("revision") or ""),
            "dataset_fingerprint": self.dataset_fingerprint,
            "prompt_version": version,
            "prompt_sha256": "",
        }

    def _asked(self, steps: Sequence[Step], columns: Mapping[str, Any]) -> dict[str, Any]:
        """What makes an id beside the columns: the model's fingerprint and the settings of generation."""
        return {
            "model_fingerprint": dict(self.model_fingerprint),
            "generation": [[getattr(step.generation, name) for name in Generation.__slots__] for step in steps],
            "prompt_sha256": columns["prompt_sha256"],
        }

    def _with_generation(self, step: Step) -> Step:
        return replace(step, generation=replace(step.generation, **self.generation)) if self.generation else step

    def to_json(self) -> str:
        """For workers and for `run.json`."""
        return json.dumps(
            {
                "benchmark_name": self.benchmark_name,
                "dataset_fingerprint": self.dataset_fingerprint,
                "model": self.model,
                "model_fingerprint": dict(self.model_fingerprint),
                "generation": dict(self.generation),
                "cells": [[cell.task, cell.setting] for cell in self.cells],
                "prompts": dict(self.prompts),
                "instead": dict(self.instead),
                "seed": self.seed,
                "captioner": self.captioner,
                "kind": self.kind,
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> RequestBuilder:
        """The inverse of `to_json`."""
        raw = json.loads(text)
        return cls(**{**raw, "cells": tuple(TaskSetting(*cell) for cell in raw["cells"])})

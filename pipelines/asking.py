"""From samples to requests: the one place where ids are made, used alike by the planner and by the workers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from models.messages import Generation, Media, Request, Step, prompt_sha256
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Benchmark, Prompt, PromptTexts, Sample
from pipelines.records import stable_id
from pipelines.selection import Cell

__all__ = ["Asked", "Asker", "first_media"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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
        return f"{media.kind}:{media.source}:{media.frames}" if media else ""


def first_media(request: Request) -> Media | None:
    """The medium that a request starts with."""
    for step in request.steps:
        for turn in step.turns:
            for part in turn.parts:
                if isinstance(part, Media):
                    return part
    return None


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Makes requests of one benchmark for one model. Light and sent to every worker."""

    benchmark_name: str
    dataset_fingerprint: str
    model: str
    model_fingerprint: Mapping[str, Any]
    """All of the model's spec that changes answers (`ModelSpec.answer_fingerprint`)."""
    generation: Mapping[str, Any]
    """The model's own generation settings, laid over the benchmark's."""
    cells: tuple[Cell, ...]
    prompts: Mapping[str, str]
    """The user's own wording by prompt version."""
    instead: Mapping[str, str]
    """Prompt version -> another version of the benchmark, used in its place."""
    seed: int

    @cached_property
    def _benchmark(self) -> Benchmark:
        return benchmark(self.benchmark_name)

    @cached_property
    def _texts(self) -> PromptTexts:
        return PromptTexts(self._benchmark.prompt_texts, self.prompts, self.instead)

    def ask(self, sample: Sample) -> Iterator[Asked]:
        """All requests of one sample, cell by cell, in the order of their variants."""
        for cell in self.cells:
            for prompt in self._benchmark.prompts(sample, cell.task, cell.setting, texts=self._texts, seed=self.seed):
                yield self._addressed(sample, cell, prompt)

    def _addressed(self, sample: Sample, cell: Cell, prompt: Prompt) -> Asked:
        steps = tuple(self._with_generation(step) for step in prompt.steps)
        sha256 = prompt_sha256(steps)
        revision = str(self.model_fingerprint.get("revision") or "")
        columns = {
            "sample_id": sample.sample_id,
            "benchmark": self.benchmark_name,
            "task": cell.task,
            "setting": cell.setting,
            "variant": prompt.variant,
            "model": self.model,
            "model_revision": revision,
            "dataset_fingerprint": self.dataset_fingerprint,
            "prompt_version": prompt.version,
            "prompt_sha256": sha256,
        }
        asked = {
            **columns,
            "model_fingerprint": dict(self.model_fingerprint),
            "generation": [[getattr(s.generation, name) for name in Generation.__slots__] for s in steps],
        }
        request_id = stable_id(asked)
        return Asked(
            columns={"request_id": request_id, **columns},
            request=Request(request_id=request_id, steps=steps),
            excluded=prompt.excluded,
        )

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
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Asker:
        """The inverse of `to_json`."""
        raw = json.loads(text)
        return cls(**{**raw, "cells": tuple(Cell(*cell) for cell in raw["cells"])})

"""From samples to prompts, and from prompts to one model's requests: the one place that makes request ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii as quote
from operator import attrgetter
from typing import Any, Literal

from models.fingerprint import answer_fingerprint
from models.message_codec import dump_steps
from models.messages import Generation, Request, prompt_sha256
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.hashing import ID_DIGITS, stable_id, stable_json
from pipelines.ingest.dataset import Dataset, Datasets, media_path
from pipelines.plan.captions import caption_key, captioner_name
from pipelines.plan.plan_columns import RequestKey
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting, cells_of, holds_captions
from pipelines.plan.stored_plan import PlanRow, iter_media, media_group_key
from pipelines.plan.token_estimate import decoded_bytes, estimate_tokens


@dataclass(frozen=True, kw_only=True)
class RequestBuilder:
    """Builds the prompts of one benchmark and addresses them to one model. Light, and sent to every worker."""

    benchmark_name: str
    dataset_fingerprint: str
    model: str
    model_fingerprint: Mapping[str, Any]
    """All of the model's spec that changes answers (`models.fingerprint.answer_fingerprint`)."""
    generation: Mapping[str, Any]
    """The model's own generation settings, which override the benchmark's."""
    task_settings: tuple[TaskSetting, ...]
    prompts: Mapping[str, str]
    """The user's own wording by prompt version."""
    prompt_versions: Mapping[str, str]
    """Prompt version -> another version of the benchmark, used in its place."""
    seed: int
    captioner: str = ""
    """Key of the captioner whose captions the prompts may hold; '' for none."""
    kind: Literal["answer", "caption"] = "answer"
    """A captioner gets only the pictures that the benchmark captions, each once."""

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without cached properties

    @cached_property
    def benchmark(self) -> BenchmarkDefinition:
        """The benchmark."""
        return benchmark(self.benchmark_name)

    @cached_property
    def texts(self) -> PromptTexts:
        """The wording of its prompts; ValueError if the user's own lacks a placeholder or has an unknown one."""
        return PromptTexts(self.benchmark.prompt_texts, self.prompts, self.prompt_versions)

    def plan_fields(self) -> dict[str, Any]:
        """Return what decides the prompts: all fields but the model's."""
        return {name: value for name, value in json.loads(self.to_json()).items() if name not in _MODEL_FIELDS}

    def plan_rows(self, sample: Sample, captions: Mapping[str, str] | None = None) -> Iterator[PlanRow]:
        """Build all prompts of one sample, by task and setting, in the order of their variants."""
        if self.kind == "caption":
            captions_of = self.benchmark.captions or (lambda _sample, _setting: ())
            for setting in dict.fromkeys(cell.setting for cell in self.task_settings):
                for step in captions_of(sample, setting):
                    source = next((media.source for media in iter_media([step])), "")
                    yield _plan_row(sample, TaskSetting("caption", ""), Prompt(variant=source, steps=(step,)))
            return
        known_captions = (captions or {}) if self.captioner else None
        for cell in self.task_settings:
            query = PromptInput(sample, cell.task, cell.setting, self.texts, self.seed, known_captions)
            captioner = self.captioner_name if holds_captions(self.benchmark, cell) else ""
            for prompt in self.benchmark.prompter.prompts(query):
                yield _plan_row(sample, cell, prompt, captioner)

    def columns(self, row: PlanRow) -> dict[str, Any]:
        """Return the columns of a prediction that are known before it is made, `request_id` among them."""
        columns = {
            "sample_id": row.sample_id,
            "benchmark": self.benchmark_name,
            "task": row.task,
            "setting": row.setting,
            "variant": row.variant,
            "model": self.model,
            "model_revision": str(self.model_fingerprint.get("revision") or ""),
            "dataset_fingerprint": self.dataset_fingerprint,
            "prompt_version": row.prompt_version if self.kind == "answer" else self._caption_key,
            "prompt_sha256": row.prompt_sha256,
            "captioner": row.captioner,
        }
        return {"request_id": self.request_id(row), **columns}

    def request_id(self, row: PlanRow | RequestKey) -> str:
        """Return the id of the model's request for a prompt: a hash of its columns, the model and the generation.

        It is computed in every stage, so that JSON with sorted keys is put together from parts that are quoted once.
        """
        if self.kind == "caption":  # the same picture has the same id in all samples, so that it is captioned once
            inputs = {
                "model_fingerprint": dict(self.model_fingerprint),
                "generation": self.generation_settings(row),
                "prompt_sha256": row.prompt_sha256,
            }
            return stable_id({"caption": self._caption_key, "asked": inputs})
        hasher = self._hashers.get(row.generation)
        if hasher is None:
            before, between = self._id_parts
            generation = stable_json(self.generation_settings(row))
            hasher = self._hashers[row.generation] = sha256(f'{before}"generation":{generation},{between}'.encode())
        digest = hasher.copy()
        digest.update(
            f'"prompt_sha256":{quote(row.prompt_sha256)},"prompt_version":{quote(row.prompt_version)},'
            f'"sample_id":{quote(row.sample_id)},"setting":{quote(row.setting)},"task":{quote(row.task)},'
            f'"variant":{quote(row.variant)}}}'.encode()
        )
        return digest.hexdigest()[:ID_DIGITS]

    @cached_property
    def _hashers(self) -> dict[str, Any]:
        """Hash of what all ids with the same generation settings begin with, by these."""
        return {}

    @cached_property
    def _id_parts(self) -> tuple[str, str]:
        """The JSON of an id's input before its generation settings, and after them up to its prompt."""
        before = {"benchmark": self.benchmark_name, "dataset_fingerprint": self.dataset_fingerprint}
        model = {
            "model": self.model,
            "model_fingerprint": dict(self.model_fingerprint),
            "model_revision": str(self.model_fingerprint.get("revision") or ""),
        }
        return f"{stable_json(before)[:-1]},", f"{stable_json(model)[1:-1]},"

    def request(self, row: PlanRow, request_id: str) -> Request:
        """Return what is sent to the model."""
        steps = row.steps
        if self.generation:
            steps = tuple(replace(step, generation=replace(step.generation, **self.generation)) for step in steps)
        return Request(request_id=request_id, steps=steps)

    def generation_settings(self, row: PlanRow | RequestKey) -> list[list[Any]]:
        """Return the values of `Generation`'s fields for each step, the model's own before the benchmark's."""
        return [
            [self.generation.get(name, value) for name, value in zip(Generation.__slots__, step, strict=True)]
            for step in _load(row.generation)
        ]

    @property
    def has_captions(self) -> bool:
        """Whether prompts hold captions."""
        return any(holds_captions(self.benchmark, cell) for cell in self.task_settings)

    @property
    def captioner_name(self) -> str:
        """The captioner's name; '' for none."""
        return captioner_name(self.captioner)

    @cached_property
    def _caption_key(self) -> str:
        return caption_key(self.model, self.model_fingerprint)

    def to_json(self) -> str:
        """Return the form of `run.json`."""
        return json.dumps(
            {
                "benchmark_name": self.benchmark_name,
                "dataset_fingerprint": self.dataset_fingerprint,
                "model": self.model,
                "model_fingerprint": dict(self.model_fingerprint),
                "generation": dict(self.generation),
                "cells": [[cell.task, cell.setting] for cell in self.task_settings],
                "prompts": dict(self.prompts),
                "instead": dict(self.prompt_versions),
                "seed": self.seed,
                "captioner": self.captioner,
                "kind": self.kind,
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> RequestBuilder:
        """Read the form of `run.json`."""
        raw = json.loads(text)
        cells, versions = raw.pop("cells"), raw.pop("instead")
        return cls(**raw, task_settings=tuple(TaskSetting(*cell) for cell in cells), prompt_versions=versions)


_generation_values = attrgetter(*Generation.__slots__)
_MODEL_FIELDS = ("model", "model_fingerprint", "generation")


@lru_cache(maxsize=1024)
def _load(generation: str) -> list[list[Any]]:
    settings: list[list[Any]] = json.loads(generation)
    return settings


def _plan_row(sample: Sample, cell: TaskSetting, prompt: Prompt, captioner: str = "") -> PlanRow:
    refs = {ref.sha256: ref for ref in sample.media}
    media = list(iter_media(prompt.steps))
    tokens = estimate_tokens(prompt.steps, refs)
    return PlanRow(
        sample_id=sample.sample_id,
        task=cell.task,
        setting=cell.setting,
        variant=prompt.variant,
        media_group=media_group_key(media[0]) if media else "",
        prompt_version=prompt.version,
        prompt_sha256=prompt_sha256(prompt.steps),
        captioner="" if prompt.excluded else captioner,
        excluded=prompt.excluded,
        generation=f"[{', '.join([_generation_json(*_generation_values(step.generation)) for step in prompt.steps])}]",
        prompt_tokens=tokens.prompt_tokens,
        media_tokens=tokens.media_tokens,
        first_media_tokens=tokens.first_media_tokens,
        decoded_bytes=decoded_bytes(prompt.steps, refs),
        media_files={part.source: media_path(refs[part.source]) for part in media if part.source in refs},
        messages=dump_steps(prompt.steps),
    )


@lru_cache(maxsize=1024, typed=True)  # typed: 0 and 0.0 are equal, and their JSON is not
def _generation_json(*values: float) -> str:
    return json.dumps(values)


def model_builders(spec: RunSpec, model: str, datasets: Datasets) -> list[tuple[RequestBuilder, Dataset]]:
    """Return the builders of a model's requests by benchmark and set of prompts; DatasetError for missing data.

    Where prompts hold captions, a set of prompts has a builder for each captioner.
    """
    keys = captioner_keys(spec, model) or [""]
    return [
        (replace(builder, captioner=key), dataset)
        for builder, dataset in _builders(spec, model, spec.models[model], datasets)
        for key in (keys if builder.has_captions else keys[:1])
    ]


def captioner_keys(spec: RunSpec, model: str) -> list[str]:
    """Return the keys of the captioners whose captions a model reads."""
    names = [model] if spec.own_captions else [name for name, _ in spec.captioners]
    return [caption_key(name, answer_fingerprint(spec.caption_models[name])) for name in names]


def caption_builders(spec: RunSpec, captioner: str, datasets: Datasets) -> list[tuple[RequestBuilder, Dataset]]:
    """Return the builders of a captioner's requests, benchmark by benchmark."""
    first_sets = {name: names[:1] for name, names in spec.prompt_sets.items()}  # captions depend on no wording
    spec = replace(spec, prompt_sets=first_sets)
    builders = _builders(spec, captioner, spec.caption_models[captioner], datasets)
    return [(replace(builder, kind="caption"), dataset) for builder, dataset in builders]


def check_data(spec: RunSpec, datasets: Datasets) -> None:
    """Check that every benchmark's data is there; DatasetError or StoreError if not."""
    for name in spec.benchmarks:
        if cells_of(benchmark(name), spec.tasks, spec.settings):
            datasets.open(spec.data, name)


def _builders(
    spec: RunSpec, model: str, model_spec: ModelSpec, datasets: Datasets
) -> Iterator[tuple[RequestBuilder, Dataset]]:
    fingerprint = answer_fingerprint(model_spec)
    for name in spec.benchmarks:
        cells = cells_of(benchmark(name), spec.tasks, spec.settings)
        if not cells:
            continue
        dataset = datasets.open(spec.data, name)
        for prompt_versions in spec.versions_by_set(name).values():
            builder = RequestBuilder(
                benchmark_name=name,
                dataset_fingerprint=dataset.manifest.dataset_fingerprint,
                model=model,
                model_fingerprint=fingerprint,
                generation=model_spec.generation.model_dump(exclude_none=True),
                task_settings=tuple(cells),
                prompts=spec.prompts.get(name, {}),
                prompt_versions=prompt_versions,
                seed=spec.seed,
            )
            _ = builder.texts  # own wording is checked before anything is started
            yield builder, dataset

"""One model's requests for a plan of prompts: the one place that makes request ids."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from models.fingerprint import answer_fingerprint
from models.messages import Generation, Request
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import split_variant
from pipelines.hashing import hash_text, json_members, stable_id
from pipelines.ingest.dataset import Dataset, Datasets
from pipelines.json_records import read_record, read_value
from pipelines.plan.prompt_plan import PromptPlan, caption_key, load_generations
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import selected_groups
from pipelines.plan.stored_plan import PlanRow, RequestKey


@dataclass(frozen=True, kw_only=True)
class ModelTarget:
    """A model, and the plan of prompts that it answers. Light, and sent to every worker."""

    prompts: PromptPlan
    model: str
    fingerprint: Mapping[str, Any]
    """All of the model's spec that changes answers (`models.fingerprint.answer_fingerprint`)."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """The model's own generation settings, which override the benchmark's."""

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    @property
    def revision(self) -> str:
        """The revision of the model's weights; '' for none."""
        return str(self.fingerprint.get("revision") or "")

    def with_prompts(self, **changes: Any) -> Self:
        """Return the target with changes to its plan of prompts."""
        return replace(self, prompts=replace(self.prompts, **changes))

    def columns(self, row: PlanRow) -> dict[str, Any]:
        """Return the columns of a prediction that are known before it is made, `request_id` among them."""
        return {
            "request_id": self.request_id(row),
            "sample_id": row.sample_id,
            "benchmark": self.prompts.benchmark_name,
            "task": row.task,
            "setting": row.setting,
            "variant": row.variant,
            "model": self.model,
            "model_revision": self.revision,
            "dataset_fingerprint": self.prompts.dataset_fingerprint,
            "prompt_version": row.prompt_version if self.prompts.kind == "answer" else self._caption_key,
            "prompt_sha256": row.prompt_sha256,
            "captioner": row.captioner,
        }

    def request_id(self, row: PlanRow | RequestKey) -> str:
        """Return the id of the model's request for a prompt: a hash of its columns, the model and the generation."""
        if self.prompts.kind == "caption":  # a picture has the same id in all samples, so that it is captioned once
            inputs = {
                "model_fingerprint": dict(self.fingerprint),
                "generation": [astuple(step) for step in self.generations(row)],
                "prompt_sha256": row.prompt_sha256,
            }
            return stable_id({"caption": self._caption_key, "asked": inputs})
        members = self._id_members.get(row.generation)
        if members is None:
            members = self._id_members[row.generation] = json_members(
                {
                    "benchmark": self.prompts.benchmark_name,
                    "dataset_fingerprint": self.prompts.dataset_fingerprint,
                    "generation": [astuple(step) for step in self.generations(row)],
                    "model": self.model,
                    "model_fingerprint": dict(self.fingerprint),
                    "model_revision": self.revision,
                }
            )
        return hash_text(f"{{{members},{row.id_members}}}")  # in the order of their names: those of a row come last

    @cached_property
    def _id_members(self) -> dict[str, str]:
        """What all ids with the same generation settings begin with, by these."""
        return {}

    def request(self, row: PlanRow, request_id: str) -> Request:
        """Return what is sent to the model."""
        steps = row.steps
        if self.generation:
            steps = tuple(
                replace(step, generation=generation)
                for step, generation in zip(steps, self.generations(row), strict=True)
            )
        return Request(request_id=request_id, steps=steps)

    def generations(self, row: PlanRow | RequestKey) -> list[Generation]:
        """Return the generation settings of each step, the model's own before the benchmark's."""
        settings = dict(self.generation)
        if "seed" in settings:
            settings["seed"] += split_variant(row.variant)[1]
        return [replace(step, **settings) for step in load_generations(row.generation)]

    @cached_property
    def _caption_key(self) -> str:
        return caption_key(self.model, self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """Return the form of `run.json`."""
        return {
            "model": self.model,
            "fingerprint": dict(self.fingerprint),
            "generation": dict(self.generation),
            "prompts": self.prompts.to_dict(),
        }

    @classmethod
    def from_dict(cls, raw: object, where: str) -> Self:
        """Read the form of `run.json`; MalformedError for another one."""
        fields = dict(read_value(Mapping[str, Any], raw, where))
        prompts = PromptPlan.from_dict(fields.pop("prompts", None), f"{where}.prompts")
        return read_record(cls, {**fields, "prompts": prompts}, where)


def model_targets(spec: RunSpec, model: str, datasets: Datasets) -> list[tuple[ModelTarget, Dataset]]:
    """Return what a model is to answer by benchmark and set of prompts; DatasetError for missing data.

    Where prompts hold captions, a set of prompts has a target for each captioner. Those of a benchmark's stress test,
    which asks its first prompts once more under each condition, come last.
    """
    keys = captioner_keys(spec, model) or [""]
    targets = [
        (target.with_prompts(captioner=key), dataset)
        for target, dataset in _targets(spec, model, spec.models[model], datasets)
        for key in (keys if target.prompts.has_captions else keys[:1])
    ]
    firsts = dict[str, tuple[ModelTarget, Dataset]]()
    for pair in targets:
        firsts.setdefault(pair[0].prompts.benchmark_name, pair)
    targets += [
        (target.with_prompts(stress=str(condition)), dataset)
        for target, dataset in firsts.values()
        for condition in spec.conditions
    ]
    return sorted(targets, key=lambda pair: spec.benchmarks.index(pair[0].prompts.benchmark_name))


def captioner_keys(spec: RunSpec, model: str) -> list[str]:
    """Return the keys of the captioners whose captions a model reads."""
    names = [model] if spec.own_captions else [name for name, _ in spec.captioners]
    return [caption_key(name, answer_fingerprint(spec.caption_models[name])) for name in names]


def caption_targets(spec: RunSpec, captioner: str, datasets: Datasets) -> list[tuple[ModelTarget, Dataset]]:
    """Return what a captioner is to describe, benchmark by benchmark."""
    first_sets = {name: names[:1] for name, names in spec.prompt_sets.items()}  # captions depend on no wording
    spec = replace(spec, prompt_sets=first_sets)
    targets = _targets(spec, captioner, spec.caption_models[captioner], datasets)
    return [(target.with_prompts(kind="caption", repeats=1), dataset) for target, dataset in targets]


def _targets(
    spec: RunSpec, model: str, model_spec: ModelSpec, datasets: Datasets
) -> Iterator[tuple[ModelTarget, Dataset]]:
    fingerprint = answer_fingerprint(model_spec)
    for name in spec.benchmarks:
        groups = selected_groups(benchmark(name), spec.tasks, spec.settings)
        if not groups:
            continue
        dataset = datasets.open(spec.data, name)
        for prompt_versions in spec.versions_by_set(name).values():
            prompts = PromptPlan(
                benchmark_name=name,
                dataset_fingerprint=dataset.manifest.dataset_fingerprint,
                task_settings=tuple(groups),
                wording=spec.prompts.get(name, {}),
                prompt_versions=prompt_versions,
                seed=spec.seed,
                repeats=spec.repeats,
                table=dataset.manifest.table,
            )
            _ = prompts.texts  # own wording is checked before anything is started
            generation = model_spec.generation.model_dump(exclude_none=True)
            yield ModelTarget(prompts=prompts, model=model, fingerprint=fingerprint, generation=generation), dataset

"""All requests of a sample in memory, from a plan and a model's builder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from models.messages import Request
from pipelines.benchmarks.records import Sample
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import TaskSetting


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request with the columns of its prediction."""

    columns: dict[str, Any]
    request: Request
    excluded: str
    group: str

    @property
    def request_id(self) -> str:
        return self.request.request_id


def build_requests(
    target: ModelTarget, sample: Sample, captions: Mapping[str, str] | None = None
) -> Iterator[PlannedRequest]:
    """Yield the requests of one sample in the order of the plan."""
    for row in target.prompts.rows(sample, captions):
        columns = target.columns(row)
        yield PlannedRequest(columns, target.request(row, columns["request_id"]), row.excluded, row.media_group)


def changed(target: ModelTarget, **changes: Any) -> ModelTarget:
    """Return a target with other values of its fields, or of its plan's."""
    plan_fields = {field.name for field in fields(PromptPlan)} & changes.keys()
    return replace(target.with_prompts(**{name: changes.pop(name) for name in plan_fields}), **changes)


def target_of(
    benchmark_name: str = "maia",
    *,
    model: str = "m",
    fingerprint: Mapping[str, Any] = MappingProxyType({}),
    generation: Mapping[str, Any] = MappingProxyType({}),
    dataset_fingerprint: str = "f",
    task_settings: tuple[TaskSetting, ...] = (),
    seed: int = 42,
    **prompts: Any,
) -> ModelTarget:
    """Return a model with its plan of prompts, from the fields of both."""
    plan = PromptPlan(
        benchmark_name=benchmark_name,
        dataset_fingerprint=dataset_fingerprint,
        task_settings=task_settings,
        seed=seed,
        **prompts,
    )
    return ModelTarget(prompts=plan, model=model, fingerprint=dict(fingerprint), generation=dict(generation))

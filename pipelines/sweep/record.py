"""Record a sweep in `run.json`, with warnings for its reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from models.engines.hub import DEFAULT_REVISION, adapter_id
from models.fingerprint import is_unpinned, resolved_revision
from models.spec import ModelSpec
from pipelines.plan.context import SweepContext, helper_models
from pipelines.plan.records import ModelPlan
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import (
    ManifestEntry,
    PromptSet,
    merge_entries,
    save_run,
)
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import holds_captions
from pipelines.sweep.dropped import dropped_from_report
from pipelines.sweep.revisions import scorer_fields


def sweep_entries(spec: RunSpec, builders: Iterable[RequestBuilder]) -> list[ManifestEntry]:
    """Return the entries of a sweep's own models, before they are merged with those of earlier runs."""
    groups: dict[tuple[str, str], list[RequestBuilder]] = {}
    for builder in builders:  # of one model and benchmark, one per set of prompts
        groups.setdefault((builder.model, builder.benchmark_name), []).append(builder)
    entries = []
    for (model, name), (first, *further_builders) in groups.items():
        names = spec.prompt_sets.get(name, ("",))
        per_name = (1 + len(further_builders)) // len(names)  # one per captioner
        prompt_sets = [prompt_set for prompt_set in names for _ in range(per_name)]
        sets = [_prompt_set(*pair, first) for pair in zip(prompt_sets[1:], further_builders, strict=True)]
        entries.append(
            ManifestEntry(
                benchmark=name,
                model=model,
                data=spec.data,
                builder=first,
                limit=str(spec.limit) if spec.limit else None,
                sample_ids=spec.sample_ids,
                prompt_set=names[0],
                other_prompt_sets=tuple(sets),
            )
        )
    return entries


def _prompt_set(name: str, builder: RequestBuilder, first: RequestBuilder) -> PromptSet:
    captioner = builder.captioner if builder.captioner != first.captioner else ""
    is_in = [not captioner or holds_captions(builder.benchmark, cell) for cell in builder.task_settings]
    cells = tuple(compress(builder.task_settings, is_in))
    return PromptSet(name=name, versions=builder.prompt_versions, cells=cells, captioner=captioner)


def record_sweep(
    context: SweepContext, earlier: Mapping[str, Any], plans: Mapping[str, Sequence[ModelPlan]], warnings: list[str]
) -> dict[str, Any]:
    """Write `run.json`, until now `earlier`, before the work; add to `warnings` what leaves the report."""
    spec = context.spec
    builders = [plan.builder for model_plans in plans.values() for plan in model_plans]
    entries = sweep_entries(spec, builders)
    earlier_entries = earlier.get("entries", [])
    warnings += dropped_from_report(earlier_entries, entries)
    return save_run(
        context.out,
        earlier,
        sweep=spec.to_manifest(),
        entries=merge_entries(earlier_entries, entries),
        parts={
            "models": {name: model_fields(model) for name, model in {**helper_models(spec), **spec.models}.items()},
            "scorers": scorer_fields(spec),
            "datasets": {builder.benchmark_name: {"fingerprint": builder.dataset_fingerprint} for builder in builders},
            "prompts": {
                builder.benchmark_name: {**builder.benchmark.prompt_texts, **builder.prompts} for builder in builders
            },
        },
    )


def sweep_warnings(spec: RunSpec) -> list[str]:
    """Return warnings for the reader of a sweep's numbers, one sentence each."""
    sentences = [
        f"model {name}: its revision is not pinned, so the hub may serve others tomorrow; give `revision` a commit"
        for name, model in {**spec.models, **helper_models(spec)}.items()
        if is_unpinned(model)
    ]
    sentences += [
        f"model {name}: the revision of its adapter is not pinned, so the hub may serve others tomorrow; give "
        "`adapter_revision` a commit"
        for name, model in {**spec.models, **helper_models(spec)}.items()
        if adapter_id(model) and model.adapter_revision in (None, DEFAULT_REVISION)
    ]
    sentences += [
        f"model {name}: code that its publisher keeps beside the weights runs on the workers (trust_remote_code)"
        for name, model in {**spec.models, **helper_models(spec)}.items()
        if model.trust_remote_code
    ]
    if spec.own_captions:
        sentences.append(
            f"{', '.join(spec.models)}: captions in place of pictures are the model's own (captioner: self)"
        )
    return sentences


def model_fields(spec: ModelSpec) -> dict[str, Any]:
    """Return a model as `run.json` holds it: what its entry states, and the revision that names its weights."""
    return {**spec.model_dump(mode="json", exclude_defaults=True), "revision": resolved_revision(spec)}

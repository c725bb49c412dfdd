"""Record a sweep in `run.json`, with warnings for its reader."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from models.engines.hub import DEFAULT_REVISION, adapter_id
from models.fingerprint import is_unpinned, resolved_revision
from models.guards.redaction import shown_address
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.plan.context import SweepContext, helper_models
from pipelines.plan.records import ModelPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry, PromptSet, RecordedDataset, RunManifest, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import holds_captions, human_groups, selected_groups
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.revisions import recorded_scorers

log = logging.getLogger(__name__)


def sweep_entries(spec: RunSpec, targets: Iterable[ModelTarget]) -> list[ManifestEntry]:
    """Return the entries of a sweep's own models, before they are merged with those of earlier runs."""
    groups: dict[tuple[str, str], list[ModelTarget]] = {}
    for target in targets:  # of one model and benchmark, one per set of prompts
        groups.setdefault((target.model, target.prompts.benchmark_name), []).append(target)
    entries = []
    for (model, name), (first, *others) in groups.items():
        names = spec.prompt_sets.get(name, ("",))
        stressed = [target.prompts.stress for target in others if target.prompts.stress]
        per_name = (1 + len(others) - len(stressed)) // len(names)  # one per captioner
        prompt_sets = [*(prompt_set for prompt_set in names for _ in range(per_name)), *stressed]
        sets = [_prompt_set(*pair, first) for pair in zip(prompt_sets[1:], others, strict=True)]
        entries.append(
            ManifestEntry(
                benchmark=name,
                model=model,
                data=spec.data,
                target=first,
                limit=spec.limit,
                sample_ids=spec.sample_ids,
                prompt_set=names[0],
                other_prompt_sets=tuple(sets),
                has_stress=bool(stressed),
            )
        )
    return entries


def _prompt_set(name: str, target: ModelTarget, first: ModelTarget) -> PromptSet:
    prompts = target.prompts
    captioner = prompts.captioner if prompts.captioner != first.prompts.captioner else ""
    is_in = [not captioner or holds_captions(prompts.benchmark, group) for group in prompts.task_settings]
    groups = tuple(compress(prompts.task_settings, is_in))
    return PromptSet(
        name=name, versions=prompts.prompt_versions, cells=groups, captioner=captioner, stress=prompts.stress
    )


def record_sweep(
    context: SweepContext, earlier: RunManifest, plans: Mapping[str, Sequence[ModelPlan]]
) -> tuple[RunManifest, list[str]]:
    """Write `run.json`, until now `earlier`, before the work; return it, and what leaves the report."""
    spec = context.spec
    targets = [plan.target for model_plans in plans.values() for plan in model_plans]
    entries, prompts = sweep_entries(spec, targets), [target.prompts for target in targets]
    addition = RunManifest(
        sweep=spec.record(),
        models={name: model_fields(model) for name, model in {**helper_models(spec), **spec.models}.items()},
        scorers=recorded_scorers(spec),
        datasets={each.benchmark_name: RecordedDataset(fingerprint=each.dataset_fingerprint) for each in prompts},
        prompts={each.benchmark_name: {**each.benchmark.prompt_texts, **each.wording} for each in prompts},
        entries=merge_entries(earlier.entries, entries),
    )
    return save_run(context.out, earlier, addition), dropped_from_report(earlier.entries, entries)


def sweep_warnings(spec: RunSpec) -> list[str]:
    """Return warnings for the reader of a sweep's numbers, one sentence each."""
    unpinned = "is not pinned, so the hub may serve others tomorrow; give"
    reasons: dict[str, Callable[[ModelSpec], bool]] = {
        f"its revision {unpinned} `revision` a commit": is_unpinned,
        f"the revision of its adapter {unpinned} `adapter_revision` a commit": lambda model: (
            bool(adapter_id(model)) and model.adapter_revision in (None, DEFAULT_REVISION)
        ),
        "code that its publisher keeps beside the weights runs on the workers (trust_remote_code)": lambda model: (
            model.trust_remote_code
        ),
    }
    models = {**spec.models, **helper_models(spec)}.items()
    sentences = [f"model {name}: {text}" for text, holds in reasons.items() for name, spec_ in models if holds(spec_)]
    sentences += [
        f"{definition.name}: it has none of these tasks and settings and is left out"
        for definition in map(benchmark, spec.benchmarks)
        if not any(select(definition, spec.tasks, spec.settings) for select in (selected_groups, human_groups))
    ]
    if spec.own_captions:
        sentences.append(
            f"{', '.join(spec.models)}: captions in place of pictures are the model's own (captioner: self)"
        )
    return sentences


def unjudged_metrics(spec: RunSpec) -> list[str]:
    """Return what a sweep without a judge will not measure, a sentence a benchmark."""
    sentences = []
    for definition in map(benchmark, () if spec.judges else spec.benchmarks):
        tasks = {group.task for group in selected_groups(definition, spec.tasks, spec.settings)}
        missing = [name for name in definition.main_metrics if name in definition.judged_metrics]
        if missing and tasks.intersection(definition.judged_tasks):
            headline = ["its headline"] if definition.headline in missing else []
            names = ", ".join([*headline, *(f"{metric_label(name)} ({name})" for name in missing)])
            sentences.append(f"{definition.name}: without --judge NAME these will not be measured: {names}")
    return sentences


def warn_of_unjudged_metrics(spec: RunSpec) -> None:
    """Log what a sweep without a judge will not measure, before it asks anything."""
    for sentence in unjudged_metrics(spec):
        log.warning("%s", sentence)


def model_fields(spec: ModelSpec) -> dict[str, Any]:
    """Return a model as `run.json` holds it: what its entry states, and the revision that names its weights."""
    fields = {**spec.model_dump(mode="json", exclude_defaults=True), "revision": resolved_revision(spec)}
    if "base_url" in fields:
        fields["base_url"] = shown_address(fields["base_url"])
    return fields

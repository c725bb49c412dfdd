"""Merge the entries of earlier runs of an output with those of this one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Final

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.plan.prompt_plan import captioner_name
from pipelines.plan.run_manifest import GroupSelection, ManifestEntry, PromptSet
from pipelines.plan.selection import TaskSetting, all_groups


def merge_entries(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Merge entries of earlier runs with those of this one.

    A model that runs on other tasks and settings of the same benchmark keeps both, each with its last samples; with
    another seed, wording, captioner, revision or data it replaces its earlier entry.
    """
    merged = {(entry.benchmark, entry.model): entry for entry in old}
    for entry in new:
        key = (entry.benchmark, entry.model)
        earlier = merged.get(key)
        merged[key] = joined_entry(earlier, entry) if earlier else entry
    return tuple(merged[key] for key in sorted(merged))


def joined_entry(old: ManifestEntry, new: ManifestEntry) -> ManifestEntry:
    """Merge two entries of a model on a benchmark; the new one where they build other requests."""
    if not builds_same_requests(old, new):
        return new
    current = new.prompts.task_settings
    selected = {*old.prompts.task_settings, *current}
    joined_groups = tuple(group for group in all_groups(benchmark(new.benchmark)) if group in selected)
    selections = []
    for selection in old.by_selection():
        groups = tuple(group for group in selection.prompts.task_settings if group not in current)
        if groups and (selection.limit, selection.sample_ids) != (new.limit, new.sample_ids):
            selections.append(GroupSelection(cells=groups, limit=selection.limit, sample_ids=selection.sample_ids))
    return replace(
        new,
        target=new.target.with_prompts(task_settings=joined_groups),
        earlier=tuple(selections),
        prompt_set=new.prompt_set or old.prompt_set,
        stop=new.stop or old.stop,
        has_stress=new.has_stress or old.has_stress,
        other_prompt_sets=joined_prompt_sets(old, new),
    )


def joined_prompt_sets(old: ManifestEntry, new: ManifestEntry) -> tuple[PromptSet, ...]:
    """Merge the other sets of prompts: in each task and setting those of the last run that covered it."""
    current = new.prompts.task_settings
    sets = {prompt_set.key: prompt_set for prompt_set in new.other_prompt_sets}
    for prompt_set in old.other_prompt_sets:
        remaining = tuple(group for group in prompt_set.cells if group not in current)
        if not remaining:
            continue
        existing = sets.get(prompt_set.key)
        if existing is None or existing.versions == prompt_set.versions:
            groups = (*(existing.cells if existing else ()), *remaining)
            sets[prompt_set.key] = replace(prompt_set, cells=groups)
    return tuple(sets.values())


def builds_same_requests(old: ManifestEntry, new: ManifestEntry) -> bool:
    """Return whether two entries build the same requests, regardless of tasks, settings and samples."""
    before, now = (entry.target.with_prompts(task_settings=()) for entry in (old, new))
    return before == now and old.external == new.external


_DIFFERENCES: Final[Mapping[str, str]] = load_yaml("pipelines.sweep", "words.yaml")["differences"]


def dropped_from_report(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> list[str]:
    """Describe the tasks and settings of earlier runs that the report no longer shows, one sentence per entry."""
    earlier = {(entry.benchmark, entry.model): entry for entry in old}
    sentences: list[str] = []
    for entry in new:
        before = earlier.get((entry.benchmark, entry.model))
        if before is None:
            continue
        sentences += _other_samples(before, entry)
        sentences += _dropped_sets(before, entry)
        remaining = joined_entry(before, entry).prompts.task_settings
        dropped = [group for group in before.prompts.task_settings if group not in remaining]
        if not dropped:
            continue
        reasons = [
            message
            for name, message in _DIFFERENCES.items()
            if attrgetter(name)(before.target) != attrgetter(name)(entry.target)
        ]
        if before.external != entry.external:
            reasons.append("imported answers" if entry.external else "answers of its own")
        groups = (*entry.prompts.task_settings, *dropped)
        tasks, settings = (",".join(dict.fromkeys(getattr(c, kind) for c in groups)) for kind in ("task", "setting"))
        sentences.append(
            f"{entry.model} on {entry.benchmark}: the report no longer shows {_group_names(dropped)} of an earlier "
            f"run, because this run has {', '.join(reasons)}; their predictions are kept. This command with --tasks "
            f"{tasks} --settings {settings} evaluates all of them; the earlier command shows the earlier results again"
        )
    return sentences


def _dropped_sets(old: ManifestEntry, new: ManifestEntry) -> Iterator[str]:
    """Describe the sets of prompts that the report no longer shows."""
    if not builds_same_requests(old, new):
        return
    remaining = {prompt_set.key: prompt_set.cells for prompt_set in joined_prompt_sets(old, new)}
    for prompt_set in old.other_prompt_sets:
        groups = [group for group in prompt_set.cells if group not in remaining.get(prompt_set.key, ())]
        if groups:
            kind = f"with the prompts {prompt_set.name!r}"
            flag = f"--prompt-version {old.benchmark}={old.prompt_set},{prompt_set.name}"
            if prompt_set.captioner:
                name = captioner_name(prompt_set.captioner)
                kind, flag = f"with captions of {name!r}", f"--captioner {old.prompts.captioner_name},{name}"
            if prompt_set.stress:
                kind, flag = f"under {prompt_set.name}", f"`vlmsweep stress` and --conditions {prompt_set.name}"
            yield (
                f"{new.model} on {new.benchmark}: the report no longer shows {_group_names(groups)} {kind}; "
                f"earlier predictions are kept, and this command with {flag} shows them again"
            )


def _other_samples(old: ManifestEntry, new: ManifestEntry) -> Iterator[str]:
    """Describe the tasks and settings that this run evaluates on fewer or other samples than an earlier run."""
    for selected_entry in old.by_selection():
        groups = [group for group in selected_entry.prompts.task_settings if group in new.prompts.task_settings]
        if groups and builds_same_requests(selected_entry, new) and not _covers(new, selected_entry):
            yield (
                f"{new.model} on {new.benchmark}: {_group_names(groups)} are on other samples in this report "
                f"({_selection_flags(new)}) than before ({_selection_flags(selected_entry)}); earlier predictions are "
                f"kept, and this command with {_selection_flags(selected_entry)} shows them again"
            )


def _covers(new: ManifestEntry, old: ManifestEntry) -> bool:
    """Return whether a selection certainly includes all samples of another; the data is not read."""
    if new.sample_ids and not (old.sample_ids and {*old.sample_ids} <= {*new.sample_ids}):
        return False
    wide, narrow = new.selection.limit, old.selection.limit
    if wide is None or wide == narrow:
        return True
    if narrow is None:
        return False
    if wide.share is not None or narrow.share is not None:
        return wide.share is not None and narrow.share is not None and narrow.share <= wide.share
    return wide.first <= narrow.first and (wide.last is None or (narrow.last is not None and narrow.last <= wide.last))


def _selection_flags(entry: ManifestEntry) -> str:
    flags = [f"--limit {entry.limit}"] if entry.limit else []
    flags += [f"--sample-id {name}" for name in entry.sample_ids[:3]]
    flags += [f"and {len(entry.sample_ids) - 3} more of --sample-id"] if len(entry.sample_ids) > 3 else []
    return " ".join(flags) or "no --limit and no --sample-id"


def _group_names(groups: Iterable[TaskSetting]) -> str:
    return ", ".join(f"{group.task} {group.setting}" for group in groups)

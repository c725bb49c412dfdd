"""Merge the entries of earlier runs of an output with those of this one."""

from collections.abc import Iterable
from dataclasses import replace

from pipelines.benchmarks import benchmark
from pipelines.plan.run_manifest import CellSelection, ManifestEntry, PromptSet
from pipelines.plan.selection import all_cells


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
    joined_cells = tuple(cell for cell in all_cells(benchmark(new.benchmark)) if cell in selected)
    selections = []
    for selection in old.by_selection():
        cells = tuple(cell for cell in selection.prompts.task_settings if cell not in current)
        if cells and (selection.limit, selection.sample_ids) != (new.limit, new.sample_ids):
            selections.append(CellSelection(cells=cells, limit=selection.limit, sample_ids=selection.sample_ids))
    return replace(
        new,
        target=new.target.with_prompts(task_settings=joined_cells),
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
        remaining = tuple(cell for cell in prompt_set.cells if cell not in current)
        if not remaining:
            continue
        existing = sets.get(prompt_set.key)
        if existing is None or existing.versions == prompt_set.versions:
            cells = (*(existing.cells if existing else ()), *remaining)
            sets[prompt_set.key] = replace(prompt_set, cells=cells)
    return tuple(sets.values())


def builds_same_requests(old: ManifestEntry, new: ManifestEntry) -> bool:
    """Return whether two entries build the same requests, regardless of tasks, settings and samples."""
    before, now = (entry.target.with_prompts(task_settings=()) for entry in (old, new))
    return before == now and old.external == new.external

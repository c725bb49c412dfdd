"""The conditions under which a number was measured."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipelines.benchmarks.records import is_person
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, prompt_fingerprint
from pipelines.plan.run_spec import scorers_by_kind
from pipelines.report.comparability import judge_name
from pipelines.storage.store import Store

_DIGITS: Final = 12  # of a fingerprint in a message
_MAX_SOURCES: Final = 3  # of the rows that share a value, in a message
_ALL_SAMPLES: Final = "all samples"


def conditions_of(
    entry: ManifestEntry, out: Store, run: RunManifest, *, metric: str, task: str, setting: str
) -> dict[str, str]:
    """Return the conditions of a number, by kind; of answers made elsewhere only the data, since no more is known."""
    definition, target = entry.definition, entry.target
    conditions = {"data": target.prompts.dataset_fingerprint[:_DIGITS]}
    if is_person(entry.model):
        return conditions
    if metric in definition.judged_metrics or (task, metric) in definition.publication.judges:
        conditions["judge"] = judge_name(out, run, entry.benchmark) or "none"
    conditions |= _scorers(entry, run, metric)
    if entry.external:
        return conditions
    conditions |= _prompts(entry, run)
    conditions["seed"] = str(target.prompts.seed)
    conditions["samples"] = _samples(entry, task, setting)
    if target.fingerprint.get("engine") != "random":  # a guess is the baseline of any settings
        conditions["generation settings"] = _listed(target.generation) or "the benchmark's"
    if setting in definition.captions.settings:
        conditions["captioner"] = target.prompts.captioner_name or "none"
    return conditions


def notes_of(entry: ManifestEntry, task: str, setting: str) -> Iterator[str]:
    """Yield what a reader of a number must know, whether or not other rows differ in it."""
    if entry.external:
        yield "answers made elsewhere: prompts and settings are not known"
    elif (samples := _samples(entry, task, setting)) != _ALL_SAMPLES:
        yield f"samples {samples}"


def _prompts(entry: ManifestEntry, run: RunManifest) -> Iterator[tuple[str, str]]:
    """Yield the wording of each version of a prompt by hash, and which versions stand in place of others."""
    recorded = run.prompt_fingerprints.get(entry.benchmark, {})
    custom_wording = [other.prompts.wording for other in run.entries if other.benchmark == entry.benchmark]
    for version, text in entry.definition.prompt_texts.items():
        fingerprint = recorded.get(version)
        if version in entry.prompts.wording:
            fingerprint = prompt_fingerprint(entry.prompts.wording[version])
        elif fingerprint in {prompt_fingerprint(texts[version]) for texts in custom_wording if version in texts}:
            fingerprint = prompt_fingerprint(text)  # `run.json` has the wording of the last run, of another model
        if fingerprint:
            yield f"prompt {version}", fingerprint[:_DIGITS]
    yield "prompt versions", _listed(entry.prompts.prompt_versions) or "the benchmark's"


def _scorers(entry: ManifestEntry, run: RunManifest, metric: str) -> dict[str, str]:
    definition = entry.definition
    kinds = definition.publication.scorers.get(metric, ())
    if metric in definition.publication.unnamed_scorers:
        kinds = tuple(definition.default_scorers)
    named, default = scorers_by_kind(run.sweep.scorers), definition.default_scorers
    return {f"scorer {kind}": named[kind].address if kind in named else default.get(kind, "none") for kind in kinds}


def _samples(entry: ManifestEntry, task: str, setting: str) -> str:
    """Return on which samples a task and setting was evaluated; a derived task, on those of its tasks."""
    tasks = entry.definition.derived_tasks.get(task, (task,))
    selections = []
    for selected_entry in entry.by_selection():
        if any((cell.task in tasks) and cell.setting == setting for cell in selected_entry.prompts.task_settings):
            chosen = [f"--limit {selected_entry.limit}"] if selected_entry.limit else []
            chosen += (
                [f"--sample-id {shortened(sorted(selected_entry.sample_ids))}"] if selected_entry.sample_ids else []
            )
            selections.append(" ".join(chosen) or _ALL_SAMPLES)
    return ", ".join(dict.fromkeys(selections)) or _ALL_SAMPLES


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in sorted(values.items())
    )


def shortened(names: Sequence[str]) -> str:
    """Return names as a list, the first few of many."""
    more = len(names) - _MAX_SOURCES
    return ", ".join(names[:_MAX_SOURCES]) + (f" and {more} more" if more > 0 else "")

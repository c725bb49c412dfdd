"""Reasons why a number of a run is not comparable with a published one: differences recorded in `run.json`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from models.catalog_loader import catalog
from models.spec import ModelSpec
from pipelines.benchmarks.records import PublishedValue
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.predict.records import TaskCount
from pipelines.storage.parts import list_parts, part_folder
from pipelines.storage.store import Store

ITEMS_TOLERANCE: Final = 0.01
"""Share of a paper's requests that may be missing or more: some items cannot be used, some sizes are approximate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The data and settings with which the numbers of one model on one benchmark were measured."""

    entry: ManifestEntry
    spec: Mapping[str, Any]  # the model in `run.json`; engine `external` for imported answers
    judge: str = ""  # the judge's name at its maker; '' for none
    scorers: Mapping[str, str] = field(default_factory=dict)  # kind -> model, where a flag named it
    counts: Mapping[tuple[str, str], TaskCount] = field(default_factory=dict)  # by task and setting
    prompts: frozenset[tuple[str, str, str]] = frozenset()  # task, setting, version; none for external answers
    foreign_items: Sequence[str] = ()  # what the items are, where they are none of the paper's

    def reasons(self, printed: PublishedValue, setting: str) -> Iterator[str]:
        """Yield why our number in a setting is not comparable with a printed one; nothing where it is."""
        if printed.doubtful:
            yield "misprint: " + printed.note.partition(": ")[2]
        yield from self._items(printed, setting)
        yield from self._wording(printed.task, setting)
        yield from self._model(printed.model)
        yield from self._helpers(printed, setting)

    def _groups(self, task: str, setting: str) -> list[tuple[str, str]]:
        tasks = self.entry.definition.derived_tasks.get(task, (task,))
        return [(name, setting) for name in tasks]

    def _items(self, printed: PublishedValue, setting: str) -> Iterator[str]:
        publication = self.entry.definition.publication
        if printed.table in publication.other_items:
            yield f"other items: the paper's are {publication.other_items[printed.table]}"
            return
        if self.foreign_items:
            yield f"other items: {', '.join(self.foreign_items)}"
            return
        groups = self._groups(printed.task, setting)
        for selected_entry in self.entry.by_selection():
            selected = {(group.task, group.setting) for group in selected_entry.prompts.task_settings}
            if selected & {*groups} and (selected_entry.limit or selected_entry.sample_ids):
                flag = (
                    f"--limit {selected_entry.limit}"
                    if selected_entry.limit
                    else f"--sample-id, {len(selected_entry.sample_ids)}"
                )
                yield f"other items: {flag}"
                return
        for group in groups:
            full, count = publication.requests.get(group[0], 0), self.counts.get(group)
            answered = count.ok if count else 0
            if full and abs(answered - full) > ITEMS_TOLERANCE * full:
                yield f"other items: {answered:,} answers, {full:,} in the paper"
                return

    def _wording(self, task: str, setting: str) -> Iterator[str]:
        definition, target = self.entry.definition, self.entry.target
        publication = definition.publication
        in_print = {*(publication.paper_prompts or ()), *definition.prompt_sets.get("paper", {}).values()}
        names = {*target.prompts.prompt_versions.values()} - in_print | {*target.prompts.wording}
        if publication.paper_prompts is not None:
            groups = self._groups(task, setting)
            names |= {version for *group, version in self.prompts if tuple(group) in groups} - in_print
        if names:
            yield f"other prompt wording: {', '.join(sorted(names))}"
        if target.generation:
            settings = ", ".join(f"{name} {value}" for name, value in sorted(target.generation.items()))
            yield f"other generation settings: {settings}"

    def _model(self, name: str) -> Iterator[str]:
        """Compare weights with those of the catalog entries whose numbers stand under a printed name."""
        entries = _published_as(self.entry.benchmark, name)
        if self.spec.get("engine") == "external" or not entries:
            return
        own_name = str(self.spec.get("model") or self.spec.get("engine"))
        same_weights = [entry for entry in entries if is_same_model(self.spec, entry)]
        if not same_weights:
            yield f"other revision: {own_name} for {' or '.join(entry.model or entry.engine for entry in entries)}"
            return
        revisions = {str(entry.revision or "") for entry in same_weights} - {"", "main"}
        ours = str(self.spec.get("revision") or "")
        if revisions and ours not in {*revisions, "", "main"}:
            yield f"other revision: {ours} for {' or '.join(sorted(revisions))}"
        endpoints = {entry.base_url for entry in same_weights if entry.base_url}
        if endpoints and self.spec.get("base_url") not in endpoints:
            yield f"other endpoint: {self.spec.get('base_url') or 'none'} for {' or '.join(sorted(endpoints))}"

    def _helpers(self, printed: PublishedValue, setting: str) -> Iterator[str]:
        definition = self.entry.definition
        publication = definition.publication
        judge = publication.judges.get((printed.task, printed.metric), "")
        if judge and not re.fullmatch(rf"{re.escape(judge)}(-\d{{4}}-\d\d-\d\d)?", self.judge):
            yield f"other judge: {self.judge or 'none'} for {judge}"
        captioner, ours = publication.captioners.get(setting, ""), self.entry.prompts.captioner.partition("@")[0]
        if captioner and ours and ours != captioner:
            yield f"other captioner: {ours} for {captioner}"
        if printed.metric in publication.unnamed_scorers:
            yield "other scorer: the paper does not name its own"
        for kind in publication.scorers.get(printed.metric, ()):
            default = definition.default_scorers[kind].partition(":")[0]
            if self.scorers.get(kind, default) != default:
                yield f"other scorer: {self.scorers[kind]} for {default}"


def judge_name(out: Store, run: RunManifest, name: str) -> str:
    """Return the name, at its maker, of the judge whose verdicts an output has; '' for none, all where several."""
    judge = run.sweep.first_judge
    judges = [
        model
        for model in run.models
        if model == judge or (not judge and list_parts(out, part_folder("judgements", name, model)))
    ]
    return ", ".join(str(run.models[model].get("model") or model) for model in judges)


def published_names(model: str, spec: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the names under which a benchmark's paper may print a model of a run.

    They are those of its entry, else of the catalog entry of its name, else of one with the same weights, else of one
    that the paper prints under the model's own name, as authors call it in their files, else its own.
    """
    stated = tuple(row["name"] for row in spec.get("published_as", ()) if row["benchmark"] == name)
    if stated:
        return stated
    entry = catalog().get(model)
    same_weights = [other for other in catalog().values() if is_same_model(spec, other)]
    entries = [entry] if entry else same_weights or _published_as(name, model)
    printed = [text for entry in entries for paper, text in _printed_names(entry) if paper == name]
    return tuple(dict.fromkeys(printed)) or (model,)


def published_settings(model: str, spec: Mapping[str, Any], name: str) -> dict[str, frozenset[str]]:
    """Return printed name -> published settings, for names under which a paper prints several models."""
    stated = spec.get("published_as") or ()
    entry = catalog().get(model)
    if not stated and entry:
        stated = [printed.model_dump() for printed in entry.published_as]
    return {
        row["name"]: frozenset(row["settings"]) for row in stated if row["benchmark"] == name and row.get("settings")
    }


def is_same_model(spec: Mapping[str, Any], entry: ModelSpec) -> bool:
    """Return whether a model of `run.json` has the weights of a catalog entry, in any revision."""
    if spec.get("engine") == "external" or (spec.get("engine") == "random") != entry.is_random:
        return False
    return (spec.get("model") or "", spec.get("adapter")) == (entry.model, entry.adapter)


@cache
def _published_as(name: str, printed: str) -> tuple[ModelSpec, ...]:
    """Return the catalog entries whose numbers a benchmark's paper prints under a name."""
    return tuple(spec for spec in catalog().values() if (name, printed) in _printed_names(spec))


def _printed_names(spec: ModelSpec) -> list[tuple[str, str]]:
    return [(printed.benchmark, printed.name) for printed in spec.published_as]

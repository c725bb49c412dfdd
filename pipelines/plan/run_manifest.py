"""`run.json`: the contents of an output, to which a later run adds."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.errors import StoreError
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import Limit, SampleSelection, TaskSetting, all_cells, holds_captions
from pipelines.storage.store import Store
from pipelines.version import __version__

_PARTS = ("models", "scorers", "datasets", "prompts")
"""To which each run adds its own."""
PACKAGES = ("ray", "torch", "transformers", "accelerate", "pyarrow", "numpy", "pillow", "decord", "openai", "sacrebleu")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSelection:
    """Tasks and settings that an earlier run evaluated on other samples than the last one."""

    cells: tuple[TaskSetting, ...]
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """Tasks and settings that are asked with other prompts too, or with another captioner's captions."""

    name: str
    versions: Mapping[str, str]
    """Prompt version -> version used in its place."""
    cells: tuple[TaskSetting, ...]
    captioner: str = ""
    """Key of the captioner; '' for the target's."""

    @property
    def key(self) -> tuple[str, str]:
        """The name and captioner, which identify the set in an entry."""
        return self.name, self.captioner


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One model on one benchmark, as this output holds it."""

    benchmark: str
    model: str
    data: str
    target: ModelTarget
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()
    external: bool = False
    """The answers were made elsewhere."""
    earlier: tuple[CellSelection, ...] = ()
    """Tasks and settings that the report shows on other samples than `limit` and `sample_ids` select."""
    prompt_set: str = ""
    """Name of the target's set of prompts, where a run named it."""
    other_prompt_sets: tuple[PromptSet, ...] = ()
    """Sets of prompts reported in addition to the target's."""

    @property
    def prompts(self) -> PromptPlan:
        """The prompts of the model's requests."""
        return self.target.prompts

    @property
    def selection(self) -> SampleSelection:
        """The samples that `limit` and `sample_ids` select."""
        return SampleSelection(Limit.parse(self.limit) if self.limit else None, self.sample_ids)

    def by_selection(self) -> list[ManifestEntry]:
        """Return the entry as one entry per selection of samples; no task and setting is in two of them."""
        earlier_cells = {cell for selection in self.earlier for cell in selection.cells}
        cells = tuple(cell for cell in self.prompts.task_settings if cell not in earlier_cells)
        current = CellSelection(cells=cells, limit=self.limit, sample_ids=self.sample_ids)
        return [
            replace(
                self,
                target=self.target.with_prompts(task_settings=selection.cells),
                limit=selection.limit,
                sample_ids=selection.sample_ids,
                earlier=(),
            )
            for selection in (current, *self.earlier)
            if selection.cells or not self.earlier
        ]

    def by_prompt_set(self) -> list[ManifestEntry]:
        """Return the entry as entries of one set of prompts each, the target's own first."""
        return [
            replace(self, other_prompt_sets=()),
            *(self._for_prompt_set(prompt_set) for prompt_set in self.other_prompt_sets),
        ]

    def is_of_other_prompt_set(self, version: str, captioner: str = "") -> bool:
        """Return whether a prompt's version, or its caption, belongs to another set of prompts than the target's."""
        if captioner and captioner != self.prompts.captioner_name:
            return True
        version, versions = version.removesuffix("+custom"), self.prompts.prompt_versions
        replacements = {new for prompt_set in self.other_prompt_sets for new in prompt_set.versions.values()}
        return bool(self.other_prompt_sets) and (
            version in versions or version in replacements.difference(versions.values())
        )

    def _for_prompt_set(self, prompt_set: PromptSet) -> ManifestEntry:
        included = {*prompt_set.cells, *self._cells_of_all_captioners(prompt_set)}
        cells = tuple(cell for cell in self.prompts.task_settings if cell in included)
        selections = [
            replace(selection, cells=tuple(cell for cell in selection.cells if cell in included))
            for selection in self.earlier
        ]
        captioner = prompt_set.captioner or self.prompts.captioner
        return replace(
            self,
            target=self.target.with_prompts(
                task_settings=cells, prompt_versions=prompt_set.versions, captioner=captioner
            ),
            earlier=tuple(selection for selection in selections if selection.cells),
            prompt_set=prompt_set.name,
            other_prompt_sets=(),
        )

    def _cells_of_all_captioners(self, prompt_set: PromptSet) -> Iterable[TaskSetting]:
        """Return the cells without captions: with those of a set's captioner they are compared, and asked once."""
        if not prompt_set.captioner:
            return ()
        if prompt_set.name == self.prompt_set:
            cells = self.prompts.task_settings
        else:
            same = (other for other in self.other_prompt_sets if other.key == (prompt_set.name, ""))
            cells = next((other.cells for other in same), ())
        return [cell for cell in cells if not holds_captions(benchmark(self.benchmark), cell)]

    def to_dict(self) -> dict[str, Any]:
        """Return the form of `run.json`."""
        raw = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "target"}
        if not self.prompt_set and not self.other_prompt_sets:  # the form of runs in one set of prompts
            del raw["prompt_set"], raw["other_prompt_sets"]
        else:
            raw["other_prompt_sets"] = [asdict(prompt_set) for prompt_set in self.other_prompt_sets]
        return {**raw, "asker": self.target.to_json(), "earlier": [asdict(selection) for selection in self.earlier]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ManifestEntry:
        """Read the form of `run.json`; ValueError, TypeError or KeyError if it is malformed."""
        earlier = tuple(
            CellSelection(
                cells=_read_cells(selection["cells"]),
                limit=selection["limit"],
                sample_ids=tuple(selection["sample_ids"]),
            )
            for selection in raw.get("earlier", ())
        )
        others = tuple(
            PromptSet(**{**prompt_set, "cells": _read_cells(prompt_set["cells"])})
            for prompt_set in raw.get("other_prompt_sets", ())
        )
        values = {name: value for name, value in raw.items() if name != "asker"}
        lists = {"sample_ids": tuple(raw["sample_ids"]), "earlier": earlier, "other_prompt_sets": others}
        return cls(**{**values, **lists, "target": ModelTarget.from_json(raw["asker"])})


def _read_cells(raw: Iterable[Mapping[str, str]]) -> tuple[TaskSetting, ...]:
    return tuple(TaskSetting(**cell) for cell in raw)


def merge_entries(old: Iterable[ManifestEntry], new: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Merge entries of earlier runs with those of this one.

    A model that runs on other tasks and settings of the same benchmark keeps both, each with its last samples; with
    another seed, wording, captioner, revision or data it replaces its earlier entry.
    """
    merged = {(entry.benchmark, entry.model): entry for entry in old}
    for entry in new:
        key = (entry.benchmark, entry.model)
        earlier = merged.get(key)
        merged[key] = joined_entry(earlier, entry) if earlier else entry
    return [merged[key] for key in sorted(merged)]


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


def load_run(out: Store) -> dict[str, Any]:
    """Load `run.json`; {} without one, StoreError for a damaged one."""
    try:
        raw = out.get("run.json")
    except FileNotFoundError:
        return {}
    try:
        run: dict[str, Any] = json.loads(raw)
        run["entries"] = [ManifestEntry.from_dict(raw) for raw in run["entries"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{out.uri}/run.json: damaged ({error}); move it away, predictions are kept") from error
    return run


def save_run(
    out: Store,
    earlier: Mapping[str, Any],
    *,
    sweep: Mapping[str, Any],
    entries: Sequence[ManifestEntry],
    parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write `run.json` and return it: the merged `entries`, and this run's `parts` over those of the `earlier` file."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    wording = {**earlier.get("prompts", {}), **parts.get("prompts", {})}
    run = {
        "product": f"vlmsweep {__version__}",
        "created": earlier.get("created", now),
        "updated": now,
        "sweep": dict(sweep),
        **{name: {**earlier.get(name, {}), **parts.get(name, {})} for name in _PARTS if name in {*earlier, *parts}},
        "prompt_fingerprints": {
            name: {prompt: prompt_fingerprint(text) for prompt, text in texts.items()}
            for name, texts in wording.items()
        },
        "versions": versions(),
        "spending": earlier.get("spending", []),
        "entries": [entry.to_dict() for entry in entries],
    }
    out.put("run.json", json.dumps(run, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return {**run, "entries": list(entries)}


def prompt_fingerprint(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a prompt's wording."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Return the versions of the software that computes."""
    packages = {"python": platform.python_version(), "vlmsweep": __version__}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "absent"
    return packages

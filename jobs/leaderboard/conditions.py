"""The conditions under which a number was measured, and conflicts between the rows of one table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pipelines.benchmarks.records import is_person
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, prompt_fingerprint
from pipelines.plan.run_spec import scorers_by_kind
from pipelines.report.comparability import judge_name
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from jobs.leaderboard.rows import LeaderboardRow

_DIGITS: Final = 12  # of a fingerprint in a message
_MAX_SOURCES: Final = 3  # of the rows that share a value, in a message
_ALL_SAMPLES: Final = "all samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A condition in which the rows of a benchmark differ that would stand in one table."""

    benchmark: str
    kind: str
    values: Mapping[str, Sequence[str]]  # value -> `OUTPUT (MODEL)` of the rows that have it

    def __str__(self) -> str:
        sides = [f"{value} in {_shortened(sources)}" for value, sources in self.values.items()]
        return f"{self.benchmark}: {self.kind}: {'; '.join(sides)}"


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


def find_conflicts(rows: Iterable[LeaderboardRow]) -> list[Conflict]:
    """Return in what the rows of one table differ, once for each benchmark and kind."""
    differing: dict[tuple[str, str], dict[str, list[str]]] = {}
    for of_board in _by_board(rows).values():
        for kind in _differing_kinds(of_board):
            values = differing.setdefault((of_board[0].board[0], kind), {})
            for row in of_board:
                if kind in row.conditions:
                    values.setdefault(row.conditions[kind], []).append(f"{row.source} ({row.model})")
    return [
        Conflict(
            benchmark=name, kind=kind, values={value: [*dict.fromkeys(sources)] for value, sources in values.items()}
        )
        for (name, kind), values in differing.items()
    ]


def conflict_notes(rows: Sequence[LeaderboardRow]) -> list[tuple[str, ...]]:
    """Return for each row its own values of the conditions in which its table differs."""
    differing = {board: _differing_kinds(of_board) for board, of_board in _by_board(rows).items()}
    return [
        tuple(f"{kind} {row.conditions[kind]}" for kind in differing[row.board] if kind in row.conditions)
        for row in rows
    ]


def _by_board(rows: Iterable[LeaderboardRow]) -> dict[tuple[str, ...], list[LeaderboardRow]]:
    boards: dict[tuple[str, ...], list[LeaderboardRow]] = {}
    for row in rows:
        boards.setdefault(row.board, []).append(row)
    return boards


def _differing_kinds(rows: Sequence[LeaderboardRow]) -> list[str]:
    distinct = Counter(kind for kind, _ in {item for row in rows for item in row.conditions.items()})
    return sorted(kind for kind, values in distinct.items() if values > 1)


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
                [f"--sample-id {_shortened(sorted(selected_entry.sample_ids))}"] if selected_entry.sample_ids else []
            )
            selections.append(" ".join(chosen) or _ALL_SAMPLES)
    return ", ".join(dict.fromkeys(selections)) or _ALL_SAMPLES


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in sorted(values.items())
    )


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _MAX_SOURCES
    return ", ".join(names[:_MAX_SOURCES]) + (f" and {more} more" if more > 0 else "")

"""Select groups, each a task in a setting, and samples by the flags `--tasks --settings --limit --sample-id`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from pipelines.benchmarks import unknown_name
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class TaskSetting:
    """One task under one setting."""

    task: str
    setting: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A subset of the samples in canonical order: the first so many, a share, or a range."""

    first: int = 1  # 1-based, inclusive
    last: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `--limit`: `8` (the first 8), `0.1` (the first tenth), `11-20` (inclusive); else UsageError."""
        limit = cls._parse(text)
        if limit is None:
            raise UsageError(f"--limit {text!r}: give a count (8), a share of at most 1 (0.1), or a range (11-20)")
        return limit

    @classmethod
    def _parse(cls, text: str) -> Self | None:
        try:
            if "-" in text.strip("-"):
                first, last = (int(part) for part in text.split("-"))
            elif "." in text:
                share = float(text)
                return cls(share=share) if 0 < share <= 1 else None
            else:
                first, last = 1, int(text)
        except ValueError:
            return None
        return cls(first=first, last=last) if 1 <= first <= last else None

    def __str__(self) -> str:
        return json.dumps(self.share) if self.share is not None else f"{self.first}-{self.last or ''}"

    def span(self, total: int) -> range:
        """Return the selected positions (0-based) of `total` samples."""
        if self.share is not None:
            return range(max(1, round(self.share * total)) if total else 0)
        return range(self.first - 1, min(total, total if self.last is None else self.last))


@dataclass(frozen=True, slots=True)
class SampleSelection:
    """The samples that a plan covers: `--limit` and `--sample-id`."""

    limit: Limit | None = None
    sample_ids: tuple[str, ...] = ()

    def count(self, total: int) -> int:
        """Return how many of `total` samples are selected."""
        span = self.limit.span(total) if self.limit else range(total)
        return min(len(span), len(set(self.sample_ids))) if self.sample_ids else len(span)


def check_names(kind: str, names: Iterable[str], known_names: Sequence[str]) -> None:
    """Raise UnknownNameError for the first unknown name, with the nearest known one."""
    for name in names:
        if name not in known_names:
            raise unknown_name(kind, name, list(known_names))


def selected_groups(benchmark: BenchmarkDefinition, tasks: Sequence[str], settings: Sequence[str]) -> list[TaskSetting]:
    """Return the groups of a benchmark that models are asked; without flags, all but those that must be named."""
    not_asked = benchmark.explicit_settings if not settings else ()
    return [
        group
        for group in _named_groups(benchmark, tasks, settings)
        if group.setting not in (*not_asked, *benchmark.people_settings)
    ]


def human_groups(benchmark: BenchmarkDefinition, tasks: Sequence[str], settings: Sequence[str]) -> list[TaskSetting]:
    """Return the selected groups whose answers are people's, in the data; none where the flags do not name them."""
    groups = _named_groups(benchmark, tasks, settings) if settings else []
    return [group for group in groups if group.setting in benchmark.people_settings]


def all_groups(benchmark: BenchmarkDefinition) -> list[TaskSetting]:
    """Return every group of a benchmark in its order, also those that run only where a flag names them."""
    return _named_groups(benchmark, [], [])


def holds_captions(benchmark: BenchmarkDefinition, group: TaskSetting) -> bool:
    """Return whether the prompts of a group hold captions."""
    return group.setting in benchmark.captions.settings


def _named_groups(benchmark: BenchmarkDefinition, tasks: Sequence[str], settings: Sequence[str]) -> list[TaskSetting]:
    """Return all groups that the flags name, or all of the benchmark."""
    selected = {name for task in tasks for name in benchmark.derived_tasks.get(task, (task,))} or set(benchmark.tasks)
    return [
        TaskSetting(task, setting)
        for task, task_settings in benchmark.tasks.items()
        if task in selected
        for setting in task_settings
        if not settings or setting in settings
    ]

"""The specification of a sweep: resolved once from flags, config and models file, and stored as `run.json`."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final, Self

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.prompt_templates import check_placeholders
from pipelines.errors import UsageError
from pipelines.ingest.human_files import HumanFile
from pipelines.plan.options import CommonOptions, SweepOptions
from pipelines.plan.selection import Limit, SampleSelection, check_names, human_groups, selected_groups
from pipelines.plan.stopping.until import Until
from pipelines.plan.stress.conditions import Condition


class Stage(StrEnum):
    """A stage of a sweep, which can run alone."""

    PREDICT = "predict"
    SCORE = "score"
    REPORT = "report"


def allows_failures(budget: str, failed: int, total: int) -> bool:
    """Return whether `failed` of `total` rows are within a `--fail-on-error`; UsageError for a malformed one."""
    word = budget.strip().lower()
    if word in ("true", "yes", "false", "no"):
        return failed == 0 or word in ("false", "no")
    if re.fullmatch(r"\d+", word):
        return failed <= int(word)
    if re.fullmatch(r"0?\.\d+|1\.0*", word):
        return failed <= float(word) * total
    raise UsageError(f"--fail-on-error {budget!r}: give true, false, a fraction (0.05) or a count (20)")


_HUB_ID_WITH_REVISION: Final = re.compile(r"(\w[\w.-]*(?:/[\w.-]+)?)@(\w[\w./-]*)")


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """A text-similarity model: kind, folder or hub id, and for BERTScore the layer."""

    kind: str
    model: str
    layer: int | None = None
    named: bool = True  # requested by a flag: if unavailable, it ends the run; a default only makes its metrics null
    revision: str | None = None  # branch, tag or commit of the hub, as a flag names it; None: `main`
    commit: str | None = None  # what the hub says that the revision is; set by runs

    @classmethod
    def parse(cls, text: str, *, named: bool = True) -> Self:
        """Read `bertscore=MODEL[:layer]` or `bleurt=MODEL`, MODEL a folder or `HUB_ID[@revision]`; else UsageError."""
        match = re.fullmatch(r"(bertscore|bleurt)=(.+?)(?::(\d+))?", text)
        if not match or (match[1] == "bleurt" and match[3]):
            forms = "bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID, a hub id with @REVISION or without"
            raise UsageError(f"--scorer {text!r}: give {forms}")
        at_hub = _HUB_ID_WITH_REVISION.fullmatch(match[2])
        model, revision = (at_hub[1], at_hub[2]) if at_hub else (match[2], None)
        return cls(match[1], model, int(match[3]) if match[3] else None, named, revision)

    @property
    def loaded_revision(self) -> str | None:
        """The revision to load; None for the current `main`."""
        return self.commit or self.revision

    def __str__(self) -> str:
        return f"{self.kind}={self.address}" + (f":{self.layer}" if self.layer is not None else "")

    @property
    def address(self) -> str:
        """The model as a flag names it: a folder, or a hub id with its revision if that was given."""
        return self.model + (f"@{self.revision}" if self.revision else "")


def scorers_by_kind(texts: Iterable[str]) -> dict[str, ScorerSpec]:
    """Return the scorers that `--scorer` names, by kind."""
    return {spec.kind: spec for spec in map(ScorerSpec.parse, texts)}


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise UsageError(f"--wait-for-nodes {text}: give a time such as 2h, 45m or 90s")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


DEFAULT_PROMPTS = "default"  # name of the set of prompts that replaces none
SELF = "self"  # name of the captioner where each model captions for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec(CommonOptions):
    """One sweep, all names checked and models and files loaded."""

    models: Mapping[str, ModelSpec]
    judges: tuple[tuple[str, ModelSpec], ...] = ()
    """By name; the verdicts of the first give the metrics, those of all are compared."""
    captioners: tuple[tuple[str, ModelSpec], ...] = ()
    """By name; tables show prompts with the first one's captions, and one compares them all."""
    own_captions: bool = False  # `captioner: self`: each model reads its own captions; the report says so
    default_scorers: bool = True
    """False: only `scorers`; the benchmarks' own are models of gigabytes, which a hub would send."""
    scorer_commits: Mapping[str, str] = field(default_factory=dict)
    """Address of a scorer at the hub -> the commit that is loaded; set by runs."""
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The user's own wording: benchmark -> version -> text."""
    prompt_versions: Mapping[str, str] = field(default_factory=dict)  # prompt version -> version used in its place
    prompt_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Benchmark -> the sets of words that it is asked in; tables show the first."""
    human: tuple[HumanFile, ...] = ()

    def __post_init__(self) -> None:
        spelled = {
            "limit": None if self.limit is None else str(Limit.parse(self.limit)),
            "until": None if self.until is None else str(Until.parse(self.until)),
            "scorers": tuple(str(ScorerSpec.parse(text)) for text in self.scorers),
            "stress": tuple(dict.fromkeys(str(Condition.parse(text)) for text in self.stress)),
        }
        for name, value in spelled.items():  # one spelling: they are compared with those of earlier runs
            object.__setattr__(self, name, value)
        self.allows(0, 1)
        _ = self.wait_for_nodes_s
        chosen = [benchmark(name) for name in self.benchmarks]
        check_names("benchmark of --human", [file.benchmark for file in self.human], list(self.benchmarks))
        tasks, settings, versions = _names_of(chosen)
        check_names("task", self.tasks, tasks)
        check_names("setting", self.settings, settings)
        check_names("prompt version", [*self.prompt_versions, *self.prompt_versions.values()], versions)
        check_names("benchmark of --prompt-version", self.prompt_sets, list(self.benchmarks))
        for name, wording in self.prompts.items():
            for version, text in wording.items():
                check_names(f"prompt of {name}", [version], list(benchmark(name).prompt_texts))
                check_placeholders(text, benchmark(name).prompt_texts[version], f"prompt {version} of {name}")
        for name, sets in self.prompt_sets.items():
            check_names(f"set of prompts of {name}", sets, [DEFAULT_PROMPTS, *benchmark(name).prompt_sets])
        for entry in chosen if self.until else ():
            if entry.headline in entry.corpus_metrics:
                raise UsageError(
                    f"--until: {entry.headline}, the headline of {entry.name}, is a number of the whole corpus and no "
                    "mean over its rows, so no interval holds at every stop; leave --until out, or use --limit"
                )
        if self.until and self.stress:
            raise UsageError("--until: a stress test compares all rows under each condition; use --limit for fewer")
        groups = (selected_groups, human_groups)
        if not any(select(entry, self.tasks, self.settings) for entry in chosen for select in groups):
            raise UsageError("no benchmark has these tasks in these settings; see `vlmsweep list settings`")

    def part(self, models: Iterable[str], benchmarks: Collection[str]) -> Self:
        """Return the sweep of some of its models and benchmarks, without what is about others, and people's files."""
        tasks, settings, versions = _names_of([benchmark(name) for name in benchmarks])
        return replace(
            self,
            models={name: self.models[name] for name in models},
            benchmarks=tuple(benchmarks),
            tasks=tuple(name for name in self.tasks if name in tasks),
            settings=tuple(name for name in self.settings if name in settings),
            prompt_versions={old: new for old, new in self.prompt_versions.items() if old in versions},
            prompt_sets={name: sets for name, sets in self.prompt_sets.items() if name in benchmarks},
            human=(),
        )

    @property
    def caption_models(self) -> dict[str, ModelSpec]:
        """The models that caption, by name: those of `--captioner`, or every model for itself."""
        return dict(self.models if self.own_captions else self.captioners)

    @property
    def selection(self) -> SampleSelection:
        """The samples that the sweep covers."""
        return SampleSelection(Limit.parse(self.limit) if self.limit else None, self.sample_ids)

    @property
    def conditions(self) -> list[Condition]:
        """The conditions under which the first set of prompts is asked once more."""
        return [*map(Condition.parse, self.stress)]

    @property
    def wait_for_nodes_s(self) -> float | None:
        """How long a model waits for a node; None: half an hour where an autoscaler adds some."""
        return None if self.wait_for_nodes is None else _seconds(self.wait_for_nodes)

    def allows(self, failed: int, total: int) -> bool:
        """Return whether the run may exit with 0 when `failed` of `total` rows have failed."""
        return allows_failures(self.fail_on_error, failed, total)

    def versions_by_set(self, name: str) -> dict[str, dict[str, str]]:
        """Return the versions used in place of others in each set of prompts of a benchmark, the first set first."""
        definition = benchmark(name)
        versions = {old: new for old, new in self.prompt_versions.items() if old in definition.prompt_texts}
        sets = self.prompt_sets.get(name, (DEFAULT_PROMPTS,))
        return {chosen: {**versions, **definition.prompt_sets.get(chosen, {})} for chosen in sets}

    def record(self) -> SweepOptions:
        """Return the options for `run.json`; without secrets, because specs hold only the names of variables."""
        return SweepOptions(
            **{each.name: getattr(self, each.name) for each in fields(CommonOptions)},
            judge=",".join(name for name, _ in self.judges) or None,
            captioner=SELF if self.own_captions else ",".join(name for name, _ in self.captioners) or None,
            human=tuple(f"{file.benchmark}={file.uri}" for file in self.human),
        )

    def scorers_for(self, name: str) -> list[ScorerSpec]:
        """Return the benchmark's default scorers, replaced by those that a flag names; see `default_scorers`."""
        named = scorers_by_kind(self.scorers)
        defaults = benchmark(name).default_scorers
        scorers = [
            named.get(kind) or replace(ScorerSpec.parse(f"{kind}={text}"), named=False)
            for kind, text in defaults.items()
            if self.default_scorers or kind in named
        ]
        return [replace(scorer, commit=self.scorer_commits.get(scorer.address)) for scorer in scorers]


def _names_of(chosen: Sequence[BenchmarkDefinition]) -> tuple[list[str], list[str], list[str]]:
    """Return the tasks, settings and prompt versions of benchmarks, which flags may name."""
    return (
        [task for entry in chosen for task in (*entry.tasks, *entry.derived_tasks)],
        sorted({setting for entry in chosen for settings in entry.tasks.values() for setting in settings}),
        [version for entry in chosen for version in entry.prompt_texts],
    )

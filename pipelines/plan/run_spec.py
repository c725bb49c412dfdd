"""What a sweep is: resolved once from flags, config and models file, stored as `run.json`, sent to no one else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from models.fingerprint import answer_fingerprint
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import HumanFile
from pipelines.plan.captions import caption_key
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.selection import Limit, cells_of, check_names
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True)
class FailureBudget:
    """How many failed rows a run may have and still end with 0 (`--fail-on-error`)."""

    text: str = "true"

    def __post_init__(self) -> None:
        self.allows(0, 1)

    def allows(self, failed: int, total: int) -> bool:
        """Whether so many failed rows of so many are within the budget.

        Raises:
            UsageError: the text is no bool, fraction or count.
        """
        word = self.text.strip().lower()
        if word in ("true", "yes", "false", "no"):
            return failed == 0 or word in ("false", "no")
        if re.fullmatch(r"\d+", word):
            return failed <= int(word)
        if re.fullmatch(r"0?\.\d+|1\.0*", word):
            return failed <= float(word) * total
        raise UsageError(f"--fail-on-error {self.text!r}: give true, false, a fraction (0.05) or a count (20)")


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """A text-similarity model: kind, folder or hub id, and for BERTScore the layer."""

    kind: str
    model: str
    layer: int | None = None
    named: bool = True
    """Asked for by a flag; a default that cannot be had makes its metrics null, a named one ends the run."""

    @classmethod
    def parse(cls, text: str, *, named: bool = True) -> ScorerSpec:
        """Read `bertscore=DIR_OR_HUB_ID[:layer]` or `bleurt=DIR_OR_HUB_ID`.

        Raises:
            UsageError: it has another form.
        """
        match = re.fullmatch(r"(bertscore|bleurt)=(.+?)(?::(\d+))?", text)
        if not match or (match[1] == "bleurt" and match[3]):
            raise UsageError(f"--scorer {text!r}: give bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID")
        return cls(match[1], match[2], int(match[3]) if match[3] else None, named)


SELF = "self"
"""The captioner's name that means each model by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One sweep, all names checked."""

    data: str
    out: str
    models: Mapping[str, ModelSpec]
    benchmarks: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    limit: Limit | None = None
    sample_ids: tuple[str, ...] = ()
    judge: tuple[str, ModelSpec] | None = None
    captioner: tuple[str, ModelSpec] | None = None
    own_captions: bool = False
    """`captioner: self`: each model reads its own captions; only when asked for, and told in the report."""
    scorers: tuple[ScorerSpec, ...] = ()
    address: str | None = None
    fail_on_error: FailureBudget = FailureBudget()
    seed: int = 42
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The user's own wording: benchmark -> version -> text."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Prompt version -> version used in its place."""
    command: tuple[str, ...] = ()
    lock: str = ""
    """The run that holds the output, while it does (`lock.held`)."""
    human: tuple[HumanFile, ...] = ()
    """Files of people's own work."""
    cost_limit: float | None = None
    """Dollars that this run may spend."""

    def __post_init__(self) -> None:
        chosen = [benchmark(name) for name in self.benchmarks]
        check_names("benchmark of --human", [one.benchmark for one in self.human], list(self.benchmarks))
        check_names("task", self.tasks, [t for one in chosen for t in (*one.tasks, *one.derived_tasks)])
        check_names("setting", self.settings, sorted({s for one in chosen for own in one.tasks.values() for s in own}))
        versions = [version for one in chosen for version in one.prompt_texts]
        check_names("prompt version", [*self.instead, *self.instead.values()], versions)
        if not any(cells_of(one, self.tasks, self.settings) for one in chosen):
            raise UsageError("these tasks and settings have no cell in common; see `vlmsweep list settings`")

    def askers(self, model: str) -> list[tuple[RequestBuilder, Dataset]]:
        """What this model is asked, benchmark by benchmark.

        Raises:
            DatasetError: a benchmark's data is not there.
        """
        name = model if self.own_captions else self.captioner[0] if self.captioner else ""
        key = caption_key(name, answer_fingerprint(self.captioners[name])) if name else ""
        return [(replace(asker, captioner=key), dataset) for asker, dataset in self._askers(model, self.models[model])]

    def check_data(self) -> None:
        """Look whether every benchmark's data is there, before anything is started.

        Raises:
            DatasetError, StoreError: one is not, or its place cannot be reached.
        """
        for name in self.benchmarks:
            if cells_of(benchmark(name), self.tasks, self.settings):
                Dataset.open(Store(self.data), name)

    @property
    def captioners(self) -> dict[str, ModelSpec]:
        """Who captions, by name: the one that was named, or every model for itself."""
        if self.own_captions:
            return dict(self.models)
        return dict([self.captioner]) if self.captioner else {}

    def caption_askers(self, name: str) -> list[tuple[RequestBuilder, Dataset]]:
        """What a captioner is asked, benchmark by benchmark."""
        own = self._askers(name, self.captioners[name])
        return [(replace(asker, kind="caption"), dataset) for asker, dataset in own]

    def _askers(self, model: str, spec: ModelSpec) -> Iterator[tuple[RequestBuilder, Dataset]]:
        fingerprint = answer_fingerprint(spec)
        for name in self.benchmarks:
            cells = cells_of(benchmark(name), self.tasks, self.settings)
            if not cells:
                continue
            dataset = Dataset.open(Store(self.data), name)
            known = benchmark(name).prompt_texts
            asker = RequestBuilder(
                benchmark_name=name,
                dataset_fingerprint=dataset.manifest.dataset_fingerprint,
                model=model,
                model_fingerprint=fingerprint,
                generation=spec.generation.model_dump(exclude_none=True),
                cells=tuple(cells),
                prompts=self.prompts.get(name, {}),
                instead={old: new for old, new in self.instead.items() if old in known},
                seed=self.seed,
            )
            PromptTexts(known, asker.prompts, asker.instead)
            yield asker, dataset

    def describe(self) -> dict[str, Any]:
        """For `run.json`; secrets are not in it, because specs hold only the names of variables."""
        return {
            "command": list(self.command),
            "data": self.data,
            "seed": self.seed,
            "benchmarks": list(self.benchmarks),
            "tasks": list(self.tasks),
            "settings": list(self.settings),
            "limit": _limit_text(self.limit),
            "sample_ids": list(self.sample_ids),
            "judge": self.judge[0] if self.judge else None,
            "captioner": SELF if self.own_captions else self.captioner[0] if self.captioner else None,
            "scorers": [f"{s.kind}={s.model}" + (f":{s.layer}" if s.layer is not None else "") for s in self.scorers],
            "fail_on_error": self.fail_on_error.text,
            "human": [f"{one.benchmark}={one.uri}" for one in self.human],
            "cost_limit": self.cost_limit,
        }

    def scorers_for(self, name: str) -> list[ScorerSpec]:
        """The benchmark's default scorers, those that a flag names put in their place."""
        named = {one.kind: one for one in self.scorers}
        defaults = benchmark(name).default_scorers
        return [
            named.get(kind) or replace(ScorerSpec.parse(f"{kind}={text}"), named=False)
            for kind, text in defaults.items()
        ]


def _limit_text(limit: Limit | None) -> str | None:
    if limit is None:
        return None
    return json.dumps(limit.share) if limit.share is not None else f"{limit.first}-{limit.last or ''}"

"""What captioners and the judge will be asked in a sweep that has not run: for `--dry-run`, which only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.records import JudgeAsk, Row, Sample
from pipelines.ingest.dataset import Dataset
from pipelines.plan.captions import load_captions
from pipelines.plan.planner import load_completed, selected_samples
from pipelines.plan.records import Plan
from pipelines.plan.requests import PlannedRequest, RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.token_estimate import CHARS_PER_TOKEN, count_words
from pipelines.predict.stage import caption_plans
from pipelines.score.judge import Judge
from pipelines.score.stage import context_of, planned_rows
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """A model that is asked beside those that are evaluated, and what it will be asked at the most."""

    role: Literal["captioner", "judge"]
    name: str
    spec: ModelSpec
    plan: Plan
    told: str
    """What it is and how far its numbers are to be trusted, in few words."""


def captioners(spec: RunSpec) -> list[Helper]:
    """Captions that are still to be made, one a picture."""
    return [
        Helper(role="captioner", name=name, spec=model, plan=plan, told="captioner")
        for name, model in spec.captioners.items()
        for plan in caption_plans(spec, name)
        if plan.total
    ]


def placeholder_captions(spec: RunSpec, asker: RequestBuilder, dataset: Dataset) -> dict[str, str]:
    """Captions by picture hash: those that are there, and in place of the others words of the greatest length."""
    known = load_captions(Store(spec.out), asker.benchmark_name, asker.captioner)
    name = asker.captioner.rpartition("@")[0]
    for captioning in [one for one, _ in spec.caption_askers(name)] if name else []:
        if captioning.benchmark_name == asker.benchmark_name:
            for _, sample in selected_samples(dataset, spec.limit, spec.sample_ids):
                for asked in captioning.ask(sample):
                    known.setdefault(asked.columns["variant"], _words(asked))
    return known


def judges(spec: RunSpec, entries: Sequence[ManifestEntry], *, to_come: Sequence[ManifestEntry] = ()) -> list[Helper]:
    """What the judge will be asked at the most: every answer that needs it, again as often as it may be unreadable.

    Args:
        spec: the sweep.
        entries: whose answers are judged; all of the output.
        to_come: those whose open requests will be answered first, each with as long an answer as it may have.
    """
    if not spec.judge:
        return []
    out = Store(spec.out)
    found = []
    for name in sorted({entry.benchmark for entry in entries}):
        if type(benchmark(name)).judge is Benchmark.judge:
            continue
        own = [entry for entry in entries if entry.benchmark == name]
        asking = _Asking(Judge.recall(*spec.judge, out, name, mend=False), Plan(own[0].parsed_asker()))
        for entry in own:
            asking.answered(entry, out)
        for entry in (one for one in to_come if one.benchmark == name):
            asking.to_come(entry, spec)
        rounds = f"judge, at most {asking.rounds} rounds" if asking.rounds > 1 else "judge, at most"
        found.append(
            Helper(role="judge", name=asking.judge.name, spec=asking.judge.spec, plan=asking.plan, told=rounds)
        )
    return found


@dataclass(slots=True)
class _Asking:
    """Counts a judge's questions about one benchmark."""

    judge: Judge
    plan: Plan
    rounds: int = 1
    _seen: set[str] = field(default_factory=set)

    def answered(self, entry: ManifestEntry, out: Store) -> None:
        """Of answers that are there: verdicts that are open, equal questions once."""
        context, one = context_of(entry), benchmark(entry.benchmark)
        for _, row in planned_rows(entry, context, out):
            ask = one.judge(row, context.texts)
            if not isinstance(ask, JudgeAsk):
                continue
            request = self.judge.open_question(ask, one.read_verdict)
            if request is not None and request.request_id not in self._seen:
                self._seen.add(request.request_id)
                self._count(ask, self.judge.verdict(ask, one.read_verdict).tries, row)

    def to_come(self, entry: ManifestEntry, spec: RunSpec) -> None:
        """Of answers that are not: equal ones, which share a verdict, cannot be foretold."""
        context, one = context_of(entry), benchmark(entry.benchmark)
        finished = load_completed(Store(spec.out), entry.benchmark, entry.model).finished
        asker = entry.parsed_asker()
        captions = placeholder_captions(spec, asker, context.dataset)
        for _, sample in selected_samples(context.dataset, spec.limit, spec.sample_ids):
            for asked in asker.ask(sample, captions):
                if asked.excluded or bytes.fromhex(asked.request_id) in finished:
                    continue
                row = _longest(asked, sample, context.seed)
                ask = one.judge(row, context.texts)
                if isinstance(ask, JudgeAsk):
                    self._count(ask, 0, row)

    def _count(self, ask: JudgeAsk, tried: int, row: Row) -> None:
        self.plan.requests["judge", ""] += 1
        self.plan.pending["judge", ""] += 1
        self.rounds = max(self.rounds, len(ask.seeds))
        for attempt in range(tried, len(ask.seeds)):
            request = self.judge.question(ask, attempt)
            self.plan.calls += len(request.steps)
            count_words(self.plan, request, row.sample)


def _words(asked: PlannedRequest) -> str:
    """Words that say nothing, as many as a request may be answered with."""
    steps = asked.request.steps
    most = steps[-1].generation.max_new_tokens * CHARS_PER_TOKEN if steps else 0
    return " ".join(["word"] * max(1, round(most / len("word "))))


def _longest(asked: PlannedRequest, sample: Sample, seed: int) -> Row:
    """An answer that says nothing, as long as it may be."""
    return Row(
        request_id=asked.request_id,
        sample=sample,
        model=asked.columns["model"],
        task=asked.columns["task"],
        setting=asked.columns["setting"],
        variant=asked.columns["variant"],
        status="ok",
        output=_words(asked),
        finish_reason="stop",
        steps=tuple("word" for _ in asked.request.steps[:-1]),
        seed=seed,
    )

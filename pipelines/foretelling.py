"""What captioners and the judge will be asked in a sweep that has not run: for `--dry-run`, which only reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from models.spec import ModelSpec
from pipelines.asking import Asked, load_captions
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Benchmark, JudgeAsk, Row, Sample
from pipelines.dataset import Dataset
from pipelines.entries import Entry
from pipelines.judging import Judge
from pipelines.plan import CHARS_PER_TOKEN, Plan, count_words, read_done, selected_samples
from pipelines.predicting import caption_plans
from pipelines.run_spec import RunSpec
from pipelines.scoring_run import context_of, planned_rows
from pipelines.store import Store

__all__ = ["Helper", "captioners", "judges"]


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


def judges(spec: RunSpec, entries: Sequence[Entry], *, to_come: Sequence[Entry] = ()) -> list[Helper]:
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
            asking.to_come(entry, out)
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

    def answered(self, entry: Entry, out: Store) -> None:
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

    def to_come(self, entry: Entry, out: Store) -> None:
        """Of answers that are not: equal ones, which share a verdict, cannot be foretold."""
        context, one = context_of(entry), benchmark(entry.benchmark)
        finished = read_done(out, entry.benchmark, entry.model).finished
        for sample, asked in _requests(entry, context.dataset, out):
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


def _requests(entry: Entry, dataset: Dataset, out: Store) -> Iterator[tuple[Sample, Asked]]:
    for one in entry.by_cut():
        asker = one.parsed_asker()
        captions = load_captions(out, entry.benchmark, asker.captioner)
        for _, sample in selected_samples(dataset, one.parsed_limit(), one.sample_ids):
            for asked in asker.ask(sample, captions):
                yield sample, asked


def _longest(asked: Asked, sample: Sample, seed: int) -> Row:
    """An answer that says nothing, as long as it may be."""
    steps = asked.request.steps
    words = "word " * max(1, round(steps[-1].generation.max_new_tokens * CHARS_PER_TOKEN / 5)) if steps else "word"
    return Row(
        request_id=asked.request_id,
        sample=sample,
        model=asked.columns["model"],
        task=asked.columns["task"],
        setting=asked.columns["setting"],
        variant=asked.columns["variant"],
        status="ok",
        output=words.strip(),
        finish_reason="stop",
        steps=tuple("word" for _ in steps[:-1]),
        seed=seed,
    )

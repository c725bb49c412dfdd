"""Requests that captioners and the judge of a sweep will get: for `--dry-run`, which only reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Judge
from pipelines.benchmarks.records import JudgeRequest, Row, split_variant
from pipelines.plan.completed import load_completed
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.planner import longest_text, placeholder_captions
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.token_estimate import estimate_tokens
from pipelines.predict.stage import caption_plans
from pipelines.score.judge import JudgeReplies
from pipelines.score.rows import ScoringContext
from pipelines.score.stage import planned_rows, scoring_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """A captioner or judge, and the most requests that it will get."""

    role: Literal["captioner", "judge"]
    name: str
    spec: ModelSpec
    plan: ModelPlan
    description: str  # its role, and how reliable its numbers are


def captioners(context: SweepContext) -> list[Helper]:
    """Return the captioners with their pending captions, one per picture."""
    return [
        Helper(role="captioner", name=name, spec=model, plan=plan, description="captioner")
        for name, model in context.spec.caption_models.items()
        for plan in caption_plans(context, name)
        if plan.total
    ]


def judges(
    context: SweepContext, entries: Sequence[ManifestEntry], *, pending: Sequence[ManifestEntry] = ()
) -> list[Helper]:
    """Return the judges of each benchmark with the most questions that they will get: all rounds of every open verdict.

    `entries` are all of the output; open requests of `pending` are answered first, as long as allowed.
    """
    helpers = []
    names = sorted({entry.benchmark for entry in entries})
    for benchmark_name, (name, spec) in product(names, context.spec.judges):
        prompter = benchmark(benchmark_name).judge
        if prompter is None:
            continue
        judged = [entry for entry in entries if entry.benchmark == benchmark_name]
        judge = JudgeReplies.load(name, spec, context.out, benchmark_name, repair=False)
        questions = _QuestionCount(prompter, judge, ModelPlan(judged[0].target))
        for entry in judged:
            questions.add_answered(context, entry)
        for entry in pending:
            for in_set in entry.by_prompt_set() if entry.benchmark == benchmark_name else ():
                questions.add_pending(context, in_set)
        rounds = f"judge, at most {questions.rounds} rounds" if questions.rounds > 1 else "judge, at most"
        helpers.append(Helper(role="judge", name=name, spec=spec, plan=questions.plan, description=rounds))
    return helpers


@dataclass(slots=True)
class _QuestionCount:
    prompter: Judge
    judge: JudgeReplies
    plan: ModelPlan
    rounds: int = 1
    _seen: set[str] = field(default_factory=set)

    def add_answered(self, context: SweepContext, entry: ManifestEntry) -> None:
        """Add the open verdicts on existing answers, equal questions once."""
        scoring = scoring_context(entry, context.out)
        read_verdict = self.prompter.read
        for row in planned_rows(context, entry, scoring):
            judge_request = self._question(scoring, row)
            request = self.judge.open_question(judge_request, read_verdict) if judge_request else None
            if judge_request and request and request.request_id not in self._seen:
                self._seen.add(request.request_id)
                self._add(judge_request, self.judge.verdict(judge_request, read_verdict).tries, row)

    def add_pending(self, context: SweepContext, entry: ManifestEntry) -> None:
        """Add the verdicts on answers to come: which of them will be equal, and share a verdict, is unknown."""
        scoring, spec, target = scoring_context(entry, context.out), context.spec, entry.target
        finished = load_completed(context.out, entry.benchmark, entry.model).finished
        samples = {sample.sample_id: sample for sample in iter_selected_samples(scoring.dataset, spec.selection)}
        captions = placeholder_captions(context, target, scoring.dataset)
        for plan_row in context.plans.open(scoring.dataset, target.prompts, spec.selection, captions).iter_columns():
            request_id = target.request_id(plan_row)
            if plan_row.excluded or request_id in finished:
                continue
            row = Row(
                request_id=request_id,
                sample=samples[plan_row.sample_id],
                model=target.model,
                task=plan_row.task,
                setting=plan_row.setting,
                variant=split_variant(plan_row.variant)[0],
                status="ok",
                output=longest_text(target, plan_row),
                finish_reason="stop",
                steps=tuple("word" for _ in target.generations(plan_row)[:-1]),
                seed=target.prompts.seed,
            )
            if judge_request := self._question(scoring, row):
                self._add(judge_request, 0, row)

    def _question(self, scoring: ScoringContext, row: Row) -> JudgeRequest | None:
        judge_request = self.prompter.ask(row, scoring.texts)
        return judge_request if isinstance(judge_request, JudgeRequest) else None

    def _add(self, judge_request: JudgeRequest, tries: int, row: Row) -> None:
        self.plan.requests["judge", ""] += 1
        self.plan.pending["judge", ""] += 1
        self.rounds = max(self.rounds, len(judge_request.seeds))
        media = {ref.sha256: ref for ref in row.sample.media}
        for attempt in range(tries, len(judge_request.seeds)):
            steps = self.judge.question(judge_request, attempt).steps
            tokens = estimate_tokens(steps, media)
            self.plan.calls += len(steps)
            self.plan.prompt_tokens += tokens.prompt_tokens
            self.plan.shared_tokens += tokens.media_tokens
            self.plan.pictures += tokens.pictures
            self.plan.output_tokens += sum(step.generation.max_new_tokens for step in steps)

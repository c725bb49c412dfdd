"""Requests that captioners and the judge of a sweep will get, and GPU memory: for `--dry-run`, which only reads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, Literal

from cluster.hardware import local_gpus, local_memory
from jobs.doctor import CPU_MARGIN, CheckResult, models_here
from models.engines.empty_weights import measured_size
from models.engines.offload import OffloadPlan, offload_rows, plan_offload
from models.fingerprint import is_unpinned
from models.gpu_memory import ASSUMED_GPU_BYTES, BatchShape, Placement, bytes_per_weight, format_bytes, plan_placement
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import Judge
from pipelines.benchmarks.records import JudgeRequest, Row, split_variant
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.planner import load_completed, longest_text, placeholder_captions
from pipelines.plan.prompt_plan import estimate_tokens
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.stage import caption_plans
from pipelines.score.judge import JudgeReplies
from pipelines.score.stage import planned_rows, scoring_context
from pipelines.score.text_scorers import ScoringContext

_ASSUMED_GPUS = 16  # GPUs of a cluster that is not connected yet

MODEL_HEADS = (
    *("model", "runs here", "weights GB", "gpus a replica", "papers"),
    *("engine", "license", "checkpoint", "revision", "why not"),
)
DEFAULT_MODEL_HEADS = 5  # of them, those that are shown without --wide: they fit 100 columns
MAIN_MODEL_HEADS = 3  # of them, those that a narrow terminal shows too


def model_rows(models: Mapping[str, ModelSpec]) -> list[list[str]]:
    """Return the rows of `list models`, with the columns of `MODEL_HEADS`."""
    return [
        _model_row(name, spec, results)
        for (name, spec), results in zip(models.items(), models_here(models), strict=True)
    ]


def _model_row(name: str, spec: ModelSpec, check: CheckResult) -> list[str]:
    size = measured_size(spec)
    return [
        name,
        "withdrawn" if spec.withdrawn else {"ok": "yes", "note": "not known"}.get(check.state, "no"),
        f"{size.parameters * bytes_per_weight(spec, size) / 1e9:.3g}" if size else "",
        f"{spec.tensor_parallel / spec.replicas_per_gpu:g}" if spec.runs_locally else "0",
        ", ".join(spec.papers),
        spec.engine,
        spec.license or "",
        spec.model,
        "not pinned" if is_unpinned(spec) else (spec.revision or ""),
        "" if check.state == "ok" else check.detail,
    ]


def load_of(plan: ModelPlan) -> BatchShape:
    """Return the average batch of a plan's calls: media are shared, text and answer are each row's own."""
    calls = max(plan.calls, 1)
    own_tokens = (plan.prompt_tokens - plan.shared_tokens + plan.output_tokens) / calls
    return BatchShape(prefix_tokens=round(plan.shared_tokens / calls), own_tokens=max(1, round(own_tokens)))


def placement_for(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> Placement | None:
    """Return a model's placement on GPUs of `cards` bytes, else this machine's or 80 GB; None for an unknown size."""
    size = measured_size(spec)
    if size is None:
        return None
    gpu_sizes = list(cards) or _cards()
    return plan_placement(spec, size, gpu_sizes, batch=load_of(plan), tensor_parallel=spec.tensor_parallel)


def placement_summary(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> dict[str, Any] | None:
    """Describe the entry's placement and the estimated best one, as data and text."""
    size, placement = measured_size(spec), placement_for(spec, plan, cards)
    if size is None or placement is None:
        return None
    if not spec.can_use_gpu:
        return _on_cpu(size.parameters * bytes_per_weight(spec, size))
    gpu_sizes = list(cards) or _cards()
    best = plan_placement(spec, size, gpu_sizes, batch=load_of(plan))
    origin = "detected" if cards or any(local_gpus()) else "assumed: no local GPU"
    text = (
        f"{_gpus_a_replica(placement)}, "
        f"{format_bytes(placement.bytes_per_gpu)} each (weights {format_bytes(placement.need.weights)}, "
        f"activations {format_bytes(placement.need.activations)}, "
        f"cache {format_bytes(placement.bytes_per_gpu - placement.need.without_cache)} at {placement.batch_size} rows) "
        f"of {placement.gpu_bytes / 1e9:.0f} GB ({origin})"
    )
    if not placement.fits:
        text += f"; does not fit: {placement.reason}"
    offload = _offload(spec, placement)
    hours = _offload_hours(spec, offload, placement, plan) if offload else 0.0
    if offload:
        text += f"; {offload.summary}; {format_hours(hours)} or more for this plan"
    if best.fits and best.tensor_parallel != placement.tensor_parallel:
        text += f"; the estimate proposes tensor_parallel {best.tensor_parallel}, batches of {best.batch_size}"
    return {
        "fits": placement.fits,
        "words": text,
        "stated": _placement_data(placement),
        "proposed": _placement_data(best) if best.fits else None,
        "offload": {**asdict(offload), "seconds_per_pass": offload.seconds_per_pass, "hours": hours}
        if offload
        else None,
    }


def _gpus_a_replica(placement: Placement) -> str:
    if placement.per_gpu > 1:
        return f"{placement.per_gpu} replicas a GPU"
    return f"{placement.tensor_parallel} GPU{'s' if placement.tensor_parallel > 1 else ''} a replica"


def _on_cpu(weights: float) -> dict[str, Any]:
    """Describe the placement of an entry with `device: cpu`."""
    memory = local_memory()[0]
    text = f"on the CPU (device: cpu): {format_bytes(weights)} of weights against {memory / 1e9:.0f} GB of memory"
    fits = weights * CPU_MARGIN <= memory
    summary = {"fits": fits, "words": text if fits else f"{text}; does not fit"}
    return {**summary, "stated": None, "proposed": None, "offload": None}


def format_hours(hours: float) -> str:
    """Return hours with two digits or, from ten on, whole."""
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _offload(spec: ModelSpec, placement: Placement) -> OffloadPlan | None:
    """Return where layers of an entry with `offload: true` are kept; None for one without, or that fits."""
    gpu_bytes = placement.gpu_bytes if spec.can_use_gpu else 0
    offload = plan_offload(placement.need.weights, gpu_bytes=gpu_bytes, host_bytes=local_memory()[0])
    return offload if spec.offload and offload.host + offload.disk else None


def _offload_hours(spec: ModelSpec, offload: OffloadPlan, placement: Placement, plan: ModelPlan) -> float:
    """Return the hours that weights are moved for: each batch has a prefill and a forward pass a token."""
    memory = placement.gpu_bytes if spec.can_use_gpu else local_memory()[0]
    rows = spec.batch_size or offload_rows(placement.need, load_of(plan), memory)
    passes = (plan.calls + plan.output_tokens) / rows
    return passes * offload.seconds_per_pass / 3600


def _placement_data(placement: Placement) -> dict[str, Any]:
    fields = {
        name: getattr(placement, name)
        for name in ("tensor_parallel", "replicas", "batch_size", "bytes_per_gpu", "gpu_bytes")
    }
    return {**fields, "gpus": placement.gpus, "need": asdict(placement.need)}


def _cards() -> list[int]:
    return [*filter(None, local_gpus())] or [ASSUMED_GPU_BYTES] * _ASSUMED_GPUS


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

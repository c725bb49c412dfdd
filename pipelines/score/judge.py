"""The judge: questions about predictions become requests to another model, and no verdict is asked for twice.

A question's id is a hash of the judge and of the words, so equal answers of two models, or of one model under two
settings, share one verdict, and a later run finds it again. Verdicts lie beside the predictions as parts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from models.fingerprint import answer_fingerprint
from models.messages import Request, Step, prompt_sha256
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeAsk, Row, Verdict
from pipelines.hashing import stable_id
from pipelines.media.frame_cache import FrameSource
from pipelines.plan.units import MediaGroupSlice, WorkUnit, unit_name
from pipelines.predict.loader import Loaded
from pipelines.score.rows import ScoringContext, rows_of
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

UNIT_ASKS = 64
"""Verdicts committed together; a judge's prompts are short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The judge model of a sweep, and what it has said so far."""

    name: str
    spec: ModelSpec
    said: dict[str, str] = field(default_factory=dict)
    """Reply by question id."""
    failed: set[str] = field(default_factory=set)

    @classmethod
    def recall(cls, name: str, spec: ModelSpec, out: Store, benchmark_name: str, *, mend: bool = True) -> Judge:
        """The judge with what earlier runs asked it; `mend` is only for who holds the output."""
        judge = cls(name=name, spec=spec)
        for _, table in iter_parts(
            out, part_folder("judgements", benchmark_name, name), ["request_id", "status", "output"], repair=mend
        ):
            for row in table.to_pylist():
                if row["status"] == "ok":
                    judge.said[row["request_id"]] = row["output"]
                else:
                    judge.failed.add(row["request_id"])
        return judge

    def question(self, ask: JudgeAsk, attempt: int) -> Request:
        """The request for one attempt at a verdict."""
        return judge_request(ask, attempt, fingerprint(self.spec), self.spec.generation.model_dump(exclude_none=True))

    def verdict(self, ask: JudgeAsk, read: Callable[[str], bool | None]) -> Verdict:
        """What the replies so far amount to."""
        for attempt in range(len(ask.seeds)):
            request_id = self.question(ask, attempt).request_id
            if request_id not in self.said:
                return Verdict(state="failed" if request_id in self.failed else "absent", tries=attempt)
            accepted = read(self.said[request_id])
            if accepted is not None:
                return Verdict(state="ok", accepted=accepted, tries=attempt + 1)
        return Verdict(state="invalid", tries=len(ask.seeds))

    def open_question(self, ask: JudgeAsk, read: Callable[[str], bool | None]) -> Request | None:
        """The next request that is needed for a verdict; None when there is one, or when all tries are used up."""
        verdict = self.verdict(ask, read)
        return self.question(ask, verdict.tries) if verdict.state in ("absent", "failed") else None


def fingerprint(spec: ModelSpec) -> Mapping[str, Any]:
    """All of a judge's spec that changes its replies."""
    return answer_fingerprint(spec)


def judge_request(ask: JudgeAsk, attempt: int, judge: Mapping[str, Any], generation: Mapping[str, Any]) -> Request:
    """One attempt at a verdict; a retry differs in its seed alone."""
    settings = replace(ask.step.generation, **{**generation, "seed": ask.seeds[attempt]})
    step = Step(turns=ask.step.turns, generation=settings, choices=ask.step.choices)
    asked = {
        "judge": dict(judge),
        "prompt_sha256": prompt_sha256([step]),
        "generation": [settings.max_new_tokens, settings.temperature, settings.num_beams, settings.seed],
    }
    return Request(request_id=stable_id(asked), steps=(step,))


def judge_units(
    judge: Judge,
    rows: Iterable[tuple[str, Row]],
    benchmark_name: str,
    texts: PromptTexts,
    *,
    skip: Collection[str] = (),
) -> list[WorkUnit]:
    """Units for all verdicts that are still open, each question once.

    Args:
        judge: with what it has said.
        rows: (path of the prediction part, row), part by part.
        benchmark_name: whose questions.
        texts: wording of the judge's prompt.
        skip: questions that failed a moment ago and wait for the next run.
    """
    one = benchmark(benchmark_name)
    seen: set[str] = set(skip)
    units: list[WorkUnit] = []
    asked: list[tuple[str, str]] = []
    for part, row in rows:
        ask = one.judge(row, texts)
        if not isinstance(ask, JudgeAsk):
            continue
        request = judge.open_question(ask, one.read_verdict)
        if request is None or request.request_id in seen:
            continue
        seen.add(request.request_id)
        asked.append((part, request.request_id))
        if len(asked) == UNIT_ASKS:
            units.append(_unit(asked, benchmark_name, judge.name))
            asked = []
    if asked:
        units.append(_unit(asked, benchmark_name, judge.name))
    return units


def _unit(asked: list[tuple[str, str]], benchmark_name: str, judge: str) -> WorkUnit:
    ids = tuple(request_id for _, request_id in asked)
    folder = part_folder("judgements", benchmark_name, judge)
    return WorkUnit(
        benchmark=benchmark_name,
        part=f"{folder}/{unit_name(ids)}.parquet",
        pieces=tuple(MediaGroupSlice(part, "", ()) for part in dict.fromkeys(part for part, _ in asked)),
        requests=len(ids),
        only=ids,
    )


@dataclass(frozen=True, kw_only=True)
class JudgeLoaderSpec:
    """From which a worker builds a `JudgeLoader`."""

    data: str
    out: str
    benchmark: str
    judge: str
    spec: ModelSpec
    prompts: str
    """JSON: the user's own wording, and versions used in place of others."""
    attempts: int
    """Which attempt at a verdict this round is, at the most."""
    seed: int

    def build(self, frames: FrameSource | None = None) -> JudgeLoader:
        """The loader; a judge is shown words alone."""
        del frames
        return JudgeLoader(self)


class JudgeLoader:
    """Loads units of judge questions: reads the prediction parts again and makes the same questions."""

    def __init__(self, spec: JudgeLoaderSpec) -> None:
        self._spec = spec
        self._context = ScoringContext.from_json(spec.data, spec.benchmark, spec.prompts, spec.seed)
        self._out = Store(spec.out)
        self._fingerprint = fingerprint(spec.spec)
        self._generation = spec.spec.generation.model_dump(exclude_none=True)

    def load(self, unit: WorkUnit, alone: Collection[str] = (), *, blind: bool = False) -> Loaded:
        """Load one unit of questions; they show no media."""
        del alone, blind
        one = benchmark(self._spec.benchmark)
        wanted = set(unit.only)
        requests: dict[str, Request] = {}
        columns: dict[str, dict[str, Any]] = {}
        for piece in unit.pieces:
            for row in rows_of(self._out, piece.shard, self._context):
                ask = one.judge(row, self._context.texts)
                if not isinstance(ask, JudgeAsk):
                    continue
                for attempt in range(min(self._spec.attempts, len(ask.seeds))):
                    request = judge_request(ask, attempt, self._fingerprint, self._generation)
                    if request.request_id in wanted:
                        requests[request.request_id] = request
                        columns[request.request_id] = self._columns(request, row)
        return Loaded(unit=unit, columns=columns, requests=list(requests.values()), media={})

    def _columns(self, request: Request, row: Row) -> dict[str, Any]:
        return {
            "request_id": request.request_id,
            "sample_id": row.sample.sample_id,
            "benchmark": self._spec.benchmark,
            "task": "judge",
            "setting": "",
            "variant": "",
            "model": self._spec.judge,
            "model_revision": str(self._fingerprint.get("revision") or ""),
            "dataset_fingerprint": self._context.dataset.manifest.dataset_fingerprint,
            "prompt_version": "",
            "prompt_sha256": prompt_sha256(request.steps),
        }

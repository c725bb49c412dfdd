"""The judge: questions about predictions become requests to another model, stored next to the predictions.

A question's id is a hash of the judge and the words, so equal answers of any models and settings share one verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa

from models.fingerprint import answer_fingerprint
from models.message_codec import dump_steps, load_steps
from models.messages import Request, Step, prompt_sha256
from models.spec import ModelSpec
from pipelines.benchmarks.records import JudgeRequest, Row, Verdict
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.hashing import stable_id
from pipelines.media.recent_frames import FrameSource
from pipelines.plan.prompt_plan import estimate_tokens
from pipelines.plan.records import ModelPlan
from pipelines.plan.stored_plan import ROW_GROUP, PlanReader
from pipelines.plan.units import MediaGroupSlice, WorkUnit, unit_name
from pipelines.predict.loader import UNGUARDED, Loaded, MediaGuard
from pipelines.score.text_scorers import ScoringContext
from pipelines.storage.parts import batched, iter_parts, part_folder, tables_to_parquet
from pipelines.storage.store import Store

UNIT_QUESTIONS = 64  # verdicts committed together; a judge's prompts are short
PART_QUESTIONS = 2048
_COLUMNS = ("request_id", "sample_id", "dataset_fingerprint", "prompt_sha256", "messages")
JUDGE_PLAN = pa.schema([(name, pa.string()) for name in _COLUMNS])


@dataclass(slots=True, kw_only=True)
class JudgeReplies:
    """The judge of a sweep and its replies so far about one benchmark."""

    name: str
    spec: ModelSpec
    replies: dict[str, str] = field(default_factory=dict)  # by question id, as generated
    failed: set[str] = field(default_factory=set)  # questions whose last request failed
    _fingerprint: Mapping[str, Any] = field(init=False)
    _readable: dict[tuple[str, str], str] = field(
        init=False, default_factory=dict
    )  # replies without what is no verdict

    def __post_init__(self) -> None:
        self._fingerprint = answer_fingerprint(self.spec)

    @classmethod
    def load(cls, name: str, spec: ModelSpec, out: Store, benchmark_name: str, *, repair: bool = True) -> JudgeReplies:
        """Load the replies of earlier runs; `repair` is only for the owner of the output's lock."""
        judge = cls(name=name, spec=spec)
        judge.reload(out, benchmark_name, repair=repair)
        return judge

    def reload(self, out: Store, benchmark_name: str, *, repair: bool = True) -> None:
        """Add what was committed since."""
        columns = ["request_id", "status", "output"]
        for _, table in iter_parts(out, part_folder("judgements", benchmark_name, self.name), columns, repair=repair):
            for row in table.to_pylist():
                self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one committed row."""
        if row["status"] == "ok":
            self.replies[row["request_id"]] = row["output"]
        else:
            self.failed.add(row["request_id"])

    @property
    def revision(self) -> str:
        """The revision of the judge's weights."""
        return str(self._fingerprint.get("revision") or "")

    def question(self, judge_request: JudgeRequest, attempt: int) -> Request:
        """Build the request for one attempt at a verdict; retries differ in their seed."""
        overrides = self.spec.generation.model_dump(exclude_none=True)
        generation = replace(judge_request.step.generation, **{**overrides, "seed": judge_request.seeds[attempt]})
        step = Step(turns=judge_request.step.turns, generation=generation, choices=judge_request.step.choices)
        inputs = {
            "judge": dict(self._fingerprint),
            "prompt_sha256": prompt_sha256([step]),
            "generation": [generation.max_new_tokens, generation.temperature, generation.num_beams, generation.seed],
        }
        return Request(request_id=stable_id(inputs), steps=(step,))

    def verdict(self, judge_request: JudgeRequest, read_verdict: Callable[[str], bool | None]) -> Verdict:
        """Return the verdict from the replies so far."""
        for attempt in range(len(judge_request.seeds)):
            request_id = self.question(judge_request, attempt).request_id
            if request_id not in self.replies:
                return Verdict(state="failed" if request_id in self.failed else "absent", tries=attempt)
            reply = self._cleaned(request_id, read_verdict)
            if (accepted := read_verdict(reply)) is not None:
                return Verdict(state="ok", accepted=accepted, tries=attempt + 1, reply=reply)
        return Verdict(state="invalid", tries=len(judge_request.seeds))

    def _cleaned(self, request_id: str, read_verdict: Callable[[str], bool | None]) -> str:
        """Return what of a reply is its verdict."""
        raw = self.replies[request_id]
        if (cleaned := self._readable.get((request_id, raw))) is None:
            cleaned = clean_reply(raw, lambda text: read_verdict(text) is not None)[0]
            self._readable[request_id, raw] = cleaned
        return cleaned

    def open_question(self, judge_request: JudgeRequest, read_verdict: Callable[[str], bool | None]) -> Request | None:
        """Return the next request for a verdict; None if there is a verdict or no attempt is left."""
        verdict = self.verdict(judge_request, read_verdict)
        return self.question(judge_request, verdict.tries) if verdict.state in ("absent", "failed") else None


def open_questions(
    judge: JudgeReplies, rows: Iterable[Row], context: ScoringContext, asked_ids: set[str]
) -> Iterator[tuple[Request, Row]]:
    """Yield the next request for every open verdict, equal questions once, each with a row that raises it.

    `rows` are predictions of one benchmark. Questions in `asked_ids` are left out, and the others are added to them.
    """
    prompter = context.prompts.benchmark.judge
    if prompter is None:
        return
    for row in rows:
        judge_request = prompter.ask(row, context.texts)
        if not isinstance(judge_request, JudgeRequest):
            continue
        request = judge.open_question(judge_request, prompter.read)
        if request is not None and request.request_id not in asked_ids:
            asked_ids.add(request.request_id)
            yield request, row


def plan_questions(
    judge: JudgeReplies, questions: Iterable[tuple[Request, Row]], context: ScoringContext, out: Store, plan: ModelPlan
) -> None:
    """Write the judge's plan, and add its units and their estimated tokens to `plan`."""
    fingerprint = context.dataset.manifest.dataset_fingerprint
    for batch in batched(questions, PART_QUESTIONS):
        rows = [
            {
                "request_id": request.request_id,
                "sample_id": row.sample.sample_id,
                "dataset_fingerprint": fingerprint,
                "prompt_sha256": prompt_sha256(request.steps),
                "messages": dump_steps(request.steps),
            }
            for request, row in batch
        ]
        tables = (pa.Table.from_pylist(rows_of_group, JUDGE_PLAN) for rows_of_group in batched(rows, ROW_GROUP))
        content = tables_to_parquet(tables, JUDGE_PLAN)
        benchmark_name = context.prompts.benchmark_name
        path = f"{judge_plan_folder(benchmark_name)}/judge-{sha256(content).hexdigest()[:24]}.parquet"
        out.put(path, content)
        folder = part_folder("judgements", benchmark_name, judge.name)
        for start in range(0, len(rows), UNIT_QUESTIONS):
            ids = [row["request_id"] for row in rows[start : start + UNIT_QUESTIONS]]
            media_slice = MediaGroupSlice(path, "", tuple(range(start, start + len(ids))))
            part = f"{folder}/{unit_name(ids)}.parquet"
            plan.units.extend([WorkUnit(benchmark=benchmark_name, part=part, slices=(media_slice,), requests=len(ids))])
        plan.pending["judge", ""] += len(batch)
        plan.prompt_tokens += sum(estimate_tokens(request.steps, {}).prompt_tokens for request, _ in batch)
        plan.output_tokens += sum(step.generation.max_new_tokens for request, _ in batch for step in request.steps)


def judge_plan_folder(benchmark_name: str) -> str:
    """Return the folder of a judge's plans; they are deleted when its verdicts are committed."""
    return f"plan/benchmark={benchmark_name}"


def delete_judge_plans(out: Store, benchmark_name: str) -> None:
    """Delete the plans of a judge, those of a killed run too."""
    out.delete_all(judge_plan_folder(benchmark_name), pattern="judge-*.parquet")


@dataclass(frozen=True, kw_only=True)
class JudgeLoaderSpec:
    """Describes a `JudgeLoader` to a worker."""

    out_uri: str
    judge: str
    revision: str

    def build(self, frames: FrameSource | None = None) -> JudgeLoader:
        """Build the loader; a judge sees text alone."""
        del frames
        return JudgeLoader(self)


class JudgeLoader:
    """Loads units of a judge's plan."""

    def __init__(self, spec: JudgeLoaderSpec) -> None:
        self._spec = spec
        self._plans = PlanReader(Store(spec.out_uri))

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Loaded:
        """Load one unit of questions."""
        del exclusive_groups, guard
        requests: list[Request] = []
        columns: dict[str, dict[str, Any]] = {}
        for media_slice in unit.slices:
            for row in self._plans.raw_rows(media_slice.plan_part, media_slice.rows):
                steps = load_steps(row.pop("messages"))
                requests.append(Request(request_id=row["request_id"], steps=steps))
                columns[row["request_id"]] = {
                    **row,
                    "benchmark": unit.benchmark,
                    "task": "judge",
                    "setting": "",
                    "variant": "",
                    "model": self._spec.judge,
                    "model_revision": self._spec.revision,
                    "prompt_version": "",
                }
        return Loaded(unit=unit, columns=columns, requests=requests, media={})

    def close(self) -> None:
        """Release nothing: questions are text, and no process decodes them."""

"""Questions to a judge about an answer and its replies, looked up by the hash of the question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.view.index import Index
from jobs.view.outputs import Output
from jobs.view.prompts import answered_row
from models.messages import Text, prompt_sha256
from pipelines.benchmarks.records import JudgeRequest, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's reply, or its failure."""

    judge: str
    question: str
    reply: str


def judgements_of(output: Output, index: Index, prediction: Mapping[str, Any], sample: Sample) -> list[Judgement]:
    """Return all replies about an answer, retries included; none where no judge was asked."""
    entry = output.entry(prediction["benchmark"], prediction["model"])
    if entry is None or prediction.get("status") != "ok":
        return []
    for in_set in entry.by_prompt_set():
        prompter = in_set.prompts.benchmark.judge
        if prompter is None:
            return []
        judge_request = prompter.judge_request(
            answered_row(prediction, sample, in_set.prompts.seed), in_set.prompts.texts
        )
        if isinstance(judge_request, JudgeRequest) and (replies := [*_replies(output, index, judge_request)]):
            return replies
    return []


def _replies(output: Output, index: Index, judge_request: JudgeRequest) -> Iterator[Judgement]:
    question = "\n\n".join(
        part.text for turn in judge_request.step.turns for part in turn.parts if isinstance(part, Text)
    )
    for row in index.rows(
        "SELECT judge, reply FROM judgements WHERE prompt_sha256 = ? AND out = ? ORDER BY ALL",
        [prompt_sha256([judge_request.step]), output.number],
    ):
        yield Judgement(judge=row["judge"], question=question, reply=row["reply"] or "")

"""A sweep over samples in memory: planned, answered, scored and reduced by the product, without Ray or disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from models.engines.conversation import answer_requests
from models.engines.random_baseline import RandomEngine
from models.messages import Answer
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Metric, Row, Sample, Verdict
from pipelines.plan.selection import selected_groups
from tests.support.requests import PlannedRequest, build_requests, target_of

Say = Callable[[Sample, PlannedRequest], str]
"""The model's answer to a request."""
Compare = Callable[[str, str], float]
"""Candidate and reference -> similarity, in the place of a scorer model."""


def sample_requests(
    name: str, samples: Sequence[Sample], tasks: Sequence[str] = (), settings: Sequence[str] = ()
) -> Iterator[tuple[Sample, PlannedRequest]]:
    """Yield all requests of some cells, with their samples."""
    target = target_of(
        benchmark_name=name, dataset_fingerprint="f", model="m", seed=42,
        task_settings=tuple(selected_groups(benchmark(name), tasks, settings)),
    )  # fmt: skip
    for sample in samples:
        for request in build_requests(target, sample):
            yield sample, request


def guessed(seed: int = 0) -> Say:
    """Return the answers of the `random` engine."""
    engine = RandomEngine(ModelSpec(engine="random", seed=seed))

    def say(sample: Sample, request: PlannedRequest) -> str:
        del sample
        (reply,) = answer_requests(engine, [request.request], {})
        assert isinstance(reply.outcome, Answer)
        return reply.outcome.text

    return say


def same_words(candidate: str, reference: str) -> float:
    """Return 1 for equal texts, else 0.5."""
    return 1.0 if candidate == reference else 0.5


def reduced(
    name: str,
    samples: Sequence[Sample],
    say: Say,
    tasks: Sequence[str] = (),
    settings: Sequence[str] = (),
    compare: Compare = same_words,
    judge: bool | None = None,
) -> list[Metric]:
    """Reduce these cells to metrics; `judge` is the verdict on every question, None for no judge."""
    frame = scored(name, sample_requests(name, samples, tasks, settings), say, compare, judge)
    return benchmark(name).metrics(frame, {sample.sample_id: sample for sample in samples})


def scored(
    name: str,
    requests: Iterator[tuple[Sample, PlannedRequest]],
    say: Say,
    compare: Compare = same_words,
    judge: bool | None = None,
) -> pd.DataFrame:
    """Score the requests; return one row each, as `Benchmark.reduce` takes them."""
    texts = PromptTexts(benchmark(name).prompt_texts)
    return pd.DataFrame([scored_row(_row(name, texts, request, say, compare, judge), name) for request in requests])


def _row(
    name: str,
    texts: PromptTexts,
    sample_request: tuple[Sample, PlannedRequest],
    say: Say,
    compare: Compare,
    judge: bool | None,
) -> Row:
    sample, request = sample_request
    columns = request.columns
    row = Row(
        request_id=request.request_id, sample=sample, model="m", finish_reason="stop",
        task=columns["task"], setting=columns["setting"], variant=columns["variant"],
        status="excluded" if request.excluded else "ok", output=None if request.excluded else say(sample, request),
    )  # fmt: skip
    similarities = {
        ask.column: max(compare(ask.candidate, reference) for reference in ask.references)
        for ask in (benchmark(name).similarity or (lambda _: ()))(row)
    }
    asks = benchmark(name).judge
    question = asks.ask(row, texts) if asks else None
    return replace(row, given=similarities, verdict=_verdict(question, judge))


def _verdict(ask: object, judge: bool | None) -> Verdict:
    if ask is None or judge is None:
        return Verdict(state="absent")
    return Verdict(state="ok", accepted=ask if isinstance(ask, bool) else judge, tries=1)


def answered_row(sample: Sample, task: str, setting: str, output: str | None, **more: Any) -> Row:
    """Return a model's row of an answer; None is a failed request."""
    status = "error" if output is None else "ok"
    fields = {"request_id": "r", "model": "m", "variant": "", "status": status, **more}
    return Row(sample=sample, task=task, setting=setting, output=output, **fields)


def scored_row(row: Row, name: str, status: str = "") -> dict[str, Any]:
    """Return a row of the scores; one with a `status`, such as `missing`, has nothing that is read from an answer."""
    columns = {column: getattr(row, column) for column in ("request_id", "task", "setting", "variant", "status")}
    columns |= {column: getattr(row.sample, column) for column in ("sample_id", "subset", "category", "cluster")}
    if status:
        return {**columns, "status": status, "flags": None, "verdict_state": "absent"}
    reading = benchmark(name).reading(row)
    answer = {"answer": reading.answer, "rule": reading.rule, "flags": list(reading.flags)}
    further = {"finish_reason": row.finish_reason, "verdict_state": row.verdict.state}
    return {**columns, **answer, **further, **reading.values}


def metric_named(metrics: Sequence[Metric], name: str, **where: str) -> Metric:
    """Return the only metric of a name in a cell; of the whole unless `where` says otherwise."""
    expected = {"subset": "", "category": "", **where, "metric": name}
    (item,) = (m for m in metrics if all(getattr(m, key) == value for key, value in expected.items()))
    return item


def counts(metrics: Sequence[Metric], **where: str) -> Mapping[tuple[str, str], float | None]:
    """Return the metrics that are counts, by name and category."""
    matching_metrics = (
        m for m in metrics if m.unit == "count" and all(getattr(m, key) == value for key, value in where.items())
    )
    return {(m.metric, m.category): m.value for m in matching_metrics}

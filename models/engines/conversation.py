"""TODO doc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from models.engines.base import Engine
from models.errors import EngineContractError
from models.messages import (
    Answer,
    Call,
    CallReply,
    Failure,
    Frames,
    Media,
    Reply,
    Request,
    Step,
    StepOutput,
    Text,
    Turn,
)


@dataclass(slots=True)
class _Progress:
    """Where one request stands: texts so far, tokens and seconds spent."""

    request: Request
    texts: tuple[str, ...] = ()
    spent: Answer = field(default_factory=lambda: Answer(text=""))
    latency_s: float = 0.0


def answer_requests(engine: Engine, requests: Sequence[Request], media: Mapping[Media, Frames]) -> Iterator[Reply]:
    """Answer requests step by step, each exactly once; equal early steps are asked once and shared.

    Raises:
        EngineContractError: the engine lost, doubled or invented a call.
    """
    open_ = [_Progress(request) for request in requests]
    index = 0
    while open_:
        waiting = _by_call(open_, index)
        for reply in _exactly_once(engine, [call for call, _ in waiting.values()], media):
            for place, progress in enumerate(waiting[reply.call_id][1]):
                done = _advance(progress, _paid(reply) if place else reply, index)
                if done is not None:
                    yield done
        index += 1
        open_ = [p for p in open_ if len(p.texts) == index and index < len(p.request.steps)]


def _by_call(open_: Sequence[_Progress], index: int) -> dict[str, tuple[Call, list[_Progress]]]:
    """The calls of one step. Equal early steps become one call: a caption is made once for all that need it."""
    waiting: dict[str, tuple[Call, list[_Progress]]] = {}
    shared: dict[tuple[object, ...], str] = {}
    for progress in open_:
        step = progress.request.steps[index]
        turns = _filled(step, progress.texts)
        call_id = f"{progress.request.request_id}/{index}"
        if index + 1 < len(progress.request.steps):
            call_id = shared.setdefault((turns, step.generation, step.scored), call_id)
        if call_id in waiting:
            waiting[call_id][1].append(progress)
        else:
            call = Call(
                call_id=call_id,
                turns=turns,
                generation=step.generation,
                choices=step.choices,
                scored=step.scored,
            )
            waiting[call_id] = (call, [progress])
    return waiting


def _filled(step: Step, texts: Sequence[str]) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            turn.role,
            tuple(_said(part, texts) if isinstance(part, StepOutput) else part for part in turn.parts),
        )
        for turn in step.turns
    )


def _said(part: StepOutput, texts: Sequence[str]) -> Text:
    return Text(texts[part.step].strip() if part.stripped else texts[part.step])


def _exactly_once(engine: Engine, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
    left = {call.call_id for call in calls}
    for reply in engine.generate(calls, media):
        if reply.call_id not in left:
            raise EngineContractError(f"the engine answered {reply.call_id} twice, or was never asked it")
        left.remove(reply.call_id)
        yield reply
    if left:
        raise EngineContractError(f"the engine left {len(left)} of {len(calls)} calls unanswered, first {min(left)}")


def _paid(reply: CallReply) -> CallReply:
    """The same reply for a further request that shares this step: the first one has paid for its prompt."""
    if isinstance(reply.outcome, Failure):
        return reply
    free = None if reply.outcome.least_tokens is None else 0
    return replace(reply, outcome=replace(reply.outcome, cached_tokens=reply.outcome.input_tokens, least_tokens=free))


def _advance(progress: _Progress, reply: CallReply, index: int) -> Reply | None:
    """Take one step's reply in; the whole request's reply when that was the last one or a failure."""
    request_id = progress.request.request_id
    progress.latency_s += reply.latency_s
    if isinstance(reply.outcome, Failure):
        return Reply(request_id=request_id, outcome=reply.outcome, steps=progress.texts, latency_s=progress.latency_s)
    answer = reply.outcome
    total = replace(
        answer,
        input_tokens=progress.spent.input_tokens + answer.input_tokens,
        output_tokens=progress.spent.output_tokens + answer.output_tokens,
        cached_tokens=progress.spent.cached_tokens + answer.cached_tokens,
        head_tokens=answer.head_tokens or progress.spent.head_tokens,
        least_tokens=None if answer.least_tokens is None else (progress.spent.least_tokens or 0) + answer.least_tokens,
    )
    if index + 1 == len(progress.request.steps):
        return Reply(request_id=request_id, outcome=total, steps=progress.texts, latency_s=progress.latency_s)
    progress.texts = (*progress.texts, answer.text)
    progress.spent = total
    return None

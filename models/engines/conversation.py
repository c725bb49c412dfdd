"""Answer requests of several steps with an engine's calls."""

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
    Part,
    Reply,
    Request,
    Step,
    StepOutput,
    Text,
    Turn,
)


@dataclass(slots=True)
class _Progress:
    request: Request
    texts: tuple[str, ...] = ()
    total: Answer = field(default_factory=lambda: Answer(text=""))
    latency_s: float = 0.0


def answer_requests(engine: Engine, requests: Sequence[Request], media: Mapping[Media, Frames]) -> Iterator[Reply]:
    """Answer requests step by step; raise `EngineContractError` when the engine drops, repeats or invents a call."""
    active = [_Progress(request) for request in requests]
    index = 0
    while active:
        waiting = _by_call(active, index)
        for reply in _exactly_once(engine, [call for call, _ in waiting.values()], media):
            for position, progress in enumerate(waiting[reply.call_id][1]):
                finished = _advance(progress, _as_cached(reply) if position else reply, index)
                if finished is not None:
                    yield finished
        index += 1
        active = [p for p in active if len(p.texts) == index and index < len(p.request.steps)]


def _by_call(active: Sequence[_Progress], index: int) -> dict[str, tuple[Call, list[_Progress]]]:
    """Return the calls of one step; equal early steps become one call, as a caption for several requests."""
    waiting: dict[str, tuple[Call, list[_Progress]]] = {}
    shared: dict[tuple[object, ...], str] = {}
    for progress in active:
        step = progress.request.steps[index]
        turns = _fill_outputs(step, progress.texts)
        call_id = f"{progress.request.request_id}/{index}"
        if index + 1 < len(progress.request.steps):
            call_id = shared.setdefault((turns, step.generation, step.scored), call_id)
        if call_id in waiting:
            waiting[call_id][1].append(progress)
        else:
            waiting[call_id] = (Call.of(replace(step, turns=turns), call_id), [progress])
    return waiting


def _fill_outputs(step: Step, texts: Sequence[str]) -> tuple[Turn, ...]:
    def filled(part: Part) -> Part:
        if not isinstance(part, StepOutput):
            return part
        return Text(texts[part.step].strip() if part.stripped else texts[part.step])

    return tuple(Turn(turn.role, tuple(map(filled, turn.parts))) for turn in step.turns) if texts else step.turns


def _exactly_once(engine: Engine, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
    pending = {call.call_id for call in calls}
    for reply in engine.generate(calls, media):
        if reply.call_id not in pending:
            raise EngineContractError(f"the engine answered {reply.call_id} twice, or was never sent it")
        pending.remove(reply.call_id)
        yield reply
    if pending:
        raise EngineContractError(
            f"the engine left {len(pending)} of {len(calls)} calls unanswered, first {min(pending)}"
        )


def _as_cached(reply: CallReply) -> CallReply:
    """Return the reply for a further request that shares this step: the first one paid for its prompt."""
    if isinstance(reply.outcome, Failure):
        return reply
    free = None if reply.outcome.least_tokens is None else 0
    read = reply.outcome.input_tokens
    outcome = replace(reply.outcome, cached_tokens=read, cache_write_tokens=0, least_tokens=free)
    return replace(reply, outcome=outcome)


def _advance(progress: _Progress, reply: CallReply, index: int) -> Reply | None:
    request_id = progress.request.request_id
    progress.latency_s += reply.latency_s
    if isinstance(reply.outcome, Failure):
        return Reply(request_id=request_id, outcome=reply.outcome, steps=progress.texts, latency_s=progress.latency_s)
    answer = reply.outcome
    total = answer if index == 0 else _add_tokens(progress.total, answer)
    if index + 1 == len(progress.request.steps):
        return Reply(request_id=request_id, outcome=total, steps=progress.texts, latency_s=progress.latency_s)
    progress.texts = (*progress.texts, answer.text)
    progress.total = total
    return None


def _add_tokens(total: Answer, answer: Answer) -> Answer:
    """Return the answer of a later step with the tokens of the earlier ones added."""
    return replace(
        answer,
        input_tokens=total.input_tokens + answer.input_tokens,
        output_tokens=total.output_tokens + answer.output_tokens,
        cached_tokens=total.cached_tokens + answer.cached_tokens,
        cache_write_tokens=total.cache_write_tokens + answer.cache_write_tokens,
        head_tokens=answer.head_tokens or total.head_tokens,
        is_counted=total.is_counted and answer.is_counted,
        reserved_dollars=_sum_of(total.reserved_dollars, answer.reserved_dollars),
        least_tokens=None if answer.least_tokens is None else (total.least_tokens or 0) + answer.least_tokens,
    )


def _sum_of(first: float | None, second: float | None) -> float | None:
    return None if first is None and second is None else (first or 0.0) + (second or 0.0)

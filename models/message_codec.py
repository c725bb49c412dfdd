"""Requests as JSON, so that they can cross processes and be stored without pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from models.messages import Generation, Media, Part, Request, Step, StepOutput, Text, Turn


def _encode_part(part: Part) -> list[Any]:
    if isinstance(part, Text):
        return ["text", part.text]
    if isinstance(part, Media):
        return ["media", part.kind, part.source, part.frames]
    return ["output", part.step, part.stripped]


def _decode_part(raw: list[Any]) -> Part:
    kind, *fields = raw
    part: Part = {"text": Text, "media": Media, "output": StepOutput}[kind](*fields)
    return part


def dump_requests(requests: Sequence[Request]) -> bytes:
    """Encode requests as UTF-8 JSON."""
    return _dump(
        [[request.request_id, [_encode_step(step) for step in request.steps]] for request in requests]
    ).encode()


def load_requests(content: bytes) -> list[Request]:
    """Decode what `dump_requests` encoded."""
    return [
        Request(request_id=request_id, steps=tuple(map(_decode_step, steps)))
        for request_id, steps in json.loads(content)
    ]


def dump_steps(steps: Sequence[Step]) -> str:
    """Encode the steps of one request as ASCII JSON."""
    return _dump([_encode_step(step) for step in steps])


def load_steps(text: str) -> tuple[Step, ...]:
    """Decode the steps that `dump_steps` encoded."""
    return tuple(map(_decode_step, json.loads(text)))


def _dump(raw: list[Any]) -> str:
    # Model text may hold half a surrogate pair, which UTF-8 cannot carry: ASCII escapes can.
    return json.dumps(raw, ensure_ascii=True, separators=(",", ":"))


def _encode_step(step: Step) -> list[Any]:
    return [
        [[turn.role, [_encode_part(part) for part in turn.parts]] for turn in step.turns],
        [getattr(step.generation, name) for name in Generation.__slots__],
        list(step.choices),
        list(step.scored),
    ]


def _decode_step(raw: list[Any]) -> Step:
    turns, generation, choices, scored = raw
    return Step(
        turns=tuple(Turn(role, tuple(map(_decode_part, parts))) for role, parts in turns),
        generation=Generation(**dict(zip(Generation.__slots__, generation, strict=True))),
        choices=tuple(choices),
        scored=tuple(scored),
    )

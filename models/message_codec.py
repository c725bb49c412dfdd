"""Requests as JSON, so that they can cross processes and be stored without pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from models.messages import Generation, Media, Output, Part, Request, Step, Text, Turn


def _part_out(part: Part) -> list[Any]:
    if isinstance(part, Text):
        return ["text", part.text]
    if isinstance(part, Media):
        return ["media", part.kind, part.source, part.frames]
    return ["output", part.step, part.stripped]


def _part_in(raw: list[Any]) -> Part:
    kind, *fields = raw
    part: Part = {"text": Text, "media": Media, "output": Output}[kind](*fields)
    return part


def dump_requests(requests: Sequence[Request]) -> bytes:
    """Requests as UTF-8 JSON."""
    raw = [
        [
            request.request_id,
            [
                [
                    [[turn.role, [_part_out(part) for part in turn.parts]] for turn in step.turns],
                    [getattr(step.generation, name) for name in Generation.__slots__],
                    list(step.choices),
                    list(step.scored),
                ]
                for step in request.steps
            ],
        ]
        for request in requests
    ]
    # Model text may hold half a surrogate pair, which UTF-8 cannot carry: ASCII escapes can.
    return json.dumps(raw, ensure_ascii=True, separators=(",", ":")).encode()


def load_requests(content: bytes) -> list[Request]:
    """The inverse of `dump_requests`."""
    return [
        Request(request_id=request_id, steps=tuple(map(_step_in, steps))) for request_id, steps in json.loads(content)
    ]


def _step_in(raw: list[Any]) -> Step:
    turns, generation, choices, scored = raw
    return Step(
        turns=tuple(Turn(role, tuple(map(_part_in, parts))) for role, parts in turns),
        generation=Generation(**dict(zip(Generation.__slots__, generation, strict=True))),
        choices=tuple(choices),
        scored=tuple(scored),
    )

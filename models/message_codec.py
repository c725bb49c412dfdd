"""Requests as JSON, so that they can cross processes and be stored without pickle."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quote  # model text may hold half a surrogate pair: no UTF-8
from operator import attrgetter
from typing import Any

from models.messages import Generation, Media, Part, Request, Step, StepOutput, Text, Turn

_generation_values = attrgetter(*Generation.__slots__)


def _encode_part(part: Part) -> str:
    if isinstance(part, Text):
        return f'["text",{_quote(part.text)}]'
    if isinstance(part, Media):
        return f'["media",{_quote(part.kind)},{_quote(part.source)},{part.frames}]'
    return f'["output",{part.step},{"true" if part.stripped else "false"}]'


_PART_TYPES: Mapping[str, Callable[..., Part]] = {"text": Text, "media": Media, "output": StepOutput}


def dump_requests(requests: Sequence[Request]) -> bytes:
    """Encode requests as UTF-8 JSON."""
    return _array(f"[{_quote(request.request_id)},{dump_steps(request.steps)}]" for request in requests).encode()


def load_requests(content: bytes) -> list[Request]:
    """Decode what `dump_requests` encoded."""
    return [
        Request(request_id=request_id, steps=tuple(map(_decode_step, steps)))
        for request_id, steps in json.loads(content)
    ]


def dump_steps(steps: Sequence[Step]) -> str:
    """Encode the steps of one request as ASCII JSON."""
    return _array(map(_encode_step, steps))


def load_steps(text: str) -> tuple[Step, ...]:
    """Decode the steps that `dump_steps` encoded."""
    return tuple(map(_decode_step, json.loads(text)))


def _array(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def _encode_step(step: Step) -> str:
    turns = _array(f"[{_quote(turn.role)},{_array(map(_encode_part, turn.parts))}]" for turn in step.turns)
    generation = _encode_generation(*_generation_values(step.generation))
    return f"[{turns},{generation},{_array(map(_quote, step.choices))},{_array(map(_quote, step.scored))}]"


@lru_cache(maxsize=1024, typed=True)  # typed: 0 and 0.0 are equal, and their JSON is not
def _encode_generation(*values: float) -> str:
    return json.dumps(values, separators=(",", ":"))


def _decode_step(raw: list[Any]) -> Step:
    turns, generation, choices, scored = raw
    return Step(
        turns=tuple([Turn(role, tuple([_PART_TYPES[part[0]](*part[1:]) for part in parts])) for role, parts in turns]),
        generation=_decode_generation(*generation),
        choices=tuple(choices),
        scored=tuple(scored),
    )


@lru_cache(maxsize=1024, typed=True)  # typed, as above
def _decode_generation(*values: Any) -> Generation:
    return Generation(**dict(zip(Generation.__slots__, values, strict=True)))

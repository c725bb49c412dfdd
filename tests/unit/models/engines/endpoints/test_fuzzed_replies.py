"""Damaged replies of every protocol: in structure, then in bytes, read alone and through the engine.

None that holds an answer loses it, none that holds a failure becomes an answer, and all end as one of the two.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from models.engines.endpoints import replies
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import FailedAttempt, retry_after_s
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.endpoint_script import EndpointRequest, Raw
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS, many, rig

SAY_B: dict[str, Any] = {
    "openai": {"message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"},
    "anthropic": [{"type": "text", "text": "B"}],
    "gemini": {"content": {"role": "model", "parts": [{"text": "B"}]}, "finishReason": "STOP"},
}
FULL: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [SAY_B["openai"]],
        "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
        "error": None,
    },
    "anthropic": {
        "type": "message",
        "content": SAY_B["anthropic"],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 1},
        "error": None,
    },
    "gemini": {
        "candidates": [SAY_B["gemini"]],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
        "promptFeedback": None,
        "error": None,
    },
}
NAMES = {"openai": "choices", "anthropic": "content", "gemini": "candidates"}
REASONS = ("finish_reason", "finishReason", "stop_reason")
ODD = [None, 0, -1, 1e308, True, "", "x", "error", [], [None], {}, {"text": 1}, "\ud800", float("nan"), [[]]]


def mutated(draw: random.Random, value: Any) -> Any:
    """Replace one node of a JSON value by something else."""
    if draw.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return draw.choice(ODD)
    key = draw.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
    changed = value.copy()
    changed[key] = mutated(draw, value[key])
    return changed


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Replace up to four bytes, and cut the end off."""
    result = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        result[draw.randrange(len(result))] = draw.randrange(256)
    return bytes(result[: draw.randint(1, len(result)) if draw.random() < 0.7 else None])


def bodies(engine: str, count: int) -> Iterator[bytes]:
    """Yield replies, half of them of each kind."""
    draw, content = random.Random(7), json.dumps(FULL[engine]).encode()
    for number in range(count):
        is_structure = number < count // 2
        yield json.dumps(mutated(draw, FULL[engine])).encode() if is_structure else damaged(draw, content)


def holds(engine: str, content: bytes) -> str:
    """Return what a reply holds: `answer`, `failure` or neither of them for certain."""
    try:
        reply = json.loads(content)
    except (ValueError, UnicodeDecodeError):
        return ""
    if not isinstance(reply, dict) or reply.get("error"):
        return "failure"
    items = reply.get(NAMES[engine])
    first = items[0] if engine != "anthropic" and isinstance(items, list) and items else items
    reasons = [part.get(name) for part in (reply, first) if isinstance(part, dict) for name in REASONS]
    if "error" in (reply.get("type"), *reasons):
        return "failure"
    return "answer" if first == SAY_B[engine] else ""


def check(engine: str, content: bytes, outcome: object) -> str:
    """Return the kind of an outcome, once it is one that the reply allows."""
    kind, expected = "answer" if isinstance(outcome, Answer) else "failure", holds(engine, content)
    assert isinstance(outcome, Answer | Failure)
    assert kind == (expected or kind), content
    if expected == "answer":
        assert isinstance(outcome, Answer)
        assert outcome.text == "B"
    return kind


@pytest.mark.parametrize("engine", ENGINES)
def test_read_alone(engine: str) -> None:
    spec = ModelSpec(engine=engine, model="m", base_url=f"http://127.0.0.1:1{PATHS[engine]}")
    built = ENGINES[engine](spec)
    built.close()
    endpoint = Endpoint(spec, built.dialect.read_reply)
    kinds = set()
    for content in bodies(engine, 10_000):
        outcome = endpoint.read_completion(content)
        kinds.add(check(engine, content, outcome.failure if isinstance(outcome, FailedAttempt) else outcome))
    assert kinds == {"answer", "failure"}


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("engine", ENGINES)
def test_through_the_engine(engine: str, count: int) -> None:
    right = json.dumps(FULL[engine]).encode()
    # A streak of failures would end the run.
    sent = [
        body
        for number, reply in enumerate(bodies(engine, count))
        for body in ((reply,) if number % 10 else (right, reply))
    ]

    def script(request: EndpointRequest) -> Raw:
        return Raw(sent[int(request.text.split()[-1])])

    with rig(script, engine=engine, retries=0, concurrency=1) as at:
        outcomes = [(reply.call_id, reply.outcome) for reply in at.ask(*many(len(sent)))]
    assert len(outcomes) == len(sent)
    for name, outcome in outcomes:
        check(engine, sent[int(name.partition("/")[0])], outcome)


def test_nesting_that_no_reader_can_walk_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer Pythons read it: their parser has a stack of its own."""
    deep: Any = "B"
    for _ in range(5_000):
        deep = [deep]
    monkeypatch.setattr(replies.json, "loads", lambda *_, **__: {"choices": [{"message": {"content": deep}}]})
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:1/v1")
    engine = ENGINES["openai"](spec)
    engine.close()
    outcome = Endpoint(spec, engine.dialect.read_reply).read_completion(b"{}")
    assert isinstance(outcome, FailedAttempt)
    assert outcome.failure.type == "bad_reply"


def test_pause_that_is_no_date() -> None:
    assert retry_after_s({"retry-after": "Mon, 01 Jan 2026 00:00:00 +999999999999999999999"}, 0.0) is None

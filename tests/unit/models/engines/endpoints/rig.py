"""An engine at a scripted endpoint, in fake time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from models.engines.anthropic.engine import AnthropicEngine
from models.engines.endpoints.engine import EndpointEngine
from models.engines.gemini.engine import GeminiEngine
from models.engines.openai.engine import OpenAIEngine
from models.messages import Answer, Call, CallReply, Failure
from models.spec import ModelSpec
from tests.support.calls import MEDIA, call
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import Script, by_rules
from tests.support.fake_time import FakeTime

ENGINES: dict[str, Any] = {"openai": OpenAIEngine, "anthropic": AnthropicEngine, "gemini": GeminiEngine}
PATHS = {"openai": "/v1", "anthropic": "", "gemini": "/v1beta"}
"""What follows an endpoint's address in `base_url`."""
KEY = "sk-test-0123456789abcdef"


class Rig:
    """An engine at a scripted endpoint, in fake time."""

    def __init__(self, endpoint: ScriptedEndpoint, engine: EndpointEngine, time: FakeTime) -> None:
        self.endpoint = endpoint
        self.engine = engine
        self.time = time

    def ask(self, *calls: Call) -> list[CallReply]:
        return list(self.engine.generate(calls, MEDIA))

    def ask_one(self, *parts: Any) -> Answer | Failure:
        (reply,) = self.ask(call("a/0", *parts))
        return reply.outcome

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the only request."""
        (request,) = self.endpoint.requests
        return request.body


@contextmanager
def rig(script: Script | Sequence[dict[str, Any]], **spec: Any) -> Iterator[Rig]:
    time = FakeTime()
    with ScriptedEndpoint(script if callable(script) else by_rules(script)) as endpoint:
        name = spec.get("engine", "openai")
        address = endpoint.address + PATHS[name]
        settings = {"engine": name, "model": "scripted", "base_url": address, **spec}
        engine = ENGINES[name](ModelSpec(**settings), clock=time.now, now=time.now, sleep=time.sleep)
        try:
            yield Rig(endpoint, engine, time)
        finally:
            engine.close()


def many(count: int) -> list[Call]:
    return [call(f"{index}/0", f"question {index}") for index in range(count)]


def kinds(replies: Sequence[CallReply]) -> list[str]:
    return sorted(reply.outcome.type if isinstance(reply.outcome, Failure) else "answer" for reply in replies)

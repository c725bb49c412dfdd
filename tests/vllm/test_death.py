"""A process of vLLM that is killed: the engine says so, as the pipeline needs it to restart the replica."""

from __future__ import annotations

import psutil
import pytest

from models.errors import EngineUnreachableError
from models.messages import Answer
from tests.unit.models.engines.transformers.reference_answers import MEDIA, PICTURE, calls_about
from tests.vllm.conftest import OpenEngine

pytestmark = pytest.mark.vllm


def test_killed_engine_process_is_reported_and_a_new_engine_answers(open_vllm: OpenEngine) -> None:
    engine = open_vllm("qwen2_5_vl")
    calls = calls_about((PICTURE,), limits=(4,))
    before = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    cores = [child for child in psutil.Process().children(recursive=True) if "EngineCore" in child.name()]
    assert cores, "vllm's engine is expected in a process of its own"
    for core in cores:
        core.kill()
    with pytest.raises(EngineUnreachableError):
        list(engine.generate(calls, MEDIA))
    after = {reply.call_id: reply.outcome for reply in open_vllm("qwen2_5_vl").generate(calls, MEDIA)}
    assert [o.text for o in after.values() if isinstance(o, Answer)] == [
        o.text for o in before.values() if isinstance(o, Answer)
    ]
    assert len(after) == len(calls)

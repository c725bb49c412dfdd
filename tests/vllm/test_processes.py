"""vLLM in processes of its own: two ranks, and an engine that is killed."""

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


def test_two_ranks_answer_as_one(open_vllm: OpenEngine) -> None:
    calls = calls_about((PICTURE,), limits=(4,))
    answers = []
    for ranks in (1, 2):
        engine = open_vllm("qwen2_5_vl", tensor_parallel=ranks)
        replies = list(engine.generate(calls, MEDIA))
        answers.append({reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)})
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(calls)

"""Recorded steps equal steps without; here a stand-in repeats the step, as a graph of a GPU does (tests/gpu)."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models.engines.transformers.packed import step_graph
from models.engines.transformers.packed.kv_cache import PackedSequences
from models.engines.transformers.packed.model import PackedModel
from models.messages import Call, Generation, user
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.packed.test_model import loaded
from tests.unit.models.engines.transformers.reference_answers import engine_of

TAILS = [[5, 9, 13], [7], [11, 5, 6, 8, 10]]


def begin(model: Any, *, is_on: bool, capacity: int) -> tuple[PackedModel, PackedSequences]:
    packed = PackedModel(model, torch.device("cpu"))
    packed._graphs._is_on = is_on
    segment = packed.extend((), [*range(3, 45)])
    rows, _ = packed.start([(segment,), (segment,), ()], TAILS, capacity=capacity, chunk=64)
    return packed, rows


def logits_of(model: Any, *, is_on: bool) -> list[torch.Tensor]:
    """Step beyond the rows' memory, then without the second row."""
    with torch.inference_mode():
        packed, rows = begin(model, is_on=is_on, capacity=14)
        result = [packed.step(rows, [20 + n, 30 + n, 40 + n]).clone() for n in range(12)]
        assert (rows.graph is not None) == is_on
        rows.keep([2, 0])
        assert rows.graph is None
        result += [packed.step(rows, [50 + n, 60 + n]).clone() for n in range(3)]
        assert (rows.graph is not None) == is_on
    return result


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "qwen3_5", "gemma4")))
def test_recorded_steps_equal_others(
    checkpoint_of: Checkpoints, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeats: list[int] = []

    def stand_in(step: Callable[[], None], _: torch.device) -> Callable[[], None]:
        def replay() -> None:
            repeats.append(1)
            step()

        return replay

    monkeypatch.setattr(step_graph, "capture", stand_in)
    model = loaded(checkpoint_of(architecture))
    expected = logits_of(model, is_on=False)
    assert not repeats
    for actual, logits in zip(logits_of(model, is_on=True), expected, strict=True):
        torch.testing.assert_close(actual, logits, atol=1e-4, rtol=1e-4)
    # All but the first step of each set of rows, and one that is compared.
    assert len(repeats) == 15 - 2 + 1


def test_rows_and_model_are_released_at_once(checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded step refers to the rows that refer to it: no collection of cycles comes before the next batch."""
    monkeypatch.setattr(step_graph, "capture", lambda step, _: step() or (lambda: None))
    monkeypatch.setattr(step_graph.StepGraph, "check", lambda *_: None)
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    assert engine._shared is not None
    engine._shared._packed._graphs._is_on = True
    calls = [Call(call_id=str(n), turns=(user(f"D {n}"),), generation=Generation(max_new_tokens=20)) for n in range(4)]
    gc.collect()
    gc.disable()
    try:
        assert len(list(engine.generate(calls, {}))) == len(calls)
        assert engine._shared._packed._graphs._is_verified
        model = weakref.ref(engine._checkpoint.model)
        engine.close()
        assert model() is None
    finally:
        gc.enable()


def fail(*_: object) -> Callable[[], None]:
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


@pytest.mark.parametrize(
    ("name", "reason"), [("fails", "not permitted when stream is capturing"), ("wrong", "logits with and without")]
)
def test_step_that_cannot_be_recorded_is_computed_without(
    checkpoint_of: Checkpoints, name: str, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    model = loaded(checkpoint_of("qwen3_5"))
    expected = logits_of(model, is_on=False)
    if name == "fails":
        monkeypatch.setattr(step_graph, "capture", fail)
    else:
        monkeypatch.setattr(step_graph, "capture", lambda step, _: step)
        monkeypatch.setattr(step_graph.StepGraph, "step", lambda *_: torch.randn(expected[0].shape))
    with torch.inference_mode(), caplog.at_level(logging.WARNING):
        packed, rows = begin(model, is_on=True, capacity=14)
        for n, logits in enumerate(expected[:12]):
            torch.testing.assert_close(packed.step(rows, [20 + n, 30 + n, 40 + n]), logits, atol=1e-4, rtol=1e-4)
    assert reason in caplog.text
    assert sum(record.name == step_graph.__name__ for record in caplog.records) == 1


SCALED = {"rope_type": "dynamic", "factor": 2.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, True),
        ({"rope_parameters": SCALED}, False),
        ({"rope_parameters": {"sliding_attention": {"rope_type": "default"}, "full_attention": SCALED}}, False),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear"}}}, True),
        ({"rope_parameters": None, "num_local_experts": 8}, False),
        ({}, True),
    ],
)
def test_steps_that_read_a_number_of_the_device_are_not_recorded(text: dict[str, Any], expected: bool) -> None:
    assert step_graph.may_be_recorded(SimpleNamespace(), SimpleNamespace(**text)) == expected
    assert not step_graph.may_be_recorded(SimpleNamespace(quantization_config={}), SimpleNamespace(**text))

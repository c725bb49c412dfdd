"""Batches that do not fit into the device's memory are halved, and no call is lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Call, Generation, user
from models.spec import ModelSpec
from tests.support.checkpoints import build_tiny

pytestmark = pytest.mark.gpu
ROWS = 256
SPARE_BYTES = 1 << 30
"""Of the device's memory beside the weights; 256 rows of 700 tokens take 1.1 GB of keys and values, held twice."""
FITTING_ROWS = 64
"""Without a device, where larger batches fail by a stand-in."""


def limit_memory(engine: TransformersEngine, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave so much of the device's memory that a full batch does not fit and a small one does."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(device) + SPARE_BYTES) / total)
        return
    assert engine._shared is not None
    generate = engine._shared.generate

    def limited(batch: Sequence[Any], *, max_rows: int) -> Any:
        if max_rows > FITTING_ROWS:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        yield from generate(batch, max_rows=max_rows)

    monkeypatch.setattr(engine._shared, "generate", limited)


def test_batches_that_do_not_fit_are_halved_and_no_call_is_lost(
    tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_small = device.type == "cpu"
    checkpoint = build_tiny(tmp_path, "qwen2_5_vl", size="tiny" if is_small else "small")
    words = 5 if is_small else 250
    calls = [
        Call(call_id=str(n), turns=(user(f"{n} " + "perché " * words),), generation=Generation(max_new_tokens=2))
        for n in range(ROWS)
    ]
    spec = ModelSpec(engine="transformers", model=str(checkpoint), device=device.type, dtype="float32", batch_size=ROWS)
    engine = TransformersEngine(spec)
    limit_memory(engine, device, monkeypatch)
    with caplog.at_level(logging.WARNING):
        replies = [*engine.generate(calls, {}), *engine.generate(calls[:8], {})]
    engine.close()
    assert len(replies) == ROWS + 8
    assert {reply.call_id for reply in replies[:ROWS]} == {call.call_id for call in calls}
    assert all(isinstance(reply.outcome, Answer) for reply in replies)
    assert f"a batch of {ROWS}" in caplog.text
    assert "in halves" in caplog.text

"""The shared prefix on a GPU: the same answers as one prompt at a time, and the fast kernels in use."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from models.engines.transformers.attention import pick_kernel, plain_attention
from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Call, Frames, Generation, Media, user
from models.spec import ModelSpec
from tests.support.checkpoints import build_tiny

pytestmark = pytest.mark.gpu
CLIP = Media("video", "c" * 64, 32)


def media() -> Mapping[Media, Frames]:
    dice = np.random.default_rng(0)
    pixels = dice.integers(0, 256, (32, 112, 112, 3), np.uint8)
    return {CLIP: Frames(pixels=pixels, seconds=tuple(n / 4 for n in range(32)), fps=4.0, total_frames=32)}


def answers(checkpoint: Path, calls: list[Call], **changes: object) -> dict[str, Answer]:
    engine = TransformersEngine(ModelSpec(engine="transformers", model=str(checkpoint), device="cuda", **changes))
    try:
        return {r.call_id: r.outcome for r in engine.generate(calls, media()) if isinstance(r.outcome, Answer)}
    finally:
        engine.close()


def questions(count: int, new: int) -> list[Call]:
    return [
        Call(
            call_id=str(n),
            turns=(user(CLIP, f"Domanda {n}: che cosa succede{' ancora' * (n % 5)}?"),),
            generation=Generation(max_new_tokens=new),
        )
        for n in range(count)
    ]


def test_equal_answers_in_float32(tmp_path: Path) -> None:
    checkpoint = build_tiny(tmp_path, "qwen2_5_vl")
    calls = questions(24, 16)
    alone = answers(checkpoint, calls, dtype="float32", share_prefix=False, batch_size=1)
    shared = answers(checkpoint, calls, dtype="float32")
    assert len(alone) == len(shared) == len(calls)
    same = sum(alone[name].text == shared[name].text for name in alone)
    # Logits within rounding of each other may fall either way: one in twenty-four at the most.
    assert same >= len(calls) - 1
    assert sum(answer.cached_tokens > 0 for answer in shared.values()) == len(calls) - 1


def test_bfloat16_has_a_fast_kernel(cuda: torch.device) -> None:
    assert pick_kernel(cuda.type, torch.bfloat16, 128) is not plain_attention

"""The shared prefix on a GPU: answers as one prompt at a time, in other types, by fast kernels, by two ranks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.engines import build_engine
from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.packed.attention import pick_kernel, plain_attention
from models.engines.transformers.packed.model import PackedModel
from models.engines.transformers.packed.step_graph import StepGraphs
from models.messages import Answer, Call, Frames, Generation, Media, logprobs_from_text, user
from models.spec import ModelSpec
from tests.support.checkpoints import build_tiny

pytestmark = pytest.mark.gpu
CLIP = Media("video", "c" * 64, 32)


def media() -> Mapping[Media, Frames]:
    dice = np.random.default_rng(0)
    pixels = dice.integers(0, 256, (32, 112, 112, 3), np.uint8)
    return {CLIP: Frames(pixels=pixels, seconds=tuple(n / 4 for n in range(32)), fps=4.0, total_frames=32)}


ARCHITECTURES = ("qwen2_5_vl", "qwen3_5")
"""Attention in all layers, and a hybrid with linear attention in most."""


def answers(checkpoint: Path, device: torch.device, calls: list[Call], **changes: object) -> dict[str, Answer]:
    engine = TransformersEngine(ModelSpec(engine="transformers", model=str(checkpoint), device=device.type, **changes))
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equal_answers_in_float32(tmp_path: Path, device: torch.device, architecture: str) -> None:
    checkpoint = build_tiny(tmp_path, architecture)
    calls = questions(24, 16) if device.type == "cuda" else questions(6, 4)
    alone = answers(checkpoint, device, calls, dtype="float32", share_prefix=False, batch_size=1)
    shared = answers(checkpoint, device, calls, dtype="float32")
    assert len(alone) == len(shared) == len(calls)
    same = sum(alone[name].text == shared[name].text for name in alone)
    # Logits within rounding of each other may fall either way: in one call at the most.
    assert same >= len(calls) - 1
    if architecture == "qwen2_5_vl":
        assert sum(answer.cached_tokens > 0 for answer in shared.values()) == len(calls) - 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_recorded_steps_answer_as_others(
    tmp_path: Path, device: torch.device, architecture: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a row's first memory, so that steps are recorded anew."""
    checkpoint = build_tiny(tmp_path, architecture)
    calls = questions(24, 100) if device.type == "cuda" else questions(4, 8)
    recorded: list[object] = []
    record = StepGraphs.record

    def keep(*args: Any) -> Any:
        recorded.append(record(*args))
        return recorded[-1]

    monkeypatch.setattr(StepGraphs, "record", keep)
    graphs = answers(checkpoint, device, calls, dtype=dtype)
    assert device.type == "cpu" or sum(graph is not None for graph in recorded) >= 2
    monkeypatch.setattr(StepGraphs, "record", lambda *_: None)
    without = answers(checkpoint, device, calls, dtype=dtype)
    same = sum(without[name].text == graphs[name].text for name in without)
    assert same >= len(calls) - 1 - len(calls) // 4 * (dtype == "bfloat16")


def test_step_that_reads_the_device_is_computed_without_a_graph(
    tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CUDA refuses such a read while it records; the device must be of use afterwards."""
    if device.type == "cpu":
        pytest.skip("nothing is recorded without a GPU")
    checkpoint = build_tiny(tmp_path, "qwen2_5_vl")
    without = answers(checkpoint, device, questions(8, 16), dtype="float32", cuda_graphs=False)
    run = PackedModel._run

    def reads(model: PackedModel, ids: torch.Tensor, *more: Any) -> torch.Tensor:
        if ids.is_cuda:
            ids.sum().item()
        return run(model, ids, *more)

    monkeypatch.setattr(PackedModel, "_run", reads)
    answered = answers(checkpoint, device, questions(8, 16), dtype="float32")
    assert {name: a.text for name, a in answered.items()} == {name: a.text for name, a in without.items()}
    assert "CUDA graphs are off" in caplog.text
    assert torch.rand(8, device=device).unique().numel() > 1


def test_scores_in_bfloat16_are_within_rounding_of_float32(tmp_path: Path, device: torch.device) -> None:
    checkpoint = build_tiny(tmp_path, "qwen2_5_vl")
    texts = ("La persona dorme.", "La persona prende una cosa dal tavolo.")
    calls = [replace(call, scored=texts) for call in questions(8, 1)]
    exact = answers(checkpoint, device, calls, dtype="float32", share_prefix=False)
    for share_prefix in (False, True):
        rounded = answers(checkpoint, device, calls, dtype="bfloat16", share_prefix=share_prefix)
        assert len(rounded) == len(exact) == len(calls)
        for name, answer in rounded.items():
            # Means over some ten tokens, each of which was rounded to eight bits in every layer.
            difference = np.subtract(logprobs_from_text(answer.text, 2), logprobs_from_text(exact[name].text, 2))
            assert np.abs(difference).max() < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kernel_of_the_device_agrees_with_the_definition(device: torch.device, dtype: torch.dtype) -> None:
    kernel = pick_kernel(device.type, dtype, 128)
    assert device.type == "cpu" or dtype != torch.bfloat16 or kernel is not plain_attention
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 33, 128, device=device, dtype=dtype) for _ in range(3))
    out, total = kernel(query, key, value, 128**-0.5, causal=True)
    expected, expected_total = plain_attention(query, key, value, 128**-0.5, causal=True)
    tolerance = 0.03 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(out.float(), expected.float(), atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(total.float(), expected_total.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="two ranks need two cards, or --device cpu"
)
def test_two_ranks_answer_as_one_process(tmp_path: Path, device: torch.device) -> None:
    checkpoint = build_tiny(tmp_path, "qwen2_5_vl")
    calls = questions(8, 8)
    single = answers(checkpoint, device, calls, dtype="float32")
    raw = {"engine": "transformers", "model": str(checkpoint), "device": device.type, "dtype": "float32"}
    pair = build_engine("m", ModelSpec.model_validate({**raw, "tensor_parallel": 2}))
    try:
        replies = {reply.call_id: reply.outcome for reply in pair.generate(calls, media())}
    finally:
        pair.close()
    assert set(replies) == set(single)
    same = sum(isinstance(o, Answer) and o.text == single[name].text for name, o in replies.items())
    assert same >= len(calls) - 1

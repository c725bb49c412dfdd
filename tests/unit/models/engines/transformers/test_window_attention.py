"""Vision towers attend within all windows of a prompt at once, and their features are those of one window a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers import window_attention
from models.engines.transformers.engine import TransformersEngine
from models.messages import Call
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import CLIP, MEDIA, OTHER, PICTURE, calls_about, engine_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),  # GLM's
    pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning"),  # MiniCPM-V's
]


def calls_of_attention(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the batch of each call of torch's attention without a mask, as towers make it."""
    batches: list[int] = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def record(query: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
        batches.append(len(query))
        return attend(query, *args, **more)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    return batches


def features(folder: Path, calls: list[Call]) -> list[torch.Tensor]:
    """Return the keys of the last layer after each prompt's pixels."""
    engine: TransformersEngine = engine_of(folder)
    assert engine._shared is not None
    results = []
    for result in engine._maker.make(calls, MEDIA):
        assert not hasattr(result, "outcome"), result
        with torch.inference_mode():
            segment, _ = engine._shared._encode(result, len(result.ids))  # type: ignore[arg-type, union-attr]
        results.append(segment.keys[max(segment.keys)])
    return results


@pytest.mark.parametrize(
    "architecture",
    ["qwen2_5_vl", "qwen2_vl", "qwen3_5", "lfm3_vl", "glm4v", "ernie4_5_vl_moe", "minicpmv4_6", "muse_glimmer"],
)
def test_windows_in_batches_give_the_same_features(
    architecture: str, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [calls_about(media)[0] for media in ((CLIP,), (PICTURE, OTHER))]
    folder = checkpoint_of(architecture)
    batches = calls_of_attention(monkeypatch)
    actual = features(folder, calls)
    together = list(batches)
    monkeypatch.setattr("models.engines.transformers.checkpoint.batch_windows", lambda _: None)
    batches.clear()
    for mine, expected in zip(actual, features(folder, calls), strict=True):
        torch.testing.assert_close(mine, expected, atol=2e-5, rtol=1e-4)
    assert max(together) > 8, "windows are batched"
    assert max(batches) == 1
    assert sum(together) == len(batches), "as many windows"
    assert len(together) < len(batches) / 3


def test_towers_without_windows_keep_their_attention(checkpoint_of: Checkpoints) -> None:
    model = engine_of(checkpoint_of("llava"))._checkpoint.model
    implementations = {
        getattr(module.config, "_attn_implementation", "") for module in model.modules() if hasattr(module, "config")
    }
    assert window_attention._NAME not in implementations

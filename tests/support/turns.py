"""Parameters that `make test` tries, and those alike that `make test-all` tries and CI in turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

ONE_OF_EACH_PATH = {
    "qwen2_5_vl": "rotary positions of pictures",
    "gemma3": "a window of attention",
    "qwen3_5": "layers with a state",
    "qwen3_vl_moe": "experts",
    "mllama": "cross-attention",
    "instructblip_t5": "an encoder and a decoder",
    "blip-2": "a query transformer",
    "llama": "text alone",
}
"""An architecture of each path of the code."""


def in_turns(values: Iterable[Any], usual: Collection[Any] = ONE_OF_EACH_PATH) -> list[Any]:
    """Mark the parameters that are not usual as `full`."""
    return [value if value in usual else pytest.param(value, marks=pytest.mark.full) for value in values]

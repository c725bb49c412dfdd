"""Attention of vision towers over all windows and frames of a prompt at once.

Towers that take pictures of any size attend within windows of a long sequence of patches. transformers calls the
attention once a window, thousands of times a clip; here windows of equal length are one batch.
"""

import inspect
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

_NAME = "vlmsweep_windows_flash"  # with `flash` in its name a tower passes all windows, and their ends, in one call


def batch_windows(model: Any) -> None:
    """Let the towers of a model that attend in windows by torch's attention do so in batches."""
    AttentionInterface.register(_NAME, _attend)
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        takes_ends = "cu_seqlens" in inspect.signature(module.forward).parameters and hasattr(module, "scaling")
        if takes_ends and getattr(config, "_attn_implementation", None) == "sdpa":
            config._attn_implementation = _NAME  # noqa: SLF001  # its setter would look for a package


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attend within each window: [1, heads, patches, width] -> [1, patches, heads, width]."""
    del attention_mask  # None: windows are given by their ends
    ends: list[int] = options["cu_seq_lens_q"].tolist()
    starts: dict[int, list[int]] = {}
    for start, end in pairwise(ends):
        starts.setdefault(end - start, []).append(start)
    out = query.new_empty(query.shape[2], query.shape[1], value.shape[3])
    for length, length_starts in starts.items():
        index = (torch.tensor(length_starts)[:, None] + torch.arange(length)).to(query.device)
        windows = (tensor[0][:, index].transpose(0, 1) for tensor in (query, key, value))
        attended, _ = sdpa_attention_forward(module, *windows, None, scaling=options["scaling"], is_causal=False)
        out[index] = attended
    return out[None], None

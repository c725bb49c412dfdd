"""Attention in two parts, over tokens that many prompts share and over each prompt's own; exact, without copies.

The queries of all questions attend to the shared keys in one large product, then to each question's own few keys; the
results are merged by their log-sum-exp, which equals one softmax over both (Juravsky et al., "Hydragen", 2024).
"""

import logging
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor


class Kernel(Protocol):
    """Attention that also returns the log-sum-exp of each query's scores; tensors are [batch, heads, tokens, width]."""

    __name__: str

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the output, shaped like the query, and the log-sum-exp [batch, heads, queries]."""


_log = logging.getLogger(__name__)
_SCORES = 1 << 26  # scores held at once by `plain_attention`: 256 MiB in float32


def attend(query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Compute softmax attention by the fastest verified kernel of the device.

    Query, key and value are [batch, heads, tokens, width]; causal needs as many keys as queries. Returns the output
    [batch, heads, queries, width] in the query's type and the log-sum-exp [batch, heads, queries] in float32.
    """
    kernel = pick_kernel(query.device.type, query.dtype, query.shape[-1])
    return kernel(query, key, value, scale, causal=causal)


def attend_biased(query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Compute as `attend` does, with `bias` [batch, 1, 1, keys] in the query's type added to the scores."""
    if pick_kernel(query.device.type, query.dtype, query.shape[-1]) is _flash_cpu:  # CUDA's take no bias of any length
        return _flash_cpu(query, key, value, scale, causal=False, bias=bias)
    return plain_attention(query, key, value, scale, causal=False, bias=bias)


def merge(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Combine attention over two disjoint sets of keys, given output and log-sum-exp of each."""
    (out_a, lse_a), (out_b, lse_b) = a, b
    share = torch.sigmoid(lse_a - lse_b).unsqueeze(-1)
    out = out_b.float() + (out_a.float() - out_b.float()) * share
    return out, torch.logaddexp(lse_a, lse_b)


def plain_attention(  # noqa: PLR0913  # as kernels, and the masks that none of them takes
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute attention by definition, with scores in float32: for devices without a kernel, and to verify kernels.

    `mask` [queries, keys] is true where a query attends, as in layers with a sliding window: no kernel of torch takes
    one and returns the log-sum-exp. A query without keys gets zero, with a log-sum-exp of minus infinity.
    """
    block = max(1, _SCORES // max(1, query.shape[0] * query.shape[1] * key.shape[2]))
    outs, sums = [], []
    for start in range(0, query.shape[2], block):
        part = query[:, :, start : start + block]
        scores = torch.matmul(part, key.transpose(-1, -2)).float() * scale
        if bias is not None:
            scores += bias
        if causal:
            rows = torch.arange(start, start + part.shape[2], device=query.device)
            scores = scores.masked_fill(torch.arange(key.shape[2], device=query.device) > rows[:, None], float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask[start : start + block], float("-inf"))
        total = scores.logsumexp(-1)
        weights = torch.exp(scores - total.clamp(min=torch.finfo(total.dtype).min).unsqueeze(-1)).to(value.dtype)
        outs.append(torch.matmul(weights, value))
        sums.append(total)
    return torch.cat(outs, 2), torch.cat(sums, 2)


def _flash_cpu(
    query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    out, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001  # only it returns the sums
        query, key, value, 0.0, causal, attn_mask=bias, scale=scale
    )
    return out, total


def _flash_cuda(query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor]:
    out, total, *_ = torch.ops.aten._scaled_dot_product_flash_attention(  # noqa: SLF001  # only it returns the sums
        query, key, value, 0.0, causal, False, scale=scale
    )
    return out, total[:, :, : query.shape[2]]


def _efficient_cuda(query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor]:
    out, total, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(  # noqa: SLF001  # only it returns the sums
        query, key, value, None, True, 0.0, causal, scale=scale
    )
    return out, total[:, :, : query.shape[2]]


_KERNELS: dict[str, tuple[Kernel, ...]] = {"cpu": (_flash_cpu,), "cuda": (_flash_cuda, _efficient_cuda)}


@cache
def pick_kernel(device: str, dtype: torch.dtype, width: int) -> Kernel:
    """Return the device's first kernel that agrees with `plain_attention`: torch may change these private operators."""
    for kernel in _KERNELS.get(device, ()):
        if _agrees(kernel, device, dtype, width):
            return kernel
    _log.warning(
        "no fast attention kernel for %s on %s with head size %d: using the slow exact one", dtype, device, width
    )
    return plain_attention


def _agrees(kernel: Kernel, device: str, dtype: torch.dtype, width: int) -> bool:
    """Return whether kernel and definition agree within rounding: causal, not causal, and biased where it can be."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 37, width, generator=generator).to(device, dtype) for _ in range(3))
    tolerance = {torch.float32: 1e-4, torch.float16: 5e-3}.get(dtype, 4e-2)
    bias = torch.zeros(2, 1, 1, 29, dtype=dtype, device=device)
    bias[1, :, :, 20:] = float("-inf")
    cases: list[dict[str, Any]] = [{"causal": False}, {"causal": True}]
    for case in [*cases, {"causal": False, "bias": bias}] if kernel is _flash_cpu else cases:
        keys = slice(None) if case["causal"] else slice(0, 29)
        try:
            actual = kernel(query, key[:, :, keys], value[:, :, keys], width**-0.5, **case)
        except (RuntimeError, AttributeError, TypeError) as error:  # absent, or of other arguments, in this torch
            _log.info("%s is unavailable here: %s", kernel.__name__, error)
            return False
        expected = plain_attention(query, key[:, :, keys], value[:, :, keys], width**-0.5, **case)
        for a, b in zip(actual, expected, strict=True):
            if a.shape != b.shape or (a.float() - b.float()).abs().max().item() > tolerance:
                return False
    return True

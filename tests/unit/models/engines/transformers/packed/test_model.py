"""Attention in parts equals attention in one pass; packed rows equal single rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.transformers.packed import attention
from models.engines.transformers.packed.attention import (
    attend,
    attend_biased,
    merge,
    pick_kernel,
    plain_attention,
)
from models.engines.transformers.packed.model import PackedModel
from models.errors import PrefixSharingUnsupportedError
from tests.unit.models.engines.conftest import Checkpoints


def _states(seed: int, queries: int, keys: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, count, 16, generator=generator) for count in (queries, keys, keys)]


@given(st.integers(0, 99), st.integers(1, 9), st.integers(2, 40), st.data())
@settings(deadline=None, max_examples=40)
def test_merged_parts_equal_attention_over_all_keys(seed: int, queries: int, keys: int, data: st.DataObject) -> None:
    query, key, value = _states(seed, queries, keys)
    cut = data.draw(st.integers(1, keys - 1))
    parts = [attend(query, key[:, :, part], value[:, :, part], 0.25) for part in (slice(0, cut), slice(cut, None))]
    out, total = merge(parts[0], parts[1])
    expected, expected_total = plain_attention(query, key, value, 0.25, causal=False)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(total, expected_total, atol=2e-6, rtol=1e-5)


@given(st.integers(0, 99), st.integers(1, 30), st.integers(2, 40), st.data())
@settings(deadline=None, max_examples=40)
def test_window_over_two_parts_equals_one_mask(seed: int, window: int, keys: int, data: st.DataObject) -> None:
    query, key, value = _states(seed, keys, keys)
    cut = data.draw(st.integers(1, keys - 1))
    index = torch.arange(keys)
    in_window = (index <= index[:, None]) & (index > index[:, None] - window)
    first_part = plain_attention(query, key[:, :, :cut], value[:, :, :cut], 0.25, mask=in_window[:, :cut])
    second_part = plain_attention(query, key[:, :, cut:], value[:, :, cut:], 0.25, mask=in_window[:, cut:])
    out, _ = merge(first_part, second_part)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=in_window, scale=0.25)
    # A query before the cut attends to no key after it, and every query attends to some key.
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_in_blocks_equals_one_block(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = _states(0, 12, 12)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=0.3, is_causal=causal)
    for max_scores in (1, 2 * 3 * 12 * 5, 1 << 26):
        monkeypatch.setattr(attention, "_SCORES", max_scores)
        out, _ = plain_attention(query, key, value, 0.3, causal=causal)
        torch.testing.assert_close(out, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bias_hides_keys_of_shorter_rows(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = (state.to(dtype) for state in _states(0, 4, 9))
    bias = torch.zeros(2, 1, 1, 9, dtype=dtype)
    bias[1, :, :, 5:] = float("-inf")
    for kernels in ({"cpu": (attention._flash_cpu,)}, {}):
        monkeypatch.setattr(attention, "_KERNELS", kernels)
        pick_kernel.cache_clear()
        out, total = attend_biased(query, key, value, 0.25, bias)
        for row, keys in ((0, 9), (1, 5)):
            rows, seen = slice(row, row + 1), slice(keys)
            expected, expected_total = plain_attention(
                query[rows], key[rows, :, seen], value[rows, :, seen], 0.25, causal=False
            )
            tolerance = 2e-6 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(out[row], expected[0], atol=tolerance, rtol=1e-2)
            torch.testing.assert_close(total[row], expected_total[0], atol=tolerance, rtol=1e-2)
    pick_kernel.cache_clear()


def test_wrong_or_broken_kernel_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(query: Any, key: Any, value: Any, scale: float, *, causal: bool) -> Any:
        out, total = plain_attention(query, key, value, scale, causal=causal)
        return out, total + 0.1

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(attention, "_KERNELS", {"cpu": (broken, wrong)})
    pick_kernel.cache_clear()
    assert pick_kernel("cpu", torch.float32, 16) is plain_attention
    pick_kernel.cache_clear()
    monkeypatch.undo()
    assert pick_kernel("cpu", torch.float32, 16) is not plain_attention
    assert pick_kernel("cpu", torch.bfloat16, 16) is not plain_attention


def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    takes_pictures = (folder / "processor_config.json").is_file()
    auto_class = AutoModelForImageTextToText if takes_pictures else AutoModelForCausalLM
    return auto_class.from_pretrained(folder).eval()


@pytest.fixture
def model(checkpoint_of: Checkpoints) -> Iterator[Any]:
    with torch.inference_mode():
        yield loaded(checkpoint_of("llama"))


TAILS = [list(range(40, 40 + length)) for length in (9, 30, 4, 17)]
PREFIX = list(range(300, 320))


def reference_logits(model: Any, ids: list[int]) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=torch.tensor([ids])).logits[0, -1]
    return logits


@pytest.mark.parametrize("chunk", [1, 40, 10_000])
def test_rows_with_and_without_shared_prefixes_equal_single_prompts(model: Any, chunk: int) -> None:
    check_rows(model, chunk)


@pytest.mark.parametrize("architecture", ["mistral", "gemma3_text"])
@pytest.mark.parametrize("window", [5, 24])
def test_windows_shorter_than_prompts_equal_single_prompts(
    architecture: str, window: int, checkpoint_of: Checkpoints
) -> None:
    with torch.inference_mode():
        model = loaded(checkpoint_of(architecture))
        model.config.sliding_window = window
        for layer in model.model.layers:
            if getattr(layer.self_attn, "sliding_window", None) is not None:
                layer.self_attn.sliding_window = window
        check_rows(model, 40)


def check_rows(model: Any, chunk: int) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    first = packed.encode(PREFIX, {})[0]
    second = packed.extend((first,), [7, 8, 9])
    paths = [(), (first,), (first, second), (first, second)]
    prefixes = [[], PREFIX, [*PREFIX, 7, 8, 9], [*PREFIX, 7, 8, 9]]
    rows, logits = packed.start(paths, TAILS, capacity=30, chunk=chunk)
    for row, (prefix, tail) in enumerate(zip(prefixes, TAILS, strict=True)):
        torch.testing.assert_close(logits[row], reference_logits(model, prefix + tail), atol=2e-5, rtol=1e-4)
    generated: list[list[int]] = [[], [], [], []]
    for step in range(70):
        tokens = [100 + step + row for row in range(4)]
        logits = packed.step(rows, tokens)
        for row, token in enumerate(tokens):
            generated[row].append(token)
    rows.keep([3, 1])
    logits = packed.step(rows, [55, 56])
    for at, (row, token) in enumerate([(3, 55), (1, 56)]):
        expected = reference_logits(model, prefixes[row] + TAILS[row] + generated[row] + [token])
        torch.testing.assert_close(logits[at], expected, atol=5e-5, rtol=1e-4)


def test_steps_read_the_rows_of_a_branch_as_a_view_once_rows_are_in_order(model: Any) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    root = packed.encode(PREFIX, {})[0]
    branches = [packed.extend((root,), ids) for ids in ([7, 8, 9], [9, 8, 7])]
    rows, _ = packed.start([(root, branches[row % 2]) for row in range(4)], TAILS, capacity=31, chunk=40)
    order = rows.by_path(range(4))
    assert order == [0, 2, 1, 3]
    rows.keep(order)
    logits = packed.step(rows, [55] * 4)
    assert rows.step_segments is not None
    assert [tokens for _, _, tokens in rows.step_segments] == [None, slice(0, 2), slice(2, 4)]
    for at, row in enumerate(order):
        expected = reference_logits(model, [*PREFIX, *([7, 8, 9], [9, 8, 7])[row % 2], *TAILS[row], 55])
        torch.testing.assert_close(logits[at], expected, atol=2e-5, rtol=1e-4)


def test_adopted_segments_continue_as_one_batch(model: Any) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    segments, first_logits = zip(*(packed.encode(ids, {}) for ids in TAILS), strict=True)
    rows = packed.adopt(segments, capacity=1)
    for ids, logits in zip(TAILS, first_logits, strict=True):
        torch.testing.assert_close(logits, reference_logits(model, ids), atol=2e-5, rtol=1e-4)
    logits = packed.step(rows, [5, 6, 7, 8])
    for row, ids in enumerate(TAILS):
        torch.testing.assert_close(logits[row], reference_logits(model, [*ids, 5 + row]), atol=2e-5, rtol=1e-4)


def test_unsupported_attention_is_rejected(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    layers = model.model.layers
    original = layers[0].self_attn.forward

    def capped(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs, softcap=4)

    monkeypatch.setattr(layers[0].self_attn, "forward", capped)
    with pytest.raises(PrefixSharingUnsupportedError, match="softcap"):
        packed.start([()], [TAILS[0]], capacity=9, chunk=9)
    assert model.config._attn_implementation == "sdpa", "the model keeps its attention"
    monkeypatch.setattr(layers[0].self_attn, "forward", lambda hidden_states, **_: (hidden_states, None))
    with pytest.raises(PrefixSharingUnsupportedError, match="5 of 6 layers"):
        packed.start([()], [TAILS[0]], capacity=9, chunk=9)
    monkeypatch.setattr(layers[0].self_attn, "forward", lambda **kwargs: original(**{**kwargs, "packed_step": None}))
    with pytest.raises(PrefixSharingUnsupportedError, match="keyword arguments"):
        packed.start([()], [TAILS[0]], capacity=9, chunk=9)


def test_rows_with_segments_of_their_own_go_on_without_them(model: Any) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    prefixes = [PREFIX, PREFIX[:7], PREFIX[3:]]
    paths = [(packed.encode(prefix, {})[0],) for prefix in prefixes]
    rows, _ = packed.start(paths, TAILS[:3], capacity=30, chunk=10_000)
    rows = packed.unshare(rows, answer_tokens=1)
    assert rows.paths == [()] * 3
    for token in (55, 56):
        logits = packed.step(rows, [token] * 3)
    for row, prefix in enumerate(prefixes):
        expected = reference_logits(model, [*prefix, *TAILS[row], 55, 56])
        torch.testing.assert_close(logits[row], expected, atol=2e-5, rtol=1e-4)


def test_joined_rows_go_on_at_their_own_lengths(model: Any) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    root = packed.encode(PREFIX, {})[0]
    rows, _ = packed.start([(root,)] * 2, TAILS[:2], capacity=31, chunk=40)
    packed.step(rows, [55, 56])
    rows = rows.join(packed.start([()] * 2, TAILS[2:4], capacity=35, chunk=40)[0])
    logits = packed.step(rows, [60, 61, 62, 63])
    before = [[*PREFIX, *TAILS[0], 55], [*PREFIX, *TAILS[1], 56], TAILS[2], TAILS[3]]
    for row, ids in enumerate(before):
        torch.testing.assert_close(logits[row], reference_logits(model, [*ids, 60 + row]), atol=2e-5, rtol=1e-4)

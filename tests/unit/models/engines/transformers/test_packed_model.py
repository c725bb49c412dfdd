"""Attention in parts equals attention in one; packed rows equal rows one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.transformers import attention
from models.engines.transformers.attention import attend, attend_seen, merge, pick_kernel, plain_attention
from models.engines.transformers.packed_model import PackedModel
from models.errors import PrefixSharingUnsupportedError
from tests.unit.models.engines.conftest import Checkpoints


def _states(seed: int, queries: int, keys: int) -> list[torch.Tensor]:
    dice = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, count, 16, generator=dice) for count in (queries, keys, keys)]


@given(st.integers(0, 99), st.integers(1, 9), st.integers(2, 40), st.data())
@settings(deadline=None, max_examples=40)
def test_two_parts_make_the_whole(seed: int, queries: int, keys: int, data: st.DataObject) -> None:
    query, key, value = _states(seed, queries, keys)
    cut = data.draw(st.integers(1, keys - 1))
    parts = [attend(query, key[:, :, part], value[:, :, part], 0.25) for part in (slice(0, cut), slice(cut, None))]
    out, total = merge(parts[0], parts[1])
    want, want_total = plain_attention(query, key, value, 0.25, causal=False)
    torch.testing.assert_close(out, want, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(total, want_total, atol=2e-6, rtol=1e-5)


@given(st.integers(0, 99), st.integers(1, 30), st.integers(2, 40), st.data())
@settings(deadline=None, max_examples=40)
def test_a_window_over_two_parts(seed: int, window: int, keys: int, data: st.DataObject) -> None:
    query, key, value = _states(seed, keys, keys)
    cut = data.draw(st.integers(1, keys - 1))
    place = torch.arange(keys)
    near = (place <= place[:, None]) & (place > place[:, None] - window)
    early = attend_seen(query, key[:, :, :cut], value[:, :, :cut], 0.25, near[:, :cut])
    late = attend_seen(query, key[:, :, cut:], value[:, :, cut:], 0.25, near[:, cut:])
    out, _ = merge(early, late)
    want = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=near, scale=0.25)
    # A query before the cut sees nothing behind it, and none ever sees nothing at all.
    torch.testing.assert_close(out, want, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_the_definition_in_slices(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = _states(0, 12, 12)
    want = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=0.3, is_causal=causal)
    for most in (1, 2 * 3 * 12 * 5, 1 << 26):
        monkeypatch.setattr(attention, "_SCORES", most)
        out, _ = plain_attention(query, key, value, 0.3, causal=causal)
        torch.testing.assert_close(out, want, atol=2e-6, rtol=1e-5)


def test_a_kernel_that_errs_or_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
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


def _loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture
def model(checkpoint_of: Checkpoints, one_thread: None) -> Iterator[Any]:
    with torch.inference_mode():
        yield _loaded(checkpoint_of("llama"))


WORDS = [list(range(40, 40 + length)) for length in (9, 30, 4, 17)]
BEGINNING = list(range(300, 320))


def _alone(model: Any, ids: list[int]) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=torch.tensor([ids])).logits[0, -1]
    return logits


@pytest.mark.parametrize("chunk", [1, 40, 10_000])
def test_rows_with_and_without_shared_beginnings(model: Any, chunk: int) -> None:
    _rows_as_alone(model, chunk)


@pytest.mark.parametrize("architecture", ["mistral", "gemma3_text"])
@pytest.mark.parametrize("window", [5, 24])
def test_windows_shorter_than_prompts(
    architecture: str, window: int, checkpoint_of: Checkpoints, one_thread: None
) -> None:
    with torch.inference_mode():
        model = _loaded(checkpoint_of(architecture))
        model.config.sliding_window = window
        for layer in model.model.layers:
            if getattr(layer.self_attn, "sliding_window", None) is not None:
                layer.self_attn.sliding_window = window
        _rows_as_alone(model, 40)


def _rows_as_alone(model: Any, chunk: int) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    first = packed.encode(BEGINNING, {}, {})[0]
    second = packed.extend((first,), [7, 8, 9])
    paths = [(), (first,), (first, second), (first, second)]
    said = [[], BEGINNING, [*BEGINNING, 7, 8, 9], [*BEGINNING, 7, 8, 9]]
    rows, logits = packed.start(paths, WORDS, room=30, chunk=chunk)
    for row, (begun, tail) in enumerate(zip(said, WORDS, strict=True)):
        torch.testing.assert_close(logits[row], _alone(model, begun + tail), atol=2e-5, rtol=1e-4)
    more: list[list[int]] = [[], [], [], []]
    for step in range(70):
        tokens = [100 + step + row for row in range(4)]
        logits = packed.step(rows, tokens)
        for row, token in enumerate(tokens):
            more[row].append(token)
    rows.keep([3, 1])
    logits = packed.step(rows, [55, 56])
    for at, (row, token) in enumerate([(3, 55), (1, 56)]):
        want = _alone(model, said[row] + WORDS[row] + more[row] + [token])
        torch.testing.assert_close(logits[at], want, atol=5e-5, rtol=1e-4)


def test_rows_read_alone_go_on_together(model: Any) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    segments, firsts = zip(*(packed.encode(ids, {}, {}) for ids in WORDS), strict=True)
    rows = packed.adopt(segments, room=1)
    for ids, logits in zip(WORDS, firsts, strict=True):
        torch.testing.assert_close(logits, _alone(model, ids), atol=2e-5, rtol=1e-4)
    logits = packed.step(rows, [5, 6, 7, 8])
    for row, ids in enumerate(WORDS):
        torch.testing.assert_close(logits[row], _alone(model, [*ids, 5 + row]), atol=2e-5, rtol=1e-4)


def test_what_packed_attention_does_not_know_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PackedModel(model, torch.device("cpu"))
    layers = model.model.layers
    usual = layers[0].self_attn.forward

    def capped(*args: Any, **kwargs: Any) -> Any:
        return usual(*args, **kwargs, softcap=4)

    monkeypatch.setattr(layers[0].self_attn, "forward", capped)
    with pytest.raises(PrefixSharingUnsupportedError, match="softcap"):
        packed.start([()], [WORDS[0]], room=9, chunk=9)
    assert model.config._attn_implementation == "sdpa", "the model keeps its own attention"
    monkeypatch.setattr(layers[0].self_attn, "forward", lambda hidden_states, **_: (hidden_states, None))
    with pytest.raises(PrefixSharingUnsupportedError, match="5 of 6 layers"):
        packed.start([()], [WORDS[0]], room=9, chunk=9)
    monkeypatch.setattr(layers[0].self_attn, "forward", lambda **kwargs: usual(**{**kwargs, "packed_step": None}))
    with pytest.raises(PrefixSharingUnsupportedError, match="keyword arguments"):
        packed.start([()], [WORDS[0]], room=9, chunk=9)

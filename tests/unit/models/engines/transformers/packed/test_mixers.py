"""Layers with a state of fixed size: packed rows equal single prompts, and each row goes on from its own last token."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from cluster.hardware import local_memory
from models.engines.transformers.memory import Memory
from models.engines.transformers.packed import mixers
from models.engines.transformers.packed.mixers import delta_rule
from models.engines.transformers.packed.model import PackedModel
from models.engines.weights import free_host_bytes
from models.errors import PrefixSharingUnsupportedError
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.packed.test_model import (
    PREFIX,
    TAILS,
    check_rows,
    loaded,
    reference_logits,
)
from tests.unit.models.engines.transformers.reference_answers import (
    MEDIA,
    PICTURE,
    calls_about,
    engine_of,
    near_ties,
    texts,
)

WITH_STATES = ("qwen3_5", "lfm3_vl")


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 40, 10_000])
@pytest.mark.parametrize("architecture", in_turns((*WITH_STATES, "gemma4")))
def test_rows_with_and_without_prefixes_equal_single_prompts(
    architecture: str, chunk: int, checkpoint_of: Checkpoints
) -> None:
    with torch.inference_mode():
        check_rows(loaded(checkpoint_of(architecture)), chunk)


@pytest.mark.parametrize("prefix", [1, 2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("architecture", in_turns(WITH_STATES))
def test_prefix_of_any_length_is_continued(architecture: str, prefix: int, checkpoint_of: Checkpoints) -> None:
    """The convolution keeps 4 or 7 tokens, and the delta rule is computed in chunks of 64."""
    ids = [300 + token % 90 for token in range(prefix)]
    tails = [[5], [6, 7], list(range(40, 140))]
    with torch.inference_mode():
        packed = PackedModel(model := loaded(checkpoint_of(architecture)), torch.device("cpu"))
        segment, _ = packed.encode(ids, {})
        rows, logits = packed.start([(segment,)] * 3, tails, capacity=101, chunk=1000)
        stepped = packed.step(rows, [9, 9, 9])
        for row, tail in enumerate(tails):
            close(logits[row], reference_logits(model, ids + tail))
            close(stepped[row], reference_logits(model, [*ids, *tail, 9]))


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("architecture", in_turns(WITH_STATES))
def test_adopted_segments_can_be_answered_again(architecture: str, count: int, checkpoint_of: Checkpoints) -> None:
    tails = TAILS[:count]
    with torch.inference_mode():
        packed = PackedModel(model := loaded(checkpoint_of(architecture)), torch.device("cpu"))
        segments = [packed.encode(ids, {})[0] for ids in tails]
        for _ in range(2):  # as after a batch that did not fit
            rows = packed.adopt(segments, capacity=1)
            for token in (5, 6):
                logits = packed.step(rows, [token] * count)
            for row, ids in enumerate(tails):
                close(logits[row], reference_logits(model, [*ids, 5, 6]))


def test_states_are_kept_only_where_tokens_follow(checkpoint_of: Checkpoints) -> None:
    with torch.inference_mode():
        packed = PackedModel(loaded(checkpoint_of("qwen3_5")), torch.device("cpu"))
        segment, _ = packed.encode(PREFIX, {})
        paths = [(segment,)] * len(TAILS)
        last, logits = packed.start(paths, TAILS, capacity=30, chunk=99, is_followed=False)
        assert (last.states, packed.state_bytes) == ({}, 0)
        rows, same = packed.start(paths, TAILS, capacity=30, chunk=99)
    assert torch.equal(logits, same)
    # Four layers of linear attention: four inputs of the convolution, and a matrix for each value head.
    conv, recurrent = rows.states[0]
    assert len(rows.states) == 4
    assert packed.state_bytes == 4 * (conv[0].nbytes + recurrent[0].nbytes) == rows.state_bytes / len(TAILS)


@pytest.mark.parametrize("architecture", ["qwen3_5"])
def test_state_of_padding_is_noticed_on_the_first_prompt(
    architecture: str,
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = calls_about((PICTURE,), limits=(1, 6))
    expected = reference_answers(architecture, calls)
    engine = engine_of(checkpoint_of(architecture))
    assert not near_ties(texts(list(engine.generate(calls, MEDIA))), expected)
    assert engine.no_sharing_reason is None
    monkeypatch.setattr(mixers, "_closed_gates", lambda *_: nullcontext())
    wrong = engine_of(checkpoint_of(architecture))
    assert not near_ties(texts(list(wrong.generate(calls, MEDIA))), expected)
    assert "logits differ" in str(wrong.no_sharing_reason)
    assert wrong.warnings == (f"prefixes are computed again with every question: {wrong.no_sharing_reason}",)


def test_unknown_state_is_not_shared(checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.inference_mode():
        model = loaded(checkpoint_of("qwen3_5"))
        monkeypatch.setattr(mixers, "_GATES", ("in_proj_ba",))
        with pytest.raises(PrefixSharingUnsupportedError, match="state of Qwen3_5GatedDeltaNet after a prefix"):
            PackedModel(model, torch.device("cpu")).encode(PREFIX, {})
        monkeypatch.setattr(mixers, "_CACHES", ("no_cache_of_that_name",))
        with pytest.raises(PrefixSharingUnsupportedError, match="takes no cache"):
            PackedModel(model, torch.device("cpu"))
        model.model.language_model.layers[0].linear_attn = torch.nn.Identity()
        with pytest.raises(PrefixSharingUnsupportedError, match="0 modules"):
            PackedModel(model, torch.device("cpu"))


def test_files_that_the_system_caches_take_no_memory_from_batches(
    checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that has read many files: few pages are unused, but most are given back when needed."""
    sysconf = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_AVPHYS_PAGES" else sysconf(name))
    assert free_host_bytes() > 1 << 20
    for module in ("models.engines.transformers.memory", "cluster.hardware"):
        monkeypatch.setattr(f"{module}.free_host_bytes", lambda: 8 << 30)
    assert engine_of(checkpoint_of("qwen3_5"))._memory.prefix_cache_bytes == 1 << 30
    assert local_memory()[1] == 8 << 30


def test_states_that_do_not_fit_make_smaller_batches_said_once(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, caplog: pytest.LogCaptureFixture
) -> None:
    calls = calls_about((PICTURE,), limits=(3,))
    engine = engine_of(checkpoint_of("qwen3_5"))
    memory: Any = engine._memory
    sizes: list[int] = []
    assert engine._shared is not None
    generate = engine._shared.generate

    def recorded(prompts: Any, *, max_rows: int) -> Any:
        sizes.append(max_rows)
        return generate(prompts, max_rows=max_rows)

    engine._shared.generate = recorded  # type: ignore[method-assign]
    memory._budget = 1 << 40
    texts(list(engine.generate(calls, MEDIA)))
    state_bytes = engine._shared.state_bytes
    assert state_bytes > 50 * 1024
    memory._budget = 2 * 2 * (state_bytes + 80 * memory._token_bytes)  # two rows
    with caplog.at_level(logging.WARNING):
        again = [texts(list(engine.generate(calls, MEDIA))) for _ in range(2)][1]
    assert not near_ties(again, reference_answers("qwen3_5", calls))
    assert sizes == [5, 2, 2]
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("models.")]
    assert len(messages) == 1
    assert "batches have 2 questions, not 256: the state of each takes" in messages[0]
    memory._budget = 1 << 40
    assert (memory.rows(80), memory.rows(80, is_padded=True)) == (256, 64)


def test_tokens_are_counted_in_layers_that_store_keys(checkpoint_of: Checkpoints) -> None:
    def per_token(architecture: str) -> int:
        memory: Memory = engine_of(checkpoint_of(architecture))._memory
        return memory._token_bytes

    config = engine_of(checkpoint_of("qwen3_5"))._checkpoint.text_config
    one_layer = 2 * config.num_key_value_heads * config.head_dim * 4
    assert config.layer_types.count("full_attention") == 2
    assert per_token("qwen3_5") == 2 * one_layer
    gemma = engine_of(checkpoint_of("gemma4"))._checkpoint.text_config
    widths = [layer.num_key_value_heads * layer.head_dim for layer in gemma.per_layer_config[:]]
    assert per_token("gemma4") == 2 * 4 * sum(widths[: len(widths) - gemma.num_kv_shared_layers])


def test_states_answer_the_questions_of_transformers_5_17() -> None:
    """Its modules look into the layers of their cache; `make test-gpu-stack` runs them."""
    conv, recurrent = torch.zeros(1, 2, 3), torch.ones(1, 2)
    states = mixers._RowStates((conv, recurrent), torch.tensor([1]))
    assert states.has_previous_state(3, state_idx=0)
    assert not states.layers[3].record_past
    assert states.layers[3].conv_states[0] is conv
    assert states.layers[3].recurrent_states[0] is recurrent
    assert not mixers._RowStates(None, torch.tensor([1])).has_previous_state(0)


@pytest.mark.parametrize("is_normalized", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 31, 32, 33, 91])
def test_delta_rule_equals_that_of_transformers(tokens: int, is_normalized: bool) -> None:
    from transformers.models.qwen3_5 import modeling_qwen3_5

    rule = getattr(modeling_qwen3_5, mixers._RULES[tokens > 1])
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, tokens, heads, 16, generator=generator) for heads in (2, 2, 8))
    query, key = (part / 4 for part in (query, key))  # of norm 1, without which states grow
    gates = {"g": -torch.rand(3, tokens, 8, generator=generator), "beta": torch.rand(3, tokens, 8, generator=generator)}
    gates["beta"][0, tokens // 2 + 1 :] = gates["g"][0, tokens // 2 + 1 :] = 0.0  # as of padding
    states = torch.randn(3, 8, 16, 16, generator=generator)
    more = {"output_final_state": True, "use_qk_l2norm_in_kernel": is_normalized}
    expected = rule(query, key, value, initial_state=states.clone(), **gates, **more)
    actual = delta_rule(query, key, value, initial_state=states, **gates, **more)
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-4)
    assert actual[1].data_ptr() == states.data_ptr(), "states are not copied"
    fresh = delta_rule(query, key, value, **gates, **more)
    torch.testing.assert_close(
        fresh, rule(query, key, value, initial_state=None, **gates, **more), atol=2e-5, rtol=1e-4
    )

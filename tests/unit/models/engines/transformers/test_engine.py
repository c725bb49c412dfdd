"""The engine's answers equal, token for token in float32, those of the model to one prompt at a time."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.base import prepare
from models.engines.frame_reduction import FrameReductionEngine
from models.engines.transformers.engine import pictures_per_pass
from models.engines.transformers.packed.kv_cache import PackedSequences
from models.engines.transformers.packed.model import PackedModel
from models.messages import Answer, Call
from models.spec import ModelSpec
from tests.support.checkpoints import ARCHITECTURES, RECENT_ARCHITECTURES
from tests.support.turns import ONE_OF_EACH_PATH, in_turns
from tests.unit.models.engines.conftest import Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    LARGE,
    MEDIA,
    OTHER,
    PICTURE,
    QUESTIONS,
    SHORT_CLIP,
    calls_about,
    engine_of,
    near_ties,
    texts,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),  # GLM's
    pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning"),  # MiniCPM-V's
]


TEXT_ONLY = ("llama", "qwen2", "mistral", "gemma", "gemma3_text")
NO_TEMPLATE = ("blip-2", "instructblip", "instructblip_t5")
SHORT_ANSWERS = (
    "llava_next_video", "idefics2", "smolvlm", "ovis2", "gemma3", "phi4_multimodal", "mllama", "qwen3_vl",
)  # fmt: skip
NOT_SHARED = {
    "mllama": "cross-attends",
    "instructblip": "query transformer reads the text",
    "instructblip_t5": "an encoder-decoder",
}
"""Architectures that run in padded batches, on a picture encoded once, and the reason in the log."""
LONG_CLIPS = ("gemma4", "gemma4_unified", "granite4_vision")
"""Architectures that make over a thousand tokens of 32 small frames: they see 6 here."""


def calls_for(architecture: str) -> list[Call]:
    if architecture in TEXT_ONLY:
        return calls_about(())
    if architecture == "qwen2_5_vl":
        return calls_about((), (PICTURE,), (CLIP,), (FIRST_FRAME,), (PICTURE, OTHER))
    if architecture in RECENT_ARCHITECTURES:
        clip = SHORT_CLIP if architecture in LONG_CLIPS else CLIP
        return calls_about((), (FIRST_FRAME,), (clip,), (PICTURE, OTHER), limits=(1, 6, 16))
    if architecture in NO_TEMPLATE:
        return calls_about((), (PICTURE,), (OTHER,), limits=(1, 6, 16))
    if architecture in SHORT_ANSWERS:
        clip = FIRST_FRAME if architecture == "phi4_multimodal" else SHORT_CLIP
        return calls_about((), (clip,), (PICTURE, OTHER), limits=(1, 6, 16))
    clip = CLIP if architecture == "llava_onevision" else SHORT_CLIP
    return calls_about((), (PICTURE,), (clip,), (FIRST_FRAME,), (PICTURE, OTHER), limits=(1, 6, 16))


WAYS = [
    pytest.param(name, way, marks=[] if name in ONE_OF_EACH_PATH else pytest.mark.full)
    for name in ARCHITECTURES
    for way in ("shared", "padded")
    if way == "shared" or name not in NOT_SHARED
]
PICTURES = calls_about((PICTURE,), (OTHER,), (LARGE,), limits=(1, 6, 16))


@pytest.mark.parametrize(
    ("architecture", "most"),
    [
        pytest.param(name, most, marks=[] if name in ONE_OF_EACH_PATH else pytest.mark.full)
        for name, most in {
            **dict.fromkeys(("qwen2_5_vl", "llava_onevision", "idefics3", "gemma3", "internvl", "molmo2"), 3),
            # Windows and states hold the last tokens of a prefix: pictures of as many tokens alone are together.
            **dict.fromkeys(("mistral3", "qwen3_5", "lfm3_vl"), 2),
        }.items()
    ],
)
def test_pictures_in_one_pass_give_the_same_answers(
    architecture: str,
    most: int,
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[int] = []
    encode = PackedModel.encode_batch

    def recorded(model: PackedModel, ids: torch.Tensor, *arguments: Any) -> Any:
        rows.append(len(ids))
        return encode(model, ids, *arguments)

    monkeypatch.setattr(PackedModel, "encode_batch", recorded)
    engine = engine_of(checkpoint_of(architecture), pictures_per_prefill=8)
    replies = list(engine.generate(PICTURES, MEDIA))
    assert len(near_ties(texts(replies), reference_answers(architecture, PICTURES))) <= 1
    assert engine.warnings == ()
    assert max(rows) == most
    assert len(PICTURES) - 3 == sum(isinstance(r.outcome, Answer) and r.outcome.cached_tokens > 0 for r in replies)


@pytest.mark.parametrize(
    ("given", "device", "pictures"), [(None, "cpu", 1), (None, "cuda", 16), (4, "cpu", 4), (1, "cuda", 1)]
)
def test_number_of_pictures_in_a_pass_is_chosen_by_device(given: int | None, device: str, pictures: int) -> None:
    spec = ModelSpec(engine="transformers", model="m", pictures_per_prefill=given)
    assert pictures_per_pass(spec, torch.device(device)) == pictures


@pytest.mark.full
def test_pass_of_several_pictures_is_smaller_and_not_divided_where_memory_is_short(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.engines.transformers.prefix_sharing._MIN_PASS_TOKENS", 8)
    engine = engine_of(checkpoint_of("qwen3_vl"), pictures_per_prefill=8)
    assert engine._shared is not None
    assert not near_ties(texts(list(engine.generate(PICTURES, MEDIA))), reference_answers("qwen3_vl", PICTURES))
    engine._shared.clear()
    while (engine._shared._packed.pass_tokens or 99) > 32:
        assert engine._shared.shorten_passes()
    assert not near_ties(texts(list(engine.generate(PICTURES, MEDIA))), reference_answers("qwen3_vl", PICTURES))
    assert engine._shared.shorten_passes()
    assert engine._shared.shorten_passes()
    assert not engine._shared.shorten_passes()
    assert engine._shared._packed.pass_tokens is None, "shorter ones did not help"


@pytest.mark.full
@pytest.mark.parametrize(
    ("architecture", "reason"), [("molmo2", "in a batch and alone differ by"), ("minicpmv4_6", "must match the size")]
)
def test_pictures_that_a_model_computes_otherwise_in_a_pass_are_prefilled_alone(
    architecture: str,
    reason: str,
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("models.engines.transformers.prompt_records._PATCHES", {})
    engine = engine_of(checkpoint_of(architecture), pictures_per_prefill=8)
    answers = texts(list(engine.generate(PICTURES, MEDIA)))
    assert len(near_ties(answers, reference_answers(architecture, PICTURES))) <= 1
    assert reason in engine.warnings[0]
    assert len(engine.warnings) == 1


@pytest.mark.full
def test_padded_batch_counts_the_patches_of_earlier_pictures(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    engine = engine_of(checkpoint_of("molmo2"), padded=True)
    replies = [reply for n in range(5) for reply in engine.generate(PICTURES[n::5], MEDIA)]
    assert len(near_ties(texts(replies), reference_answers("molmo2", PICTURES))) <= 1


@pytest.mark.parametrize(("architecture", "way"), WAYS)
def test_every_architecture_equals_the_reference(
    architecture: str,
    way: str,
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = calls_for(architecture)
    engine = engine_of(checkpoint_of(architecture), padded=way == "padded")
    answers = texts(list(engine.generate(calls, MEDIA)))
    ties = near_ties(answers, reference_answers(architecture, calls))
    print(f"{architecture}, {way}: {len(calls)} calls, {len(ties)} near ties")
    assert len(ties) <= 1
    warnings = [record for record in caplog.records if record.name.startswith("models.")]
    reason = NOT_SHARED.get(architecture)
    assert len(warnings) == (way == "padded" or reason is not None), "a fallback hides an error"
    assert reason is None or reason in warnings[0].getMessage()
    min_distinct = len(calls) // (3 if architecture == "instructblip_t5" else 2)
    assert len(set(answers.values())) > min_distinct, "too few distinct answers for a test"
    assert (engine.no_sharing_reason is None) is (way == "shared" and reason is None)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("way", ["shared", "padded"])
def test_answers_do_not_depend_on_the_batch_size(
    way: str, batch_size: int, checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    calls = calls_about((), (PICTURE,), (CLIP,))
    engine = engine_of(checkpoint_of("qwen2_5_vl"), padded=way == "padded", batch_size=batch_size)
    ties = near_ties(texts(list(engine.generate(calls, MEDIA))), reference_answers("qwen2_5_vl", calls))
    assert len(ties) <= 1


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "qwen3_5", "lfm3_vl")))
def test_calls_begin_as_others_end(
    architecture: str, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_about((PICTURE,), (OTHER,), (CLIP,), limits=(24,))
    rows: list[int] = []
    before: list[int] = []  # the steps before each reply
    latencies: list[float] = []
    step = PackedModel.step

    def recorded(model: PackedModel, packed: PackedSequences, tokens: Sequence[int]) -> torch.Tensor:
        rows.append(len(packed))
        return step(model, packed, tokens)

    def answers(batch_size: int) -> dict[str, tuple[str, int]]:
        engine = engine_of(checkpoint_of(architecture), batch_size=batch_size)
        assert engine._shared is not None
        engine._shared._end_ids = frozenset(range(0, 100_000, 7))  # so that answers end early, at different steps
        answered = {}
        for reply in engine.generate(calls, MEDIA):
            assert isinstance(reply.outcome, Answer)
            answered[reply.call_id] = (reply.outcome.text, reply.outcome.output_tokens)
            before.append(len(rows))
            latencies.append(reply.latency_s)
        return answered

    expected = answers(100)
    tokens = [expected[call.call_id][1] for call in calls]
    assert len(set(tokens)) > 4
    monkeypatch.setattr(PackedModel, "step", recorded)
    for module in ("engine", "prefix_sharing"):
        monkeypatch.setattr(f"models.engines.transformers.{module}.perf_counter", lambda: float(len(rows)))
    assert answers(4) == expected
    assert max(rows) == 4
    gaps = [later - earlier for earlier, later in itertools.pairwise([0, *before[len(calls) :]])]
    assert max(gaps) <= 24, "a reply waits for longer than an answer takes"
    assert 0 < max(latencies[len(calls) :]) < len(rows), "the wait for a place in the batch is no part of it"
    assert len(rows) < sum(max(tokens[start : start + 4]) - 1 for start in range(0, len(tokens), 4))


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "idefics3")))
def test_one_call_per_picture_is_batched_without_sharing(
    architecture: str, checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    everything = calls_for(architecture)
    calls = [everything[len(QUESTIONS) * kind + kind] for kind in range(5)]
    replies = list(engine_of(checkpoint_of(architecture)).generate(calls, MEDIA))
    expected = reference_answers(architecture, everything)
    assert not near_ties(texts(replies), {call.call_id: expected[call.call_id] for call in calls})
    assert all(isinstance(r.outcome, Answer) and r.outcome.cached_tokens == 0 for r in replies)


def test_end_token_ends_its_row_only(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, tmp_path: Path
) -> None:
    ends = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "ends")
    settings = json.loads((ends / "generation_config.json").read_text())
    stops = [settings["eos_token_id"], *range(300, 330)]
    (ends / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": stops}))
    calls = calls_about((PICTURE,), ())
    expected = reference_answers(ends, calls)
    for padded in (False, True):
        replies = list(engine_of(ends, padded=padded).generate(calls, MEDIA))
        assert not near_ties(texts(replies), expected)
        reasons = {reply.outcome.finish_reason for reply in replies if isinstance(reply.outcome, Answer)}
        assert reasons == {"stop", "length"}
        for reply in replies:
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.output_tokens == len(expected[reply.call_id][1])


def test_sampling_settings_of_the_checkpoint_are_ignored(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, tmp_path: Path
) -> None:
    changed = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "changed")
    settings = json.loads((changed / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 1.5, "top_k": 3, "repetition_penalty": 1.8, "num_beams": 2}
    (changed / "generation_config.json").write_text(json.dumps(settings))
    calls = calls_about((PICTURE,))
    expected = reference_answers("qwen2_5_vl", calls)
    for padded in (False, True):
        assert not near_ties(texts(list(engine_of(changed, padded=padded).generate(calls, MEDIA))), expected)


def test_beam_search_equals_the_reference(checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers) -> None:
    greedy = calls_about((PICTURE,), (), limits=(1, 6, 12))
    calls = [replace(call, generation=replace(call.generation, num_beams=3)) for call in greedy]
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    answers = texts(list(engine.generate(calls, MEDIA)))
    expected = reference_answers("qwen2_5_vl", calls)
    assert answers == {call_id: text for call_id, (text, _) in expected.items()}
    assert answers != texts(list(engine.generate(greedy, MEDIA)))
    for requested, decoding in ((calls, "beam-3"), (greedy, "greedy")):
        assert {getattr(reply.outcome, "decoding", "") for reply in engine.generate(requested, MEDIA)} == {decoding}


def test_draws_depend_on_call_and_seed_only(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    calls = calls_about((PICTURE,), (), limits=(1, 6, 12), temperature=0.8)
    together = texts(list(engine.generate(calls, MEDIA)))
    torch.manual_seed(1)
    assert texts([reply for call in reversed(calls) for reply in engine.generate([call], MEDIA)]) == together
    assert texts(list(engine_of(checkpoint_of("qwen2_5_vl"), padded=True).generate(calls, MEDIA))) == together
    greedy = [replace(call, generation=replace(call.generation, temperature=0.0)) for call in calls]
    assert texts(list(engine.generate(greedy, MEDIA))) != together
    reseeded = [replace(call, generation=replace(call.generation, seed=43)) for call in calls]
    assert texts(list(engine.generate(reseeded, MEDIA))) != together


def test_low_temperature_equals_greedy_decoding(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    calls = calls_about((PICTURE,), temperature=1e-4)
    answers = texts(list(engine_of(checkpoint_of("qwen2_5_vl")).generate(calls, MEDIA)))
    assert not near_ties(answers, reference_answers("qwen2_5_vl", calls_about((PICTURE,))))


def test_prepared_pixels_are_not_preprocessed_again(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_about((PICTURE,), (CLIP,))
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    process, processed = engine._maker._process, []
    monkeypatch.setattr(engine._maker, "_process", lambda *args: processed.append(args[0].media) or process(*args))
    prepare(FrameReductionEngine(engine), calls, MEDIA)
    assert (len(processed), {*processed}) == (2, {call.media for call in calls})
    assert not near_ties(texts(list(engine.generate(calls, MEDIA))), reference_answers("qwen2_5_vl", calls))
    assert len(processed) == 2

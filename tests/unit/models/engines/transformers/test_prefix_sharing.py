"""Prefix sharing of the `transformers` engine: its savings and counts, and when it is off."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers import prefix_sharing
from models.engines.transformers.engine import TransformersEngine
from models.entry_fields import Limits
from models.errors import PrefixSharingUnsupportedError
from models.families import ModelFamily
from models.messages import Answer, Call, Generation, Text, Turn, user
from tests.unit.models.engines.conftest import Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    ReferenceModel,
    calls_about,
    engine_of,
    near_ties,
    texts,
)


class TowerCalls:
    """Records the rows of pixels that the vision tower receives."""

    def __init__(self, engine: TransformersEngine) -> None:
        self.rows: list[int] = []
        engine._checkpoint.model.model.visual.register_forward_pre_hook(self._record)

    def _record(self, _: Any, args: tuple[Any, ...]) -> None:
        self.rows.append(len(args[0]))


@pytest.mark.parametrize("way", ["shared", "padded", "beams"])
def test_pixels_are_encoded_once(way: str, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"), padded=way == "padded")
    tower = TowerCalls(engine)
    calls = calls_about((PICTURE,), num_beams=2 if way == "beams" else 1)
    if way == "beams":
        calls = [replace(call, generation=replace(call.generation, max_new_tokens=4)) for call in calls]
    assert len(texts(list(engine.generate(calls, MEDIA)))) == len(calls)
    single = TowerCalls(fresh := engine_of(checkpoint_of("qwen2_5_vl")))
    list(fresh.generate(calls_about((PICTURE,))[:1], MEDIA))
    assert tower.rows == single.rows


def test_later_step_about_the_same_picture_reuses_its_prefix(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    tower = TowerCalls(engine)
    calls = calls_about((PICTURE,))
    first = {reply.call_id: reply.outcome for reply in engine.generate(calls[:3], MEDIA)}
    later = {reply.call_id: reply.outcome for reply in engine.generate(calls[3:], MEDIA)}
    assert len(tower.rows) == 1
    assert sorted(o.cached_tokens > 0 for o in first.values() if isinstance(o, Answer)) == [False, True, True]
    assert all(isinstance(o, Answer) and o.cached_tokens > 0 for o in later.values())
    reference = reference_answers("qwen2_5_vl", calls)
    assert {k: o.text for k, o in (first | later).items() if isinstance(o, Answer)} == {
        k: text for k, (text, _) in reference.items()
    }


def test_first_call_about_a_clip_pays_for_it(checkpoint_of: Checkpoints) -> None:
    calls = calls_about((CLIP,), ())
    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"))
    replies = {reply.call_id: reply.outcome for reply in engine_of(checkpoint_of("qwen2_5_vl")).generate(calls, MEDIA)}
    paid = 0
    for call in calls:
        outcome = replies[call.call_id]
        assert isinstance(outcome, Answer)
        assert outcome.input_tokens == reference.inputs(call)["input_ids"].shape[1]
        assert outcome.output_tokens == call.generation.max_new_tokens
        paid += bool(call.media) and outcome.cached_tokens == 0
    assert paid == 1, "exactly one call pays for the clip"


def test_conversations_with_media_between_texts_equal_the_reference(checkpoint_of: Checkpoints) -> None:
    turns = (
        user("Guarda: ", PICTURE, " e poi ", OTHER, ". Quale?"),
        Turn("assistant", (Text("La prima."),)),
        user("Perché? ", "Rispondi in breve."),
    )
    calls = [
        Call(
            call_id=str(index),
            turns=(*turns[:2], user(*turns[2].parts, more)),
            generation=Generation(max_new_tokens=12),
        )
        for index, more in enumerate(("", " Sì?", " No?"))
    ]
    for architecture in ("qwen2_5_vl", "idefics3"):
        reference = ReferenceModel(checkpoint_of(architecture))
        expected = {call.call_id: reference.answer(call) for call in calls}
        assert not near_ties(texts(list(engine_of(checkpoint_of(architecture)).generate(calls, MEDIA))), expected)


def test_system_prompt_is_only_added_by_the_spec(checkpoint_of: Checkpoints) -> None:
    call = Call(call_id="0", turns=(user(PICTURE, "Perché?"),), generation=Generation(max_new_tokens=8))
    with_system = replace(call, turns=(Turn("system", (Text("Parla piano."),)), *call.turns))
    joined = replace(call, turns=(Turn("system", (Text("Sii breve."),)), *call.turns))
    both = replace(call, turns=(Turn("system", (Text("Sii breve.\n\nParla piano."),)), *call.turns))
    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"))
    engine = engine_of(checkpoint_of("qwen2_5_vl"), system="Sii breve.")
    assert texts(list(engine.generate([call], MEDIA)))["0"] == reference.answer(joined)[0]
    assert texts(list(engine.generate([with_system], MEDIA)))["0"] == reference.answer(both)[0]
    assert texts(list(engine_of(checkpoint_of("qwen2_5_vl")).generate([call], MEDIA)))["0"] == reference.answer(call)[0]


def test_pixels_and_frames_are_limited(checkpoint_of: Checkpoints) -> None:
    call = calls_about((CLIP,))[0]
    size = {"shortest_edge": 56 * 56, "longest_edge": 4000}
    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"), images_kwargs={"size": size}, videos_kwargs={"size": size})
    engine = engine_of(checkpoint_of("qwen2_5_vl"), limits=Limits(max_pixels=4000))
    assert engine._maker.rules.pixel_limit == "processor"
    (reply,) = engine.generate([call], MEDIA)
    assert isinstance(reply.outcome, Answer)
    assert reply.outcome.input_tokens == reference.inputs(call)["input_ids"].shape[1]
    fewer = engine_of(checkpoint_of("qwen2_5_vl"), limits=Limits(max_frames=8))
    (thinned,) = fewer.generate([call], MEDIA)
    unlimited = engine_of(checkpoint_of("qwen2_5_vl"))
    (plain,) = unlimited.generate([call], MEDIA)
    assert isinstance(thinned.outcome, Answer)
    assert isinstance(plain.outcome, Answer)
    tokens_per_frame_pair = 6
    assert plain.outcome.input_tokens - thinned.outcome.input_tokens == (32 - 8) // 2 * tokens_per_frame_pair
    before = engine_of(checkpoint_of("llava_next"), limits=Limits(max_pixels=2000))
    assert before._maker.rules.pixel_limit == "before"
    assert len(texts(list(before.generate(calls_about((PICTURE,), (FIRST_FRAME,)), MEDIA)))) == 10


def test_unlisted_model_type_is_verified_on_its_first_prompt(
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(prefix_sharing, "family", lambda _: ModelFamily())
    calls = calls_about((PICTURE,), ())
    expected = reference_answers("qwen2_5_vl", calls)
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    assert not near_ties(texts(list(engine.generate(calls, MEDIA))), expected)
    assert engine.no_sharing_reason is None
    monkeypatch.setattr("models.engines.transformers.packed.kv_cache.merge", lambda a, b: (a[0].float(), b[1]))
    wrong = engine_of(checkpoint_of("qwen2_5_vl"))
    with caplog.at_level(logging.WARNING):
        assert not near_ties(texts(list(wrong.generate(calls, MEDIA))), expected)
    assert wrong.no_sharing_reason is not None
    assert "logits differ" in wrong.no_sharing_reason
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_prefilled_prompts_are_answered_in_padded_batches_when_sharing_ends(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise PrefixSharingUnsupportedError("not this one")

    monkeypatch.setattr("models.engines.transformers.prefix_sharing.decode", reject)
    calls = calls_about((PICTURE,), (CLIP,), limits=(1, 8, 24))
    engine = engine_of(checkpoint_of("llava_onevision"))
    answers = texts(list(engine.generate(calls, MEDIA)))
    expected = reference_answers("llava_onevision", calls)
    assert not near_ties(answers, expected)
    assert engine.no_sharing_reason == "not this one"


@pytest.mark.parametrize("way", ["no placeholders", "another split"])
def test_text_that_cannot_be_split_from_pixels_goes_through_the_processor(
    way: str, checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(checkpoint_of("internvl"))
    maker = engine._maker
    if way == "no placeholders":
        monkeypatch.setattr(maker, "_placeholders", ())
    else:
        encode = maker._encode

        def reversed_ids(texts: Sequence[str]) -> list[Any]:
            encoded: list[Any] = encode(texts)
            return [ids[::-1] for ids in encoded]

        monkeypatch.setattr(maker, "_encode", reversed_ids)
    calls = calls_about((PICTURE,), (FIRST_FRAME,))
    replies = list(engine.generate(calls, MEDIA))
    assert not near_ties(texts(replies), reference_answers("internvl", calls))
    assert sum(isinstance(r.outcome, Answer) and r.outcome.cached_tokens > 0 for r in replies) == 8
    assert len({id(prompt.inputs) for prompt, _ in maker._heads.values()}) == 2, "pixels are held once per medium"


def test_prefixes_are_not_cached_without_memory(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    assert engine._shared is not None
    engine._shared._cache_bytes = 0
    tower = TowerCalls(engine)
    calls = calls_about((PICTURE,), limits=(2,))
    first, again = (texts(list(engine.generate(calls, MEDIA))) for _ in range(2))
    assert first == again
    assert len(tower.rows) == 2


def test_encoder_decoder_does_not_share(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("llama"))
    engine._checkpoint.model.config.is_encoder_decoder = True
    assert engine._build_shared_model() is None
    assert engine.no_sharing_reason == "the model is an encoder-decoder"


def test_unknown_model_structure_does_not_share(checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(checkpoint_of("llama"))
    monkeypatch.setattr(engine._checkpoint.model, "get_decoder", torch.nn.Identity)
    assert engine._build_shared_model() is None
    assert engine.no_sharing_reason is not None
    assert "not found" in engine.no_sharing_reason


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_adapter_answers_equal_the_reference(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"))
    calls = calls_about((PICTURE,), ())
    without_adapter = {call.call_id: reference.answer(call)[0] for call in calls}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
        get_peft_model(reference.model, config).save_pretrained(tmp_path)
    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"))
    reference.model = PeftModel.from_pretrained(reference.model, tmp_path).eval()
    expected = {call.call_id: reference.answer(call) for call in calls}
    engine = engine_of(checkpoint_of("qwen2_5_vl"), adapter=str(tmp_path))
    answers = texts(list(engine.generate(calls, MEDIA)))
    assert not near_ties(answers, expected)
    assert engine.no_sharing_reason is None
    assert sum(answers[call_id] == without_adapter[call_id] for call_id in answers) < 5

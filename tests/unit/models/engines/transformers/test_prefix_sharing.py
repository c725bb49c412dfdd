"""What the `transformers` engine saves, counts and limits, and when it does not share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers import prefix_sharing as sharing
from models.engines.transformers.engine import TransformersEngine
from models.errors import PrefixSharingUnsupportedError
from models.messages import Answer, Call, Generation, Text, Turn, user
from models.spec import Limits
from tests.unit.models.engines.conftest import Checkpoints, Judge
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    Alone,
    calls_about,
    engine_of,
    excused,
    texts,
)

pytestmark = pytest.mark.usefixtures("one_thread")


class _Seen:
    """How many rows of pixels the vision tower was given."""

    def __init__(self, engine: TransformersEngine) -> None:
        self.rows: list[int] = []
        engine._checkpoint.model.model.visual.register_forward_pre_hook(self._look)

    def _look(self, _: Any, args: tuple[Any, ...]) -> None:
        self.rows.append(len(args[0]))


@pytest.mark.parametrize("way", ["shared", "plain", "beams"])
def test_pixels_are_encoded_once(way: str, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"), plain=way == "plain")
    seen = _Seen(engine)
    calls = calls_about((PICTURE,), num_beams=2 if way == "beams" else 1)
    if way == "beams":
        calls = [replace(call, generation=replace(call.generation, max_new_tokens=4)) for call in calls]
    assert len(texts(list(engine.generate(calls, MEDIA)))) == len(calls)
    alone = _Seen(fresh := engine_of(checkpoint_of("qwen2_5_vl")))
    list(fresh.generate(calls_about((PICTURE,))[:1], MEDIA))
    assert seen.rows == alone.rows


def test_a_later_step_about_the_same_picture_reads_it_no_more(checkpoint_of: Checkpoints, answers_alone: Judge) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    seen = _Seen(engine)
    calls = calls_about((PICTURE,))
    first = {reply.call_id: reply.outcome for reply in engine.generate(calls[:3], MEDIA)}
    later = {reply.call_id: reply.outcome for reply in engine.generate(calls[3:], MEDIA)}
    assert len(seen.rows) == 1
    assert sorted(o.cached_tokens > 0 for o in first.values() if isinstance(o, Answer)) == [False, True, True]
    assert all(isinstance(o, Answer) and o.cached_tokens > 0 for o in later.values())
    alone = answers_alone("qwen2_5_vl", calls)
    assert {k: o.text for k, o in (first | later).items() if isinstance(o, Answer)} == {
        k: text for k, (text, _) in alone.items()
    }


def test_tokens_are_counted(checkpoint_of: Checkpoints) -> None:
    calls = calls_about((CLIP,), ())
    alone = Alone(checkpoint_of("qwen2_5_vl"))
    replies = {reply.call_id: reply.outcome for reply in engine_of(checkpoint_of("qwen2_5_vl")).generate(calls, MEDIA)}
    paid = 0
    for call in calls:
        outcome = replies[call.call_id]
        assert isinstance(outcome, Answer)
        assert outcome.input_tokens == alone.inputs(call)["input_ids"].shape[1]
        assert outcome.output_tokens == call.generation.max_new_tokens
        paid += bool(call.media) and outcome.cached_tokens == 0
    assert paid == 1, "the first call about a clip pays for it, the others do not"


def test_conversations_and_media_between_words(checkpoint_of: Checkpoints) -> None:
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
        alone = Alone(checkpoint_of(architecture))
        want = {call.call_id: alone.ask(call) for call in calls}
        assert not excused(texts(list(engine_of(checkpoint_of(architecture)).generate(calls, MEDIA))), want)


def test_a_system_prompt_only_when_asked_for(checkpoint_of: Checkpoints) -> None:
    call = Call(call_id="0", turns=(user(PICTURE, "Perché?"),), generation=Generation(max_new_tokens=8))
    own = replace(call, turns=(Turn("system", (Text("Parla piano."),)), *call.turns))
    said = replace(call, turns=(Turn("system", (Text("Sii breve."),)), *call.turns))
    both = replace(call, turns=(Turn("system", (Text("Sii breve.\n\nParla piano."),)), *call.turns))
    alone = Alone(checkpoint_of("qwen2_5_vl"))
    engine = engine_of(checkpoint_of("qwen2_5_vl"), system="Sii breve.")
    assert texts(list(engine.generate([call], MEDIA)))["0"] == alone.ask(said)[0]
    assert texts(list(engine.generate([own], MEDIA)))["0"] == alone.ask(both)[0]
    assert texts(list(engine_of(checkpoint_of("qwen2_5_vl")).generate([call], MEDIA)))["0"] == alone.ask(call)[0]


def test_pixels_and_frames_are_limited(checkpoint_of: Checkpoints) -> None:
    call = calls_about((CLIP,))[0]
    size = {"shortest_edge": 56 * 56, "longest_edge": 4000}
    alone = Alone(checkpoint_of("qwen2_5_vl"), images_kwargs={"size": size}, videos_kwargs={"size": size})
    engine = engine_of(checkpoint_of("qwen2_5_vl"), limits=Limits(max_pixels=4000))
    assert engine.pixel_limit == "processor"
    (reply,) = engine.generate([call], MEDIA)
    assert isinstance(reply.outcome, Answer)
    assert reply.outcome.input_tokens == alone.inputs(call)["input_ids"].shape[1]
    fewer = engine_of(checkpoint_of("qwen2_5_vl"), limits=Limits(max_frames=8))
    (thinned,) = fewer.generate([call], MEDIA)
    whole = engine_of(checkpoint_of("qwen2_5_vl"))
    (plain,) = whole.generate([call], MEDIA)
    assert isinstance(thinned.outcome, Answer)
    assert isinstance(plain.outcome, Answer)
    a_frame_pair = 6
    assert plain.outcome.input_tokens - thinned.outcome.input_tokens == (32 - 8) // 2 * a_frame_pair
    before = engine_of(checkpoint_of("llava_next"), limits=Limits(max_pixels=2000))
    assert before.pixel_limit == "before"
    assert len(texts(list(before.generate(calls_about((PICTURE,), (FIRST_FRAME,)), MEDIA)))) == 10


def test_a_model_that_is_not_on_the_list_proves_itself(
    checkpoint_of: Checkpoints, answers_alone: Judge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sharing, "VERIFIED_MODEL_TYPES", frozenset())
    calls = calls_about((PICTURE,), ())
    want = answers_alone("qwen2_5_vl", calls)
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    assert not excused(texts(list(engine.generate(calls, MEDIA))), want)
    assert engine.plain_reason is None
    monkeypatch.setattr("models.engines.transformers.kv_cache.merge", lambda one, other: (one[0].float(), other[1]))
    wrong = engine_of(checkpoint_of("qwen2_5_vl"))
    with caplog.at_level(logging.WARNING):
        assert not excused(texts(list(wrong.generate(calls, MEDIA))), want)
    assert wrong.plain_reason is not None
    assert "logits differ" in wrong.plain_reason
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_jobs_already_begun_are_answered_plainly_when_sharing_ends(
    checkpoint_of: Checkpoints, answers_alone: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PrefixSharingUnsupportedError("not this one")

    monkeypatch.setattr("models.engines.transformers.prefix_sharing.decode", refuse)
    calls = calls_about((PICTURE,), (CLIP,), limits=(1, 8, 24))
    engine = engine_of(checkpoint_of("llava_onevision"))
    got = texts(list(engine.generate(calls, MEDIA)))
    want = answers_alone("llava_onevision", calls)
    assert not excused(got, want)
    assert engine.plain_reason == "not this one"


@pytest.mark.parametrize("way", ["no marks", "another cut"])
def test_words_that_cannot_be_told_from_pixels_go_through_the_processor(
    way: str, checkpoint_of: Checkpoints, answers_alone: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(checkpoint_of("internvl"))
    maker = engine._maker
    if way == "no marks":
        monkeypatch.setattr(maker, "_marks", ())
    else:
        encode = maker._encode

        def otherwise(texts: Sequence[str]) -> list[Any]:
            found: list[Any] = encode(texts)
            return [ids[::-1] for ids in found]

        monkeypatch.setattr(maker, "_encode", otherwise)
    calls = calls_about((PICTURE,), (FIRST_FRAME,))
    replies = list(engine.generate(calls, MEDIA))
    assert not excused(texts(replies), answers_alone("internvl", calls))
    assert sum(isinstance(r.outcome, Answer) and r.outcome.cached_tokens > 0 for r in replies) == 8
    assert len({id(prompt.inputs) for prompt, _ in maker._heads.values()}) == 2, "pixels are held once a medium"


def test_nothing_is_kept_without_memory_for_it(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    assert engine._shared is not None
    engine._shared._kept_bytes = 0
    seen = _Seen(engine)
    calls = calls_about((PICTURE,), limits=(2,))
    first, again = (texts(list(engine.generate(calls, MEDIA))) for _ in range(2))
    assert first == again
    assert len(seen.rows) == 2


def test_an_encoder_with_a_decoder_is_not_shared(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("llama"))
    engine._checkpoint.model.config.is_encoder_decoder = True
    assert engine._share() is None
    assert engine.plain_reason == "the model is an encoder and a decoder"


def test_a_model_of_unknown_build_is_not_shared(checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(checkpoint_of("llama"))
    monkeypatch.setattr(engine._checkpoint.model, "get_decoder", torch.nn.Identity)
    assert engine._share() is None
    assert engine.plain_reason is not None
    assert "not found" in engine.plain_reason


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_an_adapter(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    alone = Alone(checkpoint_of("qwen2_5_vl"))
    calls = calls_about((PICTURE,), ())
    bare = {call.call_id: alone.ask(call)[0] for call in calls}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
        get_peft_model(alone.model, config).save_pretrained(tmp_path)
    alone = Alone(checkpoint_of("qwen2_5_vl"))
    alone.model = PeftModel.from_pretrained(alone.model, tmp_path).eval()
    want = {call.call_id: alone.ask(call) for call in calls}
    engine = engine_of(checkpoint_of("qwen2_5_vl"), adapter=str(tmp_path))
    got = texts(list(engine.generate(calls, MEDIA)))
    assert not excused(got, want)
    assert engine.plain_reason is None
    assert sum(got[call_id] == bare[call_id] for call_id in got) < 5

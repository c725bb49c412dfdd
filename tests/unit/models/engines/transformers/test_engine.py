"""The engine says, token for token in float32, what the model says to one prompt at a time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.messages import Answer, Call
from tests.support.checkpoints import ARCHITECTURES
from tests.unit.models.engines.conftest import Checkpoints, Judge
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    QUESTIONS,
    SHORT_CLIP,
    calls_about,
    engine_of,
    excused,
    texts,
)

pytestmark = pytest.mark.usefixtures("one_thread")


WORDS_ALONE = ("llama", "qwen2", "mistral", "gemma", "gemma3_text")
NO_TEMPLATE = ("blip-2", "instructblip", "instructblip_t5")
BRIEF = (
    "llava_next_video", "idefics2", "smolvlm", "ovis2", "gemma3", "phi4_multimodal", "mllama", "qwen3_vl",
)  # fmt: skip
FILMS = ("qwen2_5_vl", "qwen2_vl", "qwen3_vl", "llava_onevision", "llava_next_video", "internvl", "smolvlm")
NOT_SHARED = {
    "mllama": "looks across",
    "instructblip": "query transformer reads the words",
    "instructblip_t5": "an encoder and a decoder",
}
"""Architectures that answer in plain batches, on a picture encoded once, and what the log says of it."""


def calls_for(architecture: str) -> list[Call]:
    if architecture in WORDS_ALONE:
        return calls_about(())
    if architecture == "qwen2_5_vl":
        return calls_about((), (PICTURE,), (CLIP,), (FIRST_FRAME,), (PICTURE, OTHER))
    if architecture in NO_TEMPLATE:
        return calls_about((), (PICTURE,), (OTHER,), limits=(1, 6, 16))
    if architecture in BRIEF:
        clip = FIRST_FRAME if architecture == "phi4_multimodal" else SHORT_CLIP
        return calls_about((), (clip,), (PICTURE, OTHER), limits=(1, 6, 16))
    clip = CLIP if architecture == "llava_onevision" else SHORT_CLIP
    return calls_about((), (PICTURE,), (clip,), (FIRST_FRAME,), (PICTURE, OTHER), limits=(1, 8, 24))


WAYS = [
    (name, way) for name in ARCHITECTURES for way in ("shared", "plain") if way == "shared" or name not in NOT_SHARED
]


@pytest.mark.parametrize(("architecture", "way"), WAYS)
def test_every_architecture_answers_as_alone(
    architecture: str, way: str, checkpoint_of: Checkpoints, answers_alone: Judge, caplog: pytest.LogCaptureFixture
) -> None:
    calls = calls_for(architecture)
    engine = engine_of(checkpoint_of(architecture), plain=way == "plain")
    got = texts(list(engine.generate(calls, MEDIA)))
    near = excused(got, answers_alone(architecture, calls))
    print(f"{architecture}, {way}: {len(calls)} calls, {len(near)} near ties")
    assert len(near) <= 1
    ours = [record for record in caplog.records if record.name.startswith("models.")]
    apart = NOT_SHARED.get(architecture)
    assert len(ours) == (way == "plain" or apart is not None), "a way out was taken that hides a fault"
    assert apart is None or apart in ours[0].getMessage()
    least = len(calls) // (3 if architecture == "instructblip_t5" else 2)
    assert len(set(got.values())) > least, "answers that hardly differ prove little"
    assert (engine.plain_reason is None) is (way == "shared" and apart is None)
    kind = "none" if architecture in WORDS_ALONE else "video" if architecture in FILMS else "image"
    assert engine.media_kind == kind


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("way", ["shared", "plain"])
def test_any_batch_size(way: str, batch_size: int, checkpoint_of: Checkpoints, answers_alone: Judge) -> None:
    calls = calls_about((), (PICTURE,), (CLIP,))
    engine = engine_of(checkpoint_of("qwen2_5_vl"), plain=way == "plain", batch_size=batch_size)
    near = excused(texts(list(engine.generate(calls, MEDIA))), answers_alone("qwen2_5_vl", calls))
    assert len(near) <= 1


@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "idefics3"])
def test_one_call_a_picture_shares_nothing_and_is_batched(
    architecture: str, checkpoint_of: Checkpoints, answers_alone: Judge
) -> None:
    everything = calls_for(architecture)
    calls = [everything[len(QUESTIONS) * kind + kind] for kind in range(5)]
    replies = list(engine_of(checkpoint_of(architecture)).generate(calls, MEDIA))
    want = answers_alone(architecture, everything)
    assert not excused(texts(replies), {call.call_id: want[call.call_id] for call in calls})
    assert all(isinstance(r.outcome, Answer) and r.outcome.cached_tokens == 0 for r in replies)


def test_an_end_token_ends_its_own_row(checkpoint_of: Checkpoints, answers_alone: Judge, tmp_path: Path) -> None:
    ends = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "ends")
    settings = json.loads((ends / "generation_config.json").read_text())
    stops = [settings["eos_token_id"], *range(300, 330)]
    (ends / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": stops}))
    calls = calls_about((PICTURE,), ())
    want = answers_alone(ends, calls)
    for plain in (False, True):
        replies = list(engine_of(ends, plain=plain).generate(calls, MEDIA))
        assert not excused(texts(replies), want)
        reasons = {reply.outcome.finish_reason for reply in replies if isinstance(reply.outcome, Answer)}
        assert reasons == {"stop", "length"}
        for reply in replies:
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.output_tokens == len(want[reply.call_id][1])


def test_the_checkpoints_own_sampling_and_penalties_are_not_used(
    checkpoint_of: Checkpoints, answers_alone: Judge, tmp_path: Path
) -> None:
    wild = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "wild")
    settings = json.loads((wild / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 1.5, "top_k": 3, "repetition_penalty": 1.8, "num_beams": 2}
    (wild / "generation_config.json").write_text(json.dumps(settings))
    calls = calls_about((PICTURE,))
    want = answers_alone("qwen2_5_vl", calls)
    for plain in (False, True):
        assert not excused(texts(list(engine_of(wild, plain=plain).generate(calls, MEDIA))), want)


def test_beams(checkpoint_of: Checkpoints, answers_alone: Judge) -> None:
    greedy = calls_about((PICTURE,), (), limits=(1, 6, 12))
    calls = [replace(call, generation=replace(call.generation, num_beams=3)) for call in greedy]
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    got = texts(list(engine.generate(calls, MEDIA)))
    want = answers_alone("qwen2_5_vl", calls)
    assert got == {call_id: text for call_id, (text, _) in want.items()}
    assert got != texts(list(engine.generate(greedy, MEDIA)))
    for asked, decoding in ((calls, "beam-3"), (greedy, "greedy")):
        assert {getattr(reply.outcome, "decoding", "") for reply in engine.generate(asked, MEDIA)} == {decoding}


def test_a_draw_depends_on_call_and_seed_alone(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    calls = calls_about((PICTURE,), (), limits=(1, 6, 12), temperature=0.8)
    together = texts(list(engine.generate(calls, MEDIA)))
    torch.manual_seed(1)
    assert texts([reply for call in reversed(calls) for reply in engine.generate([call], MEDIA)]) == together
    assert texts(list(engine_of(checkpoint_of("qwen2_5_vl"), plain=True).generate(calls, MEDIA))) == together
    greedy = [replace(call, generation=replace(call.generation, temperature=0.0)) for call in calls]
    assert texts(list(engine.generate(greedy, MEDIA))) != together
    reseeded = [replace(call, generation=replace(call.generation, seed=43)) for call in calls]
    assert texts(list(engine.generate(reseeded, MEDIA))) != together


def test_low_temperature_is_greedy(checkpoint_of: Checkpoints, answers_alone: Judge) -> None:
    calls = calls_about((PICTURE,), temperature=1e-4)
    got = texts(list(engine_of(checkpoint_of("qwen2_5_vl")).generate(calls, MEDIA)))
    assert not excused(got, answers_alone("qwen2_5_vl", calls_about((PICTURE,))))

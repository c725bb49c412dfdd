"""Failures of one call or of the whole model, and how the engine handles them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models.engines.transformers import sampling
from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.row_errors import failure_reply, is_out_of_memory
from models.entry_fields import Limits
from models.errors import DeviceFailedError
from models.messages import Answer, Call, Failure, Frames, Media, StepOutput, user
from models.spec import ModelSpec
from tests.support.checkpoints import build_tiny
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.reference_answers import (
    LARGE,
    MEDIA,
    PICTURE,
    SHORT_CLIP,
    LimitedMemory,
    calls_about,
    near_ties,
    texts,
)


@pytest.fixture(scope="module")
def folder(checkpoint_of: Checkpoints) -> Path:
    return checkpoint_of("qwen2_5_vl")


@pytest.fixture
def engine(folder: Path) -> TransformersEngine:
    return TransformersEngine(spec_of(folder))


def spec_of(folder: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(folder), device="cpu", **more)


def outcomes(engine: TransformersEngine, calls: Sequence[Call], media: Any = None) -> dict[str, Answer | Failure]:
    replies = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA if media is None else media)}
    assert set(replies) == {call.call_id for call in calls}
    return replies


NOWHERE = Media("image", "f" * 64)
FLAT = Media("image", "e" * 64)
FLOATS = Media("video", "d" * 64, 2)
BAD_PIXELS = {
    FLAT: Frames(pixels=np.zeros((1, 8, 8), dtype=np.uint8)),
    FLOATS: Frames(pixels=np.zeros((2, 8, 8, 3), dtype=np.float32)),
}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (NOWHERE, "the call has no pixels for the image ffff"),
        (FLAT, "pixels are uint8 (1, 8, 8)"),
        (FLOATS, "pixels are float32 (2, 8, 8, 3)"),
        ("a placeholder of the model: <|image_pad|>", "image"),
        ("half a surrogate pair: \ud83d", "surrogate"),
    ],
)
def test_bad_call_fails_without_its_neighbours(engine: TransformersEngine, part: Any, message: str) -> None:
    good = calls_about((PICTURE,), (), limits=(3,))
    bad = replace(good[1], call_id="bad", turns=(user(PICTURE, "E qui? ", part),))
    replies = outcomes(engine, [good[0], bad, *good[1:]], MEDIA | BAD_PIXELS)
    failure = replies.pop("bad")
    assert isinstance(failure, Failure)
    assert failure.type == "preprocess"
    assert message in failure.message
    assert replies == outcomes(engine, good) | {"0": replies["0"]}


@pytest.mark.parametrize("kind", ["compute", "preprocess"])
def test_lack_of_memory_is_no_fault_of_a_call(kind: str) -> None:
    outcome = failure_reply(calls_about(())[0], MemoryError(), kind).outcome
    assert outcome == Failure(type="out_of_memory", message="MemoryError: ")


def test_text_that_the_tokenizer_rejects_fails_its_call(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = type(engine._maker._tokenizer)
    original = tokenizer.__call__

    def reject_minutes(self: Any, texts: Any, **more: Any) -> Any:
        if any("minuto" in text for text in texts):
            raise ValueError("no minutes, please")
        return original(self, texts, **more)

    monkeypatch.setattr(tokenizer, "__call__", reject_minutes)
    replies = outcomes(engine, calls_about((), limits=(2,)))
    assert [call_id for call_id, outcome in replies.items() if isinstance(outcome, Failure)] == ["3"]
    assert replies["3"] == Failure(type="preprocess", message="ValueError: no minutes, please")


def test_text_model_rejects_pictures(tmp_path: Path) -> None:
    engine = TransformersEngine(spec_of(build_tiny(tmp_path, "llama")))
    replies = outcomes(engine, calls_about((PICTURE,), ()))
    assert [isinstance(replies[str(index)], Answer) for index in range(10)] == [False] * 5 + [True] * 5
    failure = replies["0"]
    assert isinstance(failure, Failure)
    assert (failure.type, "text-only" in failure.message) == ("preprocess", True)


def test_text_model_answers_without_pictures_of_a_single_colour(checkpoint_of: Checkpoints) -> None:
    engine = TransformersEngine(spec_of(checkpoint_of("llama")))
    white = np.full((1, 8, 8, 3), (255, 255, 254), np.uint8)
    spotted = white.copy()
    spotted[0, 7, 7] = 0
    calls = [replace(call, call_id=f"white {call.call_id}") for call in calls_about((PICTURE,))]
    alone = [*outcomes(engine, calls_about(())).values()]
    assert all(isinstance(outcome, Answer) for outcome in alone)
    assert [*outcomes(engine, calls, {PICTURE: Frames(pixels=white)}).values()] == alone
    rejected = outcomes(engine, calls, {PICTURE: Frames(pixels=spotted)})
    assert all(isinstance(outcome, Failure) for outcome in rejected.values())


def test_prompt_too_long_reports_its_tokens(folder: Path) -> None:
    engine = TransformersEngine(spec_of(folder, limits=Limits(max_model_len=60)))
    assert engine.max_model_len == 60
    calls = calls_about(())[:1]
    long = replace(calls[0], call_id="long", turns=(user("perché " * 100),))
    replies = outcomes(engine, [*calls, long])
    assert isinstance(replies["0"], Answer)
    failure = replies["long"]
    assert isinstance(failure, Failure)
    assert failure.type == "context_length"
    assert re.fullmatch(r"\d{3} tokens of prompt and 1 of answer exceed 60", failure.message)


def test_length_of_the_checkpoint_is_the_default_limit(folder: Path) -> None:
    engine = TransformersEngine(spec_of(folder))
    assert engine.max_model_len == 32_768
    call = replace(calls_about(())[0], turns=(user("perché " * 33_000),))
    (failure,) = outcomes(engine, [call]).values()
    assert isinstance(failure, Failure)
    assert failure.type == "context_length"


def test_beams_with_a_temperature_are_unsupported(engine: TransformersEngine) -> None:
    (call, *rest) = calls_about((), temperature=0.5)
    both = replace(call, generation=replace(call.generation, num_beams=2))
    replies = outcomes(engine, [both, *rest])
    failure = replies.pop(call.call_id)
    assert isinstance(failure, Failure)
    assert failure.type == "unsupported"
    assert all(isinstance(outcome, Answer) for outcome in replies.values())


MEMORY_ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError(),
]


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_memory_errors_are_recognized(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_batches_are_halved_until_they_fit(
    engine: TransformersEngine,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = calls_about((PICTURE,), (), limits=(1, 5))
    expected = texts(list(engine.generate(calls, MEDIA)))
    assert engine._shared is not None
    limited = LimitedMemory(engine._shared.generate, 2, error)
    monkeypatch.setattr(engine._shared, "generate", limited)
    assert texts(list(engine.generate(calls, MEDIA))) == expected
    assert "retrying a batch of 10 in halves" in caplog.text
    assert limited.sizes[:3] == [10, 5, 2]
    assert max(limited.sizes[3:]) <= 5
    before = len(limited.sizes)
    assert texts(list(engine.generate(calls, MEDIA))) == expected
    assert max(limited.sizes[before:]) <= 2, "a size that did not fit is not retried"


def test_single_call_without_memory_fails(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_about((PICTURE,))[:3]
    assert engine._shared is not None
    monkeypatch.setattr(engine._shared, "generate", LimitedMemory(engine._shared.generate, 0, MEMORY_ERRORS[0]))
    monkeypatch.setattr(engine._padded, "generate", LimitedMemory(engine._padded.generate, 0, MEMORY_ERRORS[0]))
    for failure in outcomes(engine, calls).values():
        assert isinstance(failure, Failure)
        assert failure.type == "out_of_memory"
        assert "Tried to allocate" in failure.message


@pytest.mark.parametrize("most", [20, 4])
@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "qwen3_vl", "lfm3_vl")))
def test_prefix_that_does_not_fit_is_computed_in_shorter_passes(
    architecture: str, most: int, checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Passes of 8 tokens are the shortest: where four are all that fits, calls fail."""
    engine = TransformersEngine(spec_of(checkpoint_of(architecture)))
    decoder, widths = type(engine._checkpoint.model.get_decoder()), []
    forward = decoder.forward

    def limited(module: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("packed_step") is None:
            widths.append(kwargs["inputs_embeds"].shape[1])
            if widths[-1] > most:
                raise torch.OutOfMemoryError
        return forward(module, *args, **kwargs)

    monkeypatch.setattr(decoder, "forward", limited)
    monkeypatch.setattr("models.engines.transformers.prefix_sharing._MIN_PASS_TOKENS", 8)
    calls = calls_about((LARGE,), (SHORT_CLIP,), limits=(1, 6))
    scored = replace(calls[0], call_id="scored", scored=("sì", "no"))
    replies = outcomes(engine, [*calls, scored])
    if most < 8:
        assert {reply.type for reply in replies.values() if isinstance(reply, Failure)} == {"out_of_memory"}
        assert len(replies) == len(calls) + 1
        return
    assert isinstance(replies.pop("scored"), Answer)
    answers = {call_id: reply.text for call_id, reply in replies.items() if isinstance(reply, Answer)}
    monkeypatch.undo()
    assert len(near_ties(answers, reference_answers(architecture, calls))) <= 1
    fitting = [width <= most for width in widths]
    assert all(fitting[fitting.index(True) :]), "it is learnt once"


def test_prefill_without_memory_waits_for_the_other_calls(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_about((PICTURE,), ())
    expected = texts(list(engine.generate(calls, MEDIA)))
    assert engine._shared is not None
    prefill, errors = engine._shared.prefill, [MEMORY_ERRORS[0]]

    def fail_once(prompts: Any) -> Any:
        if prompts[0].head.inputs or not errors:
            return prefill(prompts)
        raise errors.pop()

    monkeypatch.setattr(engine._shared, "prefill", fail_once)
    replies = list(engine.generate(calls, MEDIA))
    assert texts(replies) == expected
    assert not errors
    assert {reply.call_id for reply in replies[:5]} == {str(index) for index in range(5)}
    assert engine.no_sharing_reason is None


def test_error_of_the_model_in_one_call_spares_the_others(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("shapes do not match")
    calls = calls_about((PICTURE,))
    expected = texts(list(engine.generate(calls, MEDIA)))
    generate = engine._padded.generate

    def fail_on_call_3(prompts: Any) -> Any:
        if any(prompt.call.call_id == "3" for prompt in prompts):
            raise error
        return generate(prompts)

    assert engine._shared is not None
    monkeypatch.setattr(engine._shared, "generate", LimitedMemory(engine._shared.generate, 0, error))
    monkeypatch.setattr(engine._padded, "generate", fail_on_call_3)
    replies = outcomes(engine, calls)
    failure = replies.pop("3")
    assert isinstance(failure, Failure)
    assert (failure.type, str(error) in failure.message) == ("compute", True)
    assert {call_id: o.text for call_id, o in replies.items() if isinstance(o, Answer)} == {
        call_id: text for call_id, text in expected.items() if call_id != "3"
    }


PLACES = {
    "attention": ("models.engines.transformers.packed.kv_cache.merge", TypeError),
    "cache": ("models.engines.transformers.packed.kv_cache.PackedSequences.write", IndexError),
    "prefixes": ("models.engines.transformers.prefix_sharing.build_prefix_tree", KeyError),
    "padded batch": ("models.engines.transformers.padded_batch.PaddedBatchModel.generate", AttributeError),
    "scores": ("models.engines.transformers.logprobs._reply", KeyError),
    "processor": ("transformers.Qwen2_5_VLProcessor.__call__", AttributeError),
    "tokenizer": ("__call__", TypeError),
    "answer": ("decode", IndexError),
}


@pytest.mark.parametrize("place", PLACES)
def test_bug_is_no_failed_call(place: str, engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    target, bug = PLACES[place]

    def planted(*_: Any, **__: Any) -> None:
        raise bug("planted")

    calls = calls_about((PICTURE,))
    beams = replace(calls[0], call_id="beams", generation=replace(calls[0].generation, num_beams=2))
    scored = Call(call_id="scored", turns=calls[0].turns, generation=calls[0].generation, scored=("a", "b"))
    if "." in target:
        monkeypatch.setattr(target, planted)
    else:
        monkeypatch.setattr(type(engine._maker._tokenizer), target, planted)
    with pytest.raises(bug, match="planted") as raised:
        list(engine.generate([scored] if place == "scores" else [*calls, beams], MEDIA))
    assert raised.traceback[-1].name == "planted"


def test_unfilled_step_is_a_bug_of_the_caller(engine: TransformersEngine) -> None:
    call = replace(calls_about(())[0], turns=(user(StepOutput(0)),))
    with pytest.raises(TypeError, match="StepOutput must be replaced by text"):
        list(engine.generate([call], MEDIA))


def test_error_of_the_chat_template_fails_the_call(engine: TransformersEngine) -> None:
    engine._maker._template.chat_template = "{{ messages[0]['content'] + 'a list and a text' }}"
    for outcome in outcomes(engine, calls_about(())[:2]).values():
        assert isinstance(outcome, Failure)
        assert outcome.type == "preprocess"
        assert "the chat template failed: TypeError" in outcome.message


def test_lost_device_ends_the_engine(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine._shared is not None
    device_error = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(engine._shared, "generate", LimitedMemory(engine._shared.generate, 0, device_error))
    with pytest.raises(DeviceFailedError, match="the device failed"):
        list(engine.generate(calls_about((PICTURE,)), MEDIA))


@pytest.fixture(scope="module")
def overflowing(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a tensor of a layer that is NaN, as float16 leaves what exceeds its range."""
    broken = shutil.copytree(folder, tmp_path_factory.mktemp("overflow") / "m")
    weights = load_file(broken / "model.safetensors")
    name = next(name for name in weights if ".layers.0.mlp" in name and "visual" not in name)
    weights[name] = weights[name] * float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    return broken


@pytest.mark.parametrize("settings", [{}, {"share_prefix": False}, {"batch_size": 1}, {"dtype": "float16"}], ids=str)
@pytest.mark.parametrize("generation", [{}, {"temperature": 0.8}, {"num_beams": 2}], ids=str)
def test_logits_that_are_not_finite_are_failures(
    overflowing: Path, settings: dict[str, Any], generation: dict[str, Any]
) -> None:
    engine = TransformersEngine(spec_of(overflowing, **settings))
    failures = outcomes(engine, calls_about((), (PICTURE,), limits=(1, 6), **generation))
    for failure in failures.values():
        assert isinstance(failure, Failure)
        assert failure.type == "not_finite"
        assert failure.message.startswith("logits are not finite after 0 tokens")
        assert ("bfloat16" in failure.message) is (settings.get("dtype") == "float16")


def test_logits_that_are_not_finite_cost_their_own_call(engine: TransformersEngine, monkeypatch: Any) -> None:
    """The third call's third token."""
    calls = calls_about((), limits=(6,))
    expected, choose = texts(list(engine.generate(calls, MEDIA))), sampling.choose_tokens

    def overflow(logits: torch.Tensor, some: Sequence[Call], steps: Sequence[int]) -> list[int]:
        for row, (call, step) in enumerate(zip(some, steps, strict=True)):
            if (call.call_id, step) == (calls[2].call_id, 2):
                logits = logits.clone()
                logits[row, 5] = float("nan")
        return choose(logits, some, steps)

    monkeypatch.setattr(sampling, "choose_tokens", overflow)
    replies = outcomes(engine, calls)
    failure = replies.pop(calls[2].call_id)
    assert isinstance(failure, Failure)
    assert "after 2 tokens" in failure.message
    assert {name: answer.text for name, answer in replies.items() if isinstance(answer, Answer)} == {
        name: text for name, text in expected.items() if name != calls[2].call_id
    }


def test_log_probabilities_that_are_not_finite_are_failures(overflowing: Path) -> None:
    engine = TransformersEngine(spec_of(overflowing))
    (reply,) = engine.generate([replace(calls_about(())[0], scored=("yes", "no"))], MEDIA)
    assert isinstance(reply.outcome, Failure)
    assert reply.outcome.type == "not_finite"

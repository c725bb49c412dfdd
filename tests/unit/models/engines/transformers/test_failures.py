"""What goes wrong, for one call or for the model as a whole, and what the engine makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.memory import is_out_of_memory
from models.engines.transformers.sampling import GeneratedTokens
from models.errors import EngineUnreachableError
from models.messages import Answer, Call, Failure, Frames, Media, StepOutput, user
from models.spec import Limits, ModelSpec
from tests.support.checkpoints import build_tiny
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import MEDIA, PICTURE, calls_about, texts

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(checkpoint_of: Checkpoints) -> Path:
    return checkpoint_of("qwen2_5_vl")


@pytest.fixture
def engine(folder: Path) -> TransformersEngine:
    return TransformersEngine(spec_of(folder))


def spec_of(folder: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(folder), device="cpu", **more)


def outcomes(engine: TransformersEngine, calls: Sequence[Call], media: Any = None) -> dict[str, Answer | Failure]:
    found = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA if media is None else media)}
    assert set(found) == {call.call_id for call in calls}
    return found


NOWHERE = Media("image", "f" * 64)
FLAT = Media("image", "e" * 64)
FLOATS = Media("video", "d" * 64, 2)
BAD_PIXELS = {
    FLAT: Frames(pixels=np.zeros((1, 8, 8), dtype=np.uint8)),
    FLOATS: Frames(pixels=np.zeros((2, 8, 8, 3), dtype=np.float32)),
}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (NOWHERE, "no pixels came with the call for the image ffff"),
        (FLAT, "pixels are uint8 (1, 8, 8)"),
        (FLOATS, "pixels are float32 (2, 8, 8, 3)"),
        ("a mark of the model's own: <|image_pad|>", "image"),
        (StepOutput(0), "Output must be text"),
        ("half a sign: \ud83d", "surrogate"),
    ],
)
def test_one_bad_call_among_good_ones(engine: TransformersEngine, part: Any, words: str) -> None:
    good = calls_about((PICTURE,), (), limits=(3,))
    bad = replace(good[1], call_id="bad", turns=(user(PICTURE, "E qui? ", part),))
    found = outcomes(engine, [good[0], bad, *good[1:]], MEDIA | BAD_PIXELS)
    failure = found.pop("bad")
    assert isinstance(failure, Failure)
    assert failure.type == "preprocess"
    assert words in failure.message
    assert found == outcomes(engine, good) | {"0": found["0"]}


def test_words_that_the_tokenizer_does_not_take(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = type(engine._maker._tokenizer)
    usual = tokenizer.__call__

    def picky(self: Any, texts: Any, **more: Any) -> Any:
        if any("minuto" in text for text in texts):
            raise TypeError("no minutes, please")
        return usual(self, texts, **more)

    monkeypatch.setattr(tokenizer, "__call__", picky)
    found = outcomes(engine, calls_about((), limits=(2,)))
    assert [call_id for call_id, outcome in found.items() if isinstance(outcome, Failure)] == ["3"]
    assert found["3"] == Failure(type="preprocess", message="TypeError: no minutes, please")


def test_a_text_model_takes_no_pictures(tmp_path: Path) -> None:
    engine = TransformersEngine(spec_of(build_tiny(tmp_path, "llama")))
    found = outcomes(engine, calls_about((PICTURE,), ()))
    assert [isinstance(found[str(index)], Answer) for index in range(10)] == [False] * 5 + [True] * 5
    failure = found["0"]
    assert isinstance(failure, Failure)
    assert (failure.type, "reads text alone" in failure.message) == ("preprocess", True)


def test_a_prompt_too_long_says_by_how_much(folder: Path) -> None:
    engine = TransformersEngine(spec_of(folder, limits=Limits(max_model_len=60)))
    assert engine.max_model_len == 60
    calls = calls_about(())[:1]
    long = replace(calls[0], call_id="long", turns=(user("perché " * 100),))
    found = outcomes(engine, [*calls, long])
    assert isinstance(found["0"], Answer)
    failure = found["long"]
    assert isinstance(failure, Failure)
    assert failure.type == "context_length"
    assert re.fullmatch(r"\d{3} tokens of prompt and 1 of answer are more than 60", failure.message)


def test_the_models_own_length_counts(folder: Path) -> None:
    engine = TransformersEngine(spec_of(folder))
    assert engine.max_model_len == 32_768
    call = replace(calls_about(())[0], turns=(user("perché " * 33_000),))
    (failure,) = outcomes(engine, [call]).values()
    assert isinstance(failure, Failure)
    assert failure.type == "context_length"


def test_beams_with_a_temperature_are_refused(engine: TransformersEngine) -> None:
    (call, *rest) = calls_about((), temperature=0.5)
    both = replace(call, generation=replace(call.generation, num_beams=2))
    found = outcomes(engine, [both, *rest])
    failure = found.pop(call.call_id)
    assert isinstance(failure, Failure)
    assert failure.type == "unsupported"
    assert all(isinstance(outcome, Answer) for outcome in found.values())


class _Scarce:
    """Stands before a method that answers batches; those of more than `most` run out of memory."""

    def __init__(self, work: Callable[[Any], Any], most: int, error: Exception) -> None:
        self.sizes: list[int] = []
        self._work, self._most, self._error = work, most, error

    def __call__(self, batch: Sequence[Any]) -> list[GeneratedTokens]:
        self.sizes.append(len(batch))
        if len(batch) > self._most:
            raise self._error
        done: list[GeneratedTokens] = self._work(batch)
        return done


MEMORY_ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    MemoryError(),
]


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_what_means_that_memory_ran_out(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_batches_are_halved_until_they_fit(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_about((PICTURE,), (), limits=(1, 5))
    want = texts(list(engine.generate(calls, MEDIA)))
    assert engine._shared is not None
    scarce = _Scarce(engine._shared.answer, 2, MEMORY_ERRORS[0])
    monkeypatch.setattr(engine._shared, "answer", scarce)
    assert texts(list(engine.generate(calls, MEDIA))) == want
    assert scarce.sizes[:3] == [10, 5, 2]
    assert max(scarce.sizes[3:]) <= 5
    before = len(scarce.sizes)
    assert texts(list(engine.generate(calls, MEDIA))) == want
    assert max(scarce.sizes[before:]) <= 2, "what did not fit once is not tried again"


def test_a_single_call_without_memory_fails(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_about((PICTURE,))[:3]
    assert engine._shared is not None
    monkeypatch.setattr(engine._shared, "answer", _Scarce(engine._shared.answer, 0, MEMORY_ERRORS[0]))
    monkeypatch.setattr(engine._plain, "answer", _Scarce(engine._plain.answer, 0, MEMORY_ERRORS[0]))
    for failure in outcomes(engine, calls).values():
        assert isinstance(failure, Failure)
        assert failure.type == "out_of_memory"
        assert "Tried to allocate" in failure.message


def test_a_beginning_without_memory_waits_for_the_others(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_about((PICTURE,), ())
    want = texts(list(engine.generate(calls, MEDIA)))
    assert engine._shared is not None
    read, left = engine._shared.read, [MEMORY_ERRORS[0]]

    def once(prompts: Any) -> Any:
        if prompts[0].head.inputs or not left:
            return read(prompts)
        raise left.pop()

    monkeypatch.setattr(engine._shared, "read", once)
    replies = list(engine.generate(calls, MEDIA))
    assert texts(replies) == want
    assert not left
    assert {reply.call_id for reply in replies[:5]} == {str(index) for index in range(5)}
    assert engine.plain_reason is None


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), IndexError("list index out of range")])
def test_a_fault_of_the_model_in_one_call_spares_the_others(
    engine: TransformersEngine, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_about((PICTURE,))
    want = texts(list(engine.generate(calls, MEDIA)))
    plain = engine._plain.answer

    def moody(prompts: Any) -> Any:
        if any(prompt.call.call_id == "3" for prompt in prompts):
            raise error
        return plain(prompts)

    assert engine._shared is not None
    monkeypatch.setattr(engine._shared, "answer", _Scarce(engine._shared.answer, 0, error))
    monkeypatch.setattr(engine._plain, "answer", moody)
    found = outcomes(engine, calls)
    failure = found.pop("3")
    assert isinstance(failure, Failure)
    assert (failure.type, str(error) in failure.message) == ("compute", True)
    assert {call_id: o.text for call_id, o in found.items() if isinstance(o, Answer)} == {
        call_id: text for call_id, text in want.items() if call_id != "3"
    }


def test_a_device_that_is_gone_ends_the_engine(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine._shared is not None
    gone = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(engine._shared, "answer", _Scarce(engine._shared.answer, 0, gone))
    with pytest.raises(EngineUnreachableError, match="the device failed"):
        list(engine.generate(calls_about((PICTURE,)), MEDIA))

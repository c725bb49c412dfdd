"""The `vllm` engine with the fake of `tests.support.fake_vllm`."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from models.entry_fields import Limits
from models.errors import EngineDiedError, EngineUnreachableError
from models.messages import Answer, Call, Failure, Generation
from models.spec import ModelSpec
from tests.support.fake_vllm import MAX_LEN, PROMPT, FakeLLM, PictureModel, VideoModel, opened
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    calls_about,
)


@pytest.mark.parametrize("problem", [AttributeError("no use_qk_norm"), AssertionError("768 into 64"), KeyError("x")])
def test_what_vllm_cannot_load_is_one_sentence(
    problem: Exception, vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    def make(**_: Any) -> None:
        raise problem

    spec = ModelSpec(engine="vllm", model=str(checkpoint_of("qwen2_5_vl")))
    with pytest.raises(EngineUnreachableError, match="cannot be loaded by vllm"):
        vllm_module.VLLMEngine(spec, make=make)


def test_media_are_passed_in_vllms_format(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("qwen2_5_vl"), limits=Limits(max_frames=6))
    calls = calls_about((PICTURE, OTHER), (CLIP,), (), limits=(4,))
    replies = list(engine.generate(calls, MEDIA))
    assert [reply.call_id for reply in replies] == [call.call_id for call in calls]
    assert {reply.outcome.cached_tokens for reply in replies if isinstance(reply.outcome, Answer)} == {4}
    assert sum(stand.batches) == 15
    shown = {tuple((kind, len(items)) for kind, items in p.get("multi_modal_data", {}).items()) for p in stand.prompts}
    assert shown == {(("image", 2),), (("video", 1),), ()}
    (clip,) = {p["multi_modal_uuids"]["video"][0] for p in stand.prompts if "video" in p.get("multi_modal_uuids", {})}
    assert clip == f"{CLIP.source}:{CLIP.frames}"
    frames, facts = next(p for p in stand.prompts if "video" in p.get("multi_modal_data", {}))["multi_modal_data"][
        "video"
    ][0]
    assert (len(frames), facts["do_sample_frames"]) == (6, False)
    assert stand.settings["distributed_executor_backend"] == "mp"
    engine.close()
    assert stand.ended


def test_clips_are_shown_to_the_model_as_transformers_shows_them(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    folder = checkpoint_of("qwen3_vl")
    engine, stand = opened(vllm_module, folder)
    (reply,) = engine.generate(calls_about((CLIP,), limits=(4,))[:1], MEDIA)
    assert isinstance(reply.outcome, Answer), reply.outcome
    assert stand.prompts[0]["mm_processor_kwargs"] == {"videos_kwargs": {"cap_pixels_per_frame": True}}
    parts = json.loads((folder / "processor_config.json").read_text())
    means = [parts[name]["image_mean"] for name in ("image_processor", "video_processor")]
    assert (means[0] == means[1]) == stand.settings.get("mm_device_do_normalize", True)
    assert "mm_device_do_normalize" not in opened(vllm_module, checkpoint_of("idefics3"))[1].settings


def test_limit_of_pixels_reaches_the_processor(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("qwen2_5_vl"), limits=Limits(max_pixels=112 * 112))
    (reply,) = engine.generate(calls_about((PICTURE,), limits=(4,))[:1], MEDIA)
    assert isinstance(reply.outcome, Answer), reply.outcome
    assert stand.prompts[0]["mm_processor_kwargs"]["images_kwargs"]["size"]["longest_edge"] == 112 * 112


def test_frames_are_pictures_for_a_processor_without_clips(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("idefics3"), limits=Limits(max_frames=6))
    (reply,) = engine.generate(calls_about((CLIP,), limits=(4,))[:1], MEDIA)
    assert isinstance(reply.outcome, Answer), reply.outcome
    assert {kind: len(items) for kind, items in stand.prompts[0]["multi_modal_data"].items()} == {"image": 6}


@pytest.mark.parametrize(
    ("takes", "words", "kinds"), [(VideoModel, "<video>\n", {"video": 1}), (PictureModel, "<|image_6|>", {"image": 6})]
)
def test_model_with_a_tokenizer_only_gets_placeholders(
    takes: type, words: str, kinds: dict[str, int], vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("llama"), takes=takes, limits=Limits(max_frames=6))
    (reply,) = engine.generate(calls_about((CLIP,), limits=(4,))[:1], MEDIA)
    assert isinstance(reply.outcome, Answer), reply.outcome
    (prompt,) = stand.prompts
    assert words in prompt["prompt"]
    assert {kind: len(items) for kind, items in prompt["multi_modal_data"].items()} == kinds


def test_rejected_prompt_fails_alone(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("llama"))
    calls = calls_about((), limits=(4,))
    bad = replace(calls[2], turns=(replace(calls[2].turns[0], parts=(*calls[2].turns[0].parts[:-1], _words())),))
    scored = Call(call_id="scored/0", turns=(), generation=Generation(max_new_tokens=1), scored=("a b", ""))
    replies = {reply.call_id: reply.outcome for reply in engine.generate([*calls[:2], bad, *calls[3:], scored], MEDIA)}
    failed = {name: outcome.type for name, outcome in replies.items() if isinstance(outcome, Failure)}
    assert failed == {bad.call_id: "context_length", "scored/0": "unscorable"}
    assert len(replies) == len(calls) + 1
    assert stand.batches == [len(calls) - 1], "the others are answered together"


@pytest.mark.parametrize("way", ["dead", "broken"])
def test_engine_that_died_or_failed_while_it_ran_must_be_rebuilt(
    way: str, vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("llama"))
    setattr(stand, way, True)
    with pytest.raises(EngineDiedError, match=r"vllm's engine (died|failed while it answered)"):
        list(engine.generate(calls_about((), limits=(4,)), MEDIA))


@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("models.engines.vllm.prompt_media.PromptMedia.content", KeyError("planted")),
        ("tests.support.fake_vllm.FakeLLM.enqueue", TypeError("planted")),
        ("tests.support.fake_vllm.FakeLLM.get_tokenizer", LookupError("planted")),
        ("transformers.Qwen2_5_VLProcessor.apply_chat_template", AttributeError("planted")),
    ],
)
def test_bug_is_no_failed_call(
    place: str, bug: Exception, vllm_module: Any, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = opened(vllm_module, checkpoint_of("qwen2_5_vl"))
    scored = Call(call_id="scored/0", turns=(), generation=Generation(max_new_tokens=1), scored=("a b",))

    def planted(*_: Any, **__: Any) -> None:
        raise bug

    monkeypatch.setattr(place, planted)
    with pytest.raises(type(bug)) as raised:
        list(engine.generate([*calls_about((PICTURE,), limits=(4,)), scored], MEDIA))
    assert raised.traceback[-1].name == "planted"


@pytest.mark.parametrize("missing", ["outputs", "prompt_token_ids", "num_cached_tokens"])
def test_reply_of_another_form_is_a_bug(
    missing: str, vllm_module: Any, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = opened(vllm_module, checkpoint_of("qwen2_5_vl"))
    complete = FakeLLM._complete

    def without(self: FakeLLM, prompt: Mapping[str, Any]) -> Any:
        reply = complete(self, prompt)
        delattr(reply, missing)
        return reply

    monkeypatch.setattr(FakeLLM, "_complete", without)
    with pytest.raises(AttributeError, match=missing):
        list(engine.generate(calls_about((PICTURE,), limits=(4,)), MEDIA))


@pytest.mark.parametrize(("given_up", "failed"), [(1, 0), (6, 1)], ids=["once", "twice"])
def test_prompt_that_vllm_gives_up_is_sent_again_and_is_never_an_answer(
    given_up: int, failed: int, vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("llama"))
    calls = calls_about((), limits=(4,))
    assert len(calls) == 5
    stand.given_up = ["error"] * given_up
    outcomes = [reply.outcome for reply in engine.generate(calls, MEDIA)]
    assert stand.batches == [5, min(5, given_up)]
    assert [outcome.type for outcome in outcomes if isinstance(outcome, Failure)] == ["engine_error"] * failed


def test_request_with_beams_is_decoded_greedily_and_says_so(
    vllm_module: Any, checkpoint_of: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    engine, _ = opened(vllm_module, checkpoint_of("llama"))
    calls = [replace(call, generation=replace(call.generation, num_beams=3)) for call in calls_about((), limits=(4,))]
    outcomes = [reply.outcome for reply in engine.generate(calls, MEDIA)]
    assert {outcome.decoding for outcome in outcomes if isinstance(outcome, Answer)} == {"greedy"}
    assert len(outcomes) == len(calls)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "vllm has no beam search: requests with 3 beams are decoded greedily"


@pytest.mark.parametrize(("architecture", "frames"), [("qwen3_vl", 2), ("qwen2_5_vl", 1)])
def test_single_frame_is_repeated_for_a_processor_that_takes_pairs(
    architecture: str, frames: int, vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, stand = opened(vllm_module, checkpoint_of(architecture))
    (reply,) = engine.generate(calls_about((FIRST_FRAME,), limits=(4,))[:1], MEDIA)
    assert isinstance(reply.outcome, Answer), reply.outcome
    ((pixels, facts),) = stand.prompts[0]["multi_modal_data"]["video"]
    assert len(pixels) == len(facts["frames_indices"]) == frames
    assert (pixels == MEDIA[FIRST_FRAME].pixels).all()


def test_model_without_chat_template_names_the_remedy(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("llama"))
    stand.tokenizer.chat_template = None
    question, scored = calls_about((), limits=(4,))[:2]
    scored = replace(scored, turns=(), scored=("a b",))
    outcomes = {reply.call_id: reply.outcome for reply in engine.generate([question, scored], MEDIA)}
    assert isinstance(outcomes[scored.call_id], Answer)
    failure = outcomes[question.call_id]
    assert isinstance(failure, Failure)
    assert "no chat template" in failure.message
    assert "engine: transformers" in failure.message


def test_answer_that_the_context_may_cut_is_a_failure_as_on_transformers(
    vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, _ = opened(vllm_module, checkpoint_of("llama"))
    fits, cut = calls_about((), limits=(MAX_LEN - PROMPT, MAX_LEN - PROMPT + 1))[:2]
    outcomes = {reply.call_id: reply.outcome for reply in engine.generate([fits, cut], MEDIA)}
    assert isinstance(outcomes[fits.call_id], Answer)
    assert outcomes[cut.call_id] == Failure(
        type="context_length", message="9 tokens of prompt and 192 of answer exceed 200"
    )


def test_build_for_processors_gets_a_limited_cache_and_compiles_nothing(
    vllm_module: Any, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.engines.vllm import settings

    monkeypatch.setattr(settings.current_platform, "is_cpu", lambda: True)
    monkeypatch.setattr(settings, "free_host_bytes", lambda: 16 << 30)
    _, stand = opened(vllm_module, checkpoint_of("llama"))
    assert stand.settings["kv_cache_memory_bytes"] == 2 << 30
    assert stand.settings["enforce_eager"]


def test_texts_are_scored_by_the_log_probabilities_of_their_own_tokens(
    vllm_module: Any, checkpoint_of: Checkpoints
) -> None:
    engine, stand = opened(vllm_module, checkpoint_of("qwen2_5_vl"))
    texts = ("Il gatto dorme", "Il cane")
    prompted = replace(calls_about((PICTURE,), limits=(1,))[0], call_id="after", scored=texts)
    alone = replace(prompted, call_id="alone", turns=())
    scores = {reply.call_id: json.loads(reply.outcome.text) for reply in engine.generate([prompted, alone], MEDIA)}
    ids = [stand.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert scores["after"]["logprobs"] == [-sum(tokens) / len(tokens) for tokens in ids]
    assert scores["after"]["tokens"] == [len(tokens) for tokens in ids]
    assert scores["alone"]["tokens"] == [len(tokens) - 1 for tokens in ids], "the first has nothing to follow from"


def _words() -> Any:
    from models.messages import Text

    return Text("REFUSED")


def test_replica_that_shares_a_gpu_takes_its_part(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    _, stand = opened(vllm_module, checkpoint_of("llama"))
    assert "gpu_memory_utilization" not in stand.settings
    _, stand = opened(vllm_module, checkpoint_of("llama"), tensor_parallel=1, replicas_per_gpu=4)
    assert stand.settings["gpu_memory_utilization"] == pytest.approx(0.23)


def test_prompts_of_several_threads_are_answered_together(vllm_module: Any, checkpoint_of: Checkpoints) -> None:
    """A unit whose prompts are answered waits for none of another's, and an engine that dies ends both."""
    engine, stand = opened(vllm_module, checkpoint_of("llama"))
    assert engine.wanted_calls == 512
    together, step = threading.Event(), stand.llm_engine.step

    def slow_step() -> list[Any]:
        if stand.added < 10:
            assert together.wait(60)
        return step()  # type: ignore[no-any-return]

    stand.llm_engine.step = slow_step
    calls = calls_about((), limits=(4,))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: list(engine.generate(calls, MEDIA)))
        while stand.added < 5:
            threading.Event().wait(0.01)
        second = threads.submit(lambda: list(engine.generate(calls, MEDIA)))
        while engine._stream._asks.qsize() < 5:
            threading.Event().wait(0.01)
        together.set()
        for unit in (first, second):
            assert {reply.call_id for reply in unit.result(60)} == {call.call_id for call in calls}
    assert stand.batches[0] == 5
    stand.broken = True
    with ThreadPoolExecutor(2) as threads:
        for unit in [threads.submit(lambda: list(engine.generate(calls, MEDIA))) for _ in range(2)]:
            with pytest.raises(EngineDiedError):
                unit.result(60)

"""Log-probabilities of texts equal their definition: one text, one forward pass of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from models.engines.openai.engine import OpenAIEngine
from models.engines.random_baseline import RandomEngine
from models.messages import (
    Answer,
    Call,
    CallReply,
    Failure,
    Generation,
    Step,
    Text,
    logprobs_from_text,
    prompt_sha256,
    user,
)
from models.spec import ModelSpec
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import CLIP, MEDIA, PICTURE, ReferenceModel, engine_of

TEXTS = ("Il gatto dorme sul divano.", "Il gatto dorme.", "Il cane corre verso il portone, e poi torna indietro.", "Sì")


def scored_call(*parts: Any, number: int = 0) -> Call:
    turns = (user(*parts),) if parts else ()
    return Call(call_id=f"{number}/0", turns=turns, generation=Generation(), scored=TEXTS)


def by_definition(reference: ReferenceModel, call: Call) -> list[float]:
    """Return the mean log-probability of each text's tokens, each from a forward pass of its own."""
    scores_by_text = []
    for text in call.scored:
        text_ids = reference.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        inputs: dict[str, torch.Tensor] = {}
        if call.turns:
            inputs = dict(reference.inputs(call))
            before, count = inputs["input_ids"], text_ids.shape[1]
        else:
            first = reference.tokenizer.bos_token_id
            before = torch.tensor([[] if first is None else [first]], dtype=torch.long)
            count = text_ids.shape[1] - (first is None)
        ids = torch.cat([before, text_ids], 1)
        if "mm_token_type_ids" in inputs:
            kinds = inputs["mm_token_type_ids"]
            inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(text_ids)], 1)
        with torch.inference_mode():
            logits = reference.model(**{**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}).logits[0]
        logprobs = torch.log_softmax(logits[:-1].double(), -1).gather(-1, ids[0, 1:, None])[:, 0]
        scores_by_text.append(float(logprobs[-count:].mean()))
    return scores_by_text


def scores(replies: Sequence[CallReply]) -> dict[str, list[float]]:
    scores_by_text = {}
    for reply in replies:
        assert isinstance(reply.outcome, Answer), reply.outcome
        scores_by_text[reply.call_id] = logprobs_from_text(reply.outcome.text, len(TEXTS))
    return scores_by_text


@pytest.mark.parametrize("way", ["shared", "padded"])
@pytest.mark.parametrize(
    "architecture", in_turns(("llama", "qwen2_5_vl", "llava_next", "qwen3_5", "lfm3_vl", "minicpmv4_7"))
)
def test_scores_equal_a_forward_pass_of_the_model(architecture: str, way: str, checkpoint_of: Checkpoints) -> None:
    reference = ReferenceModel(checkpoint_of(architecture))
    calls = [scored_call(), scored_call("Chi dorme? ", number=1), scored_call("Chi dorme, e dove? ", number=2)]
    if architecture != "llama":
        calls += [scored_call(PICTURE, "Che cosa si vede?", number=3), scored_call(PICTURE, "Chi c'è?", number=4)]
    engine = engine_of(checkpoint_of(architecture), padded=way == "padded")
    replies = list(engine.generate(calls, MEDIA))
    actual = scores(replies)
    assert set(actual) == {call.call_id for call in calls}
    for call in calls:
        assert actual[call.call_id] == pytest.approx(by_definition(reference, call), abs=2e-4)
    assert engine.no_sharing_reason is None or way == "padded"
    if way == "shared":
        cached = {r.call_id: r.outcome.cached_tokens for r in replies if isinstance(r.outcome, Answer)}
        assert all(cached[call.call_id] > 0 for call in calls if call.media)


def test_unscorable_and_too_long_texts_are_failures(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"), limits={"max_model_len": 40})
    calls = [
        replace(scored_call(), scored=("", "Sì")),
        replace(scored_call(number=1), scored=("Il gatto dorme sul divano. " * 20, "Sì")),
        scored_call(number=2),
    ]
    outcomes = {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}
    assert [getattr(outcomes[f"{i}/0"], "type", "ok") for i in range(3)] == ["unscorable", "context_length", "ok"]


def test_generated_and_scored_calls_are_answered_together(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    generated = Call(call_id="w", turns=(user(CLIP, "Chi?"),), generation=Generation(max_new_tokens=2))
    replies = list(engine.generate([generated, scored_call(CLIP, "Chi?")], MEDIA))
    assert sorted(reply.call_id for reply in replies) == ["0/0", "w"]


def test_random_baseline_scores_by_chance() -> None:
    engine = RandomEngine(ModelSpec(engine="random"))
    calls = [replace(scored_call(number=i), scored=("vera", "falsa")) for i in range(400)]
    pairs = [logprobs_from_text(r.outcome.text, 2) for r in engine.generate(calls, {}) if isinstance(r.outcome, Answer)]
    assert len(pairs) == 400
    assert 160 < sum(true > false for true, false in pairs) < 240


def test_endpoint_reports_scoring_as_unsupported() -> None:
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1")
    engine = OpenAIEngine(spec)
    try:
        (reply,) = engine.generate([scored_call()], {})
    finally:
        engine.close()
    assert isinstance(reply.outcome, Failure)
    assert reply.outcome.type == "unsupported"


def test_prompt_hash_includes_the_scored_texts() -> None:
    first, second = (Step(turns=(), scored=texts) for texts in (("a", "b"), ("a", "c")))
    assert prompt_sha256([first]) != prompt_sha256([second])
    generated = Step(turns=(user(Text("a")),))
    assert prompt_sha256([generated]) == prompt_sha256([replace(generated, generation=Generation(max_new_tokens=3))])

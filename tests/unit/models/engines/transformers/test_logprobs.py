"""Log-probabilities of given texts against the definition: one text, one plain forward."""

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
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import CLIP, MEDIA, PICTURE, Alone, engine_of

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ("Il gatto dorme sul divano.", "Il gatto dorme.", "Il cane corre verso il portone, e poi torna indietro.", "Sì")


def about(*parts: Any, number: int = 0) -> Call:
    turns = (user(*parts),) if parts else ()
    return Call(call_id=f"{number}/0", turns=turns, generation=Generation(), scored=TEXTS)


def by_definition(alone: Alone, call: Call) -> list[float]:
    """Mean log-probability of each text's tokens, each read in a forward of its own."""
    found = []
    for text in call.scored:
        own = alone.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        given: dict[str, torch.Tensor] = {}
        if call.turns:
            given = dict(alone.inputs(call))
            before, count = given["input_ids"], own.shape[1]
        else:
            first = alone.tokenizer.bos_token_id
            before = torch.tensor([[] if first is None else [first]], dtype=torch.long)
            count = own.shape[1] - (first is None)
        ids = torch.cat([before, own], 1)
        if "mm_token_type_ids" in given:
            kinds = given["mm_token_type_ids"]
            given["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(own)], 1)
        with torch.inference_mode():
            logits = alone.model(**{**given, "input_ids": ids, "attention_mask": torch.ones_like(ids)}).logits[0]
        said = torch.log_softmax(logits[:-1].double(), -1).gather(-1, ids[0, 1:, None])[:, 0]
        found.append(float(said[-count:].mean()))
    return found


def scores(replies: Sequence[CallReply]) -> dict[str, list[float]]:
    found = {}
    for reply in replies:
        assert isinstance(reply.outcome, Answer), reply.outcome
        found[reply.call_id] = logprobs_from_text(reply.outcome.text, len(TEXTS))
    return found


@pytest.mark.parametrize("way", ["shared", "plain"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2_5_vl", "llava_next"])
def test_scores_are_those_of_a_plain_forward(architecture: str, way: str, checkpoint_of: Checkpoints) -> None:
    alone = Alone(checkpoint_of(architecture))
    calls = [about(), about("Chi dorme? ", number=1), about("Chi dorme, e dove? ", number=2)]
    if architecture != "llama":
        calls += [about(PICTURE, "Che cosa si vede?", number=3), about(PICTURE, "Chi c'è?", number=4)]
    engine = engine_of(checkpoint_of(architecture), plain=way == "plain")
    replies = list(engine.generate(calls, MEDIA))
    got = scores(replies)
    assert set(got) == {call.call_id for call in calls}
    for call in calls:
        assert got[call.call_id] == pytest.approx(by_definition(alone, call), abs=2e-4)
    assert engine.plain_reason is None or way == "plain"
    if way == "shared":
        cached = {r.call_id: r.outcome.cached_tokens for r in replies if isinstance(r.outcome, Answer)}
        assert all(cached[call.call_id] > 0 for call in calls if call.media)


def test_a_text_without_a_token_to_score_and_one_that_is_too_long(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"), limits={"max_model_len": 40})
    calls = [
        replace(about(), scored=("", "Sì")),
        replace(about(number=1), scored=("Il gatto dorme sul divano. " * 20, "Sì")),
        about(number=2),
    ]
    outcomes = {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}
    assert [getattr(outcomes[f"{i}/0"], "type", "ok") for i in range(3)] == ["unscorable", "context_length", "ok"]


def test_written_and_scored_calls_together(checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of("qwen2_5_vl"))
    write = Call(call_id="w", turns=(user(CLIP, "Chi?"),), generation=Generation(max_new_tokens=2))
    replies = list(engine.generate([write, about(CLIP, "Chi?")], MEDIA))
    assert sorted(reply.call_id for reply in replies) == ["0/0", "w"]


def test_the_chance_baseline_scores_by_chance() -> None:
    engine = RandomEngine(ModelSpec(engine="random"))
    calls = [replace(about(number=i), scored=("vera", "falsa")) for i in range(400)]
    pairs = [logprobs_from_text(r.outcome.text, 2) for r in engine.generate(calls, {}) if isinstance(r.outcome, Answer)]
    assert len(pairs) == 400
    assert 160 < sum(true > false for true, false in pairs) < 240


def test_an_endpoint_says_that_it_cannot() -> None:
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1")
    engine = OpenAIEngine(spec)
    try:
        (reply,) = engine.generate([about()], {})
    finally:
        engine.close()
    assert isinstance(reply.outcome, Failure)
    assert reply.outcome.type == "unsupported"


def test_what_is_scored_is_part_of_the_prompt() -> None:
    one, other = (Step(turns=(), scored=texts) for texts in (("a", "b"), ("a", "c")))
    assert prompt_sha256([one]) != prompt_sha256([other])
    said = Step(turns=(user(Text("a")),))
    assert prompt_sha256([said]) == prompt_sha256([replace(said, generation=Generation(max_new_tokens=3))])

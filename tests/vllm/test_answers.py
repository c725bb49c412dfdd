"""vLLM's answers and scores beside those of transformers, by architecture, in float32 with tiny random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from models.checkpoints.installed_transformers import transformers_classes
from models.engines.base import Engine
from models.entry_fields import Limits
from models.messages import Answer, Call, Frames, Media
from models.spec import ModelSpec
from tests.support.checkpoints import ARCHITECTURES
from tests.unit.models.engines.conftest import AnswersById, Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.reference_answers import (
    MEDIA,
    OTHER,
    PICTURE,
    QUICK_CLIP,
    ROUNDING,
    calls_about,
)
from tests.vllm.conftest import OpenEngine
from tests.vllm.published_weights import as_published

pytestmark = pytest.mark.vllm

_INCOMPLETE = "\ufffd"
PICTURES_ONLY = ("muse_glimmer", "smolvlm")
"""vLLM takes no clips of SmolVLM, and states times of its own in Muse Glimmer's: `auto` runs both on transformers."""
TEXT_ONLY = ("gemma", "gemma3_text", "gemma4_unified", "llama", "mistral", "qwen2")
"""Gemma 4 Unified sees pictures whole, which vLLM does not compute on CPUs: `auto` runs it on transformers there."""
LINEAR_ATTENTION = ("minicpmv4_6", "minicpmv4_7", "qwen3_5", "qwen3_5_moe")
"""On CPUs vLLM computes these in bfloat16 alone: the answers of transformers in float32 stand beside them."""
BFLOAT16_ROUNDING = 0.2
"""The two best logits may swap if closer: transformers' own swapped in bfloat16 at 0.15, by other experts."""
UNFIT = {
    "blip-2": "it has no chat template: `auto` runs it on transformers",
    "llava_next_video": "vllm fails at a clip (ZeroDivisionError): `auto` runs it on transformers",
    "llava_onevision": "vllm cuts each of several pictures into tiles: `auto` runs it on transformers",
    "ernie4_5_vl_moe": "vllm reads the publisher's configuration only: `auto` runs it on transformers",
    "gemma3": "vllm looks up a token for a line break, which the test's vocabulary lacks",
}


def supported_checkpoint(architecture: str, checkpoint_of: Checkpoints) -> Path:
    """Return a checkpoint; skip where vLLM or its transformers does not know it, or vLLM cannot run it as it is."""
    import transformers
    import vllm

    if architecture in UNFIT:
        pytest.skip(f"vllm {vllm.__version__}: {UNFIT[architecture]}")
    if architecture.removesuffix("_t5") not in transformers_classes():
        pytest.skip(f"transformers {transformers.__version__}, which this vllm needs, has no code for {architecture}")
    folder = checkpoint_of(architecture)
    names = json.loads((folder / "config.json").read_text())["architectures"]
    if not set(names) & set(vllm.ModelRegistry.get_supported_archs()):
        pytest.skip(f"vllm {vllm.__version__} has no code for {', '.join(names)}")
    return folder


def differences(answers: dict[str, object], expected: AnswersById, rounding: float = ROUNDING) -> list[str]:
    """Return the calls whose first token differs where the two best logits are further apart than `rounding`.

    vLLM withholds a character whose bytes are incomplete, which transformers decodes as U+FFFD.
    """
    wrong = []
    for name, (text, gaps) in expected.items():
        outcome = answers[name]
        if not isinstance(outcome, Answer) or (
            outcome.text.strip(_INCOMPLETE) != text.strip(_INCOMPLETE) and gaps[0] > rounding
        ):
            wrong.append(f"{name}: {outcome} instead of {text!r}")
    return wrong


def texts(engine: Engine, calls: Sequence[Call]) -> dict[str, str]:
    """Return the answers by call."""
    replies = list(engine.generate(calls, MEDIA))
    return {reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)}


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_first_tokens_equal_those_of_transformers(
    architecture: str,
    open_vllm_here: OpenEngine,
    checkpoint_of: Checkpoints,
    reference_answers: ReferenceAnswers,
    tmp_path: Path,
) -> None:
    folder = supported_checkpoint(architecture, checkpoint_of)
    media: Sequence[tuple[Media, ...]] = ((), (PICTURE,), (PICTURE, OTHER), (QUICK_CLIP,))
    shown = 1 if architecture in TEXT_ONLY else 3 if architecture in PICTURES_ONLY else len(media)
    calls = calls_about(*media[:shown], limits=(1,))
    is_rounded = architecture in LINEAR_ATTENTION
    published = as_published(architecture, folder, tmp_path / "model")
    engine = open_vllm_here(published, dtype="bfloat16" if is_rounded else "float32")
    answers: dict[str, object] = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    rounding = BFLOAT16_ROUNDING if is_rounded else ROUNDING
    assert differences(answers, reference_answers(architecture, calls), rounding) == []


def test_scores_of_given_texts_equal_those_of_transformers(
    open_vllm_here: OpenEngine, checkpoint_of: Checkpoints
) -> None:
    from models.engines.transformers.engine import TransformersEngine

    texts = ("Il gatto dorme sul divano", "Il cane corre", "Perché no?")
    prompted = calls_about((PICTURE,), (), limits=(1,))[::4]
    calls = [Call(call_id=c.call_id, turns=c.turns, generation=c.generation, scored=texts) for c in prompted]
    calls.append(Call(call_id="alone", turns=(), generation=prompted[0].generation, scored=texts))
    spec = ModelSpec(engine="transformers", model=str(checkpoint_of("qwen2_5_vl")), dtype="float32", device="cpu")
    scores = []
    for engine in (open_vllm_here("qwen2_5_vl"), TransformersEngine(spec)):
        outcomes = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
        assert all(isinstance(outcome, Answer) for outcome in outcomes.values()), outcomes
        scores.append({name: json.loads(outcome.text) for name, outcome in outcomes.items()})  # type: ignore[union-attr]
    for name, expected in scores[1].items():
        assert scores[0][name]["tokens"] == expected["tokens"]
        assert scores[0][name]["logprobs"] == pytest.approx(expected["logprobs"], abs=1e-3)


def test_questions_about_one_clip_hit_the_prefix_cache(open_vllm_here: OpenEngine) -> None:
    clip = Media("video", "7" * 64, 32)
    pixels = np.random.default_rng(7).integers(0, 256, (32, 112, 112, 3), dtype=np.uint8)
    frames = Frames(pixels=pixels, seconds=tuple(i / 25 for i in range(32)), fps=25.0, total_frames=32)
    calls = [
        Call(call_id=f"{group}-{call.call_id}", turns=call.turns, generation=call.generation)
        for group in range(44)
        for call in calls_about((clip,), limits=(1,))
    ][:216]
    engine = open_vllm_here("qwen2_5_vl")
    answers = [reply.outcome for reply in engine.generate(calls, {clip: frames})]
    assert all(isinstance(answer, Answer) for answer in answers)
    shares = [a.cached_tokens / a.input_tokens for a in answers if isinstance(a, Answer)]
    assert len(shares) == 216
    assert sum(share > 0.5 for share in shares) >= 200, "but for the first questions, which wait for the prefix"


def test_too_long_request_fails_alone(open_vllm_here: OpenEngine) -> None:
    engine = open_vllm_here("qwen2_5_vl", limits=Limits(max_model_len=256))
    calls = calls_about((PICTURE,), limits=(4,))
    long = calls_about((QUICK_CLIP,), limits=(300,))[0]
    long = Call(call_id="long", turns=long.turns, generation=long.generation)
    outcomes = {reply.call_id: reply.outcome for reply in engine.generate([*calls, long], MEDIA)}
    assert outcomes["long"].type == "context_length"  # type: ignore[union-attr]
    assert all(isinstance(outcomes[call.call_id], Answer) for call in calls)


def test_adapter_changes_answers_as_in_transformers(
    open_vllm_here: OpenEngine, checkpoint_of: Checkpoints, tmp_path: Path
) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from models.engines.transformers.engine import TransformersEngine

    folder = checkpoint_of("qwen2")
    torch.manual_seed(3)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=8, target_modules=targets, init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config).save_pretrained(tmp_path)
    calls = calls_about((), limits=(4,))
    spec = ModelSpec(engine="transformers", model=str(folder), dtype="float32", device="cpu", adapter=str(tmp_path))
    plain = texts(open_vllm_here("qwen2"), calls)
    adapted = texts(open_vllm_here("qwen2", adapter=str(tmp_path)), calls)
    assert adapted == texts(TransformersEngine(spec), calls)
    assert adapted != plain

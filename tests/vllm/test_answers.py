"""vLLM's answers and scores beside those of transformers, by architecture, in float32 with tiny random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from models.engines.base import Engine
from models.messages import Answer, Call, Frames, Media
from models.spec import Limits, ModelSpec
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

pytestmark = pytest.mark.vllm

_INCOMPLETE = "\ufffd"
PICTURES_ONLY = ("smolvlm",)
"""vLLM takes no clips for these: `auto` runs them on transformers."""
TEXT_ONLY = ("gemma", "gemma3_text", "llama", "mistral", "qwen2")


UNFIT = {
    "blip-2": "it has no chat template: `auto` runs it on transformers",
    "llava_next_video": "vllm fails at a clip (ZeroDivisionError): `auto` runs it on transformers",
    "llava_onevision": "vllm cuts each of several pictures into tiles: `auto` runs it on transformers",
    "gemma3": "vllm looks up a token for a line break, which the test's vocabulary lacks",
}


def as_published(folder: Path, copy: Path) -> Path:
    """Return a LLaVA with its weights named as in published files; vLLM does not load the names of transformers 5."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, copy)
    weights = load_file(copy / "model.safetensors")
    old, new = "vision_tower.", "vision_tower.vision_model."
    renamed = {new + name.removeprefix(old) if name.startswith(old) else name: weights[name] for name in weights}
    save_file(renamed, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def require_code(folder: Path) -> None:
    """Skip where vLLM does not know the checkpoint's architecture, or cannot run it as it is."""
    import vllm

    if folder.name in UNFIT:
        pytest.skip(f"vllm {vllm.__version__}: {UNFIT[folder.name]}")

    names = json.loads((folder / "config.json").read_text())["architectures"]
    if not set(names) & set(vllm.ModelRegistry.get_supported_archs()):
        pytest.skip(f"vllm {vllm.__version__} has no code for {', '.join(names)}")


def differences(answers: dict[str, object], expected: AnswersById) -> list[str]:
    """Return the calls whose first token differs without a near tie of the two best logits.

    vLLM withholds a character whose bytes are incomplete, which transformers decodes as U+FFFD.
    """
    wrong = []
    for name, (text, gaps) in expected.items():
        outcome = answers[name]
        if not isinstance(outcome, Answer) or (
            outcome.text.strip(_INCOMPLETE) != text.strip(_INCOMPLETE) and gaps[0] > ROUNDING
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
    folder = checkpoint_of(architecture)
    require_code(folder)
    media: Sequence[tuple[Media, ...]] = ((), (PICTURE,), (PICTURE, OTHER), (QUICK_CLIP,))
    shown = 1 if architecture in TEXT_ONLY else 3 if architecture in PICTURES_ONLY else len(media)
    calls = calls_about(*media[:shown], limits=(1,))
    engine = open_vllm_here(as_published(folder, tmp_path / "model") if architecture.startswith("llava") else folder)
    answers: dict[str, object] = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    assert differences(answers, reference_answers(architecture, calls)) == []


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

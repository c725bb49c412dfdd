"""Peculiarities of single architectures: windows, steps about one picture, memory, prompt formats, rotary scaling."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers.chat_formats import CHAT_FORMATS
from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.prefix_sharing import SharedModel
from models.entry_fields import Limits
from models.messages import Answer, Call, Failure, Generation, Media, Text, Turn, user
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints, ReferenceAnswers
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    MEDIA,
    OTHER,
    PICTURE,
    LimitedMemory,
    ReferenceModel,
    calls_about,
    engine_of,
    near_ties,
    texts,
)

TOWERS = {
    "qwen2_5_vl": "model.visual",
    "qwen3_5": "model.visual",
    "lfm3_vl": "model.vision_tower",
    "idefics2": "model.vision_model",
    "smolvlm": "model.vision_model",
    "gemma3": "model.vision_tower",
    "blip-2": "vision_model",
    "instructblip": "vision_model.embeddings",
    "mllama": "model.vision_model.patch_embedding",
    "phi4_multimodal": "model.embed_tokens_extend.image_embed.img_processor",
}


def record_tower_calls(engine: TransformersEngine, architecture: str) -> list[int]:
    """Return a list that receives, for each run of the vision tower, the rows of its pixels."""
    runs: list[int] = []

    def record(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = [*args, *kwargs.values()]
        runs.append(next(len(tensor) for tensor in inputs if isinstance(tensor, torch.Tensor)))

    tower = engine._checkpoint.model.get_submodule(TOWERS[architecture])
    tower.register_forward_pre_hook(record, with_kwargs=True)
    return runs


def answer_in_steps(engine: TransformersEngine, first: str, later: Sequence[str], *, as_turn: bool) -> list[str]:
    """Ask for a picture's caption, then questions with the caption as an earlier turn or in the prompt."""
    opening = user(PICTURE, first)
    call = Call(call_id="first", turns=(opening,), generation=Generation(max_new_tokens=12))
    caption = texts(list(engine.generate([call], MEDIA)))["first"]
    calls = []
    for number, question in enumerate(later):
        dialogue = (opening, Turn("assistant", (Text(caption),)), user(question))
        turns = dialogue if as_turn else (user(PICTURE, f"{caption}\n{question}"),)
        calls.append(Call(call_id=str(number), turns=turns, generation=Generation(max_new_tokens=6)))
    answers = texts(list(engine.generate(calls, MEDIA)))
    return [answers[str(number)] for number in range(len(later))]


@pytest.mark.parametrize("as_turn", [True, False], ids=["caption as a turn", "caption in the prompt"])
@pytest.mark.parametrize(
    "architecture",
    in_turns(("qwen2_5_vl", "idefics2", "gemma3", "smolvlm", "phi4_multimodal", "qwen3_5", "lfm3_vl")),
)
def test_steps_about_one_picture_encode_it_once(architecture: str, as_turn: bool, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of(architecture))
    list(engine.generate(calls_about((), limits=(1,))[:1], MEDIA))  # models with states are verified on a first prompt
    runs = record_tower_calls(engine, architecture)
    answers = answer_in_steps(engine, "Descrivi la scena.", ("Chi entra?", " E poi?", "Perché?"), as_turn=as_turn)
    assert len(runs) == 1
    assert engine.no_sharing_reason is None
    padded = engine_of(checkpoint_of(architecture), padded=True)
    assert (
        answer_in_steps(padded, "Descrivi la scena.", ("Chi entra?", " E poi?", "Perché?"), as_turn=as_turn) == answers
    )


@pytest.mark.parametrize("architecture", in_turns(("blip-2", "instructblip", "mllama")))
def test_padded_batch_shares_the_vision_tower(architecture: str, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of(architecture))
    runs = record_tower_calls(engine, architecture)
    replies = list(engine.generate(calls_about((PICTURE,), limits=(2,)), MEDIA))
    assert len(texts(replies)) == 5
    single = record_tower_calls(fresh := engine_of(checkpoint_of(architecture)), architecture)
    assert len(texts(list(fresh.generate(calls_about((PICTURE,), limits=(2,))[:1], MEDIA)))) == 1
    assert runs == single


@pytest.mark.parametrize("architecture", in_turns(("gemma3", "idefics2", "blip-2", "mllama", "instructblip_t5")))
def test_batch_is_halved_where_memory_runs_out(
    architecture: str, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(checkpoint_of(architecture))
    calls = calls_about((PICTURE,), limits=(1, 5))
    expected = texts(list(engine.generate(calls, MEDIA)))
    owner: Any = engine._shared or engine._padded
    limited = LimitedMemory(owner.generate, 2, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"))
    monkeypatch.setattr(owner, "generate", limited)
    assert texts(list(engine.generate(calls, MEDIA))) == expected
    assert limited.sizes == ([5, 2, 2] if engine._shared else [5, 2, 3, 1, 2])
    before = len(limited.sizes)
    assert texts(list(engine.generate(calls, MEDIA))) == expected
    assert max(limited.sizes[before:]) <= 2, "a size that did not fit is not retried"


@pytest.mark.parametrize("architecture", ["gemma3", "blip-2", "mllama", "instructblip_t5"])
def test_batches_fit_free_memory_and_long_prompts_are_failures(architecture: str, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of(architecture), limits=Limits(max_model_len=90))
    per_row = 2 * 200 * engine._memory._token_bytes
    engine._memory._budget = 3 * per_row
    assert engine._memory.rows(200) == 3
    assert engine._memory.rows(100) > 3
    (call,) = calls_about((PICTURE,), limits=(4,))[:1]
    long = replace(call, turns=(user(PICTURE, "perché " * 90),))
    (reply,) = engine.generate([long], MEDIA)
    assert isinstance(reply.outcome, Failure)
    assert reply.outcome.type == "context_length"
    assert "of prompt and 4 of answer exceed 90" in reply.outcome.message


@pytest.mark.parametrize(("architecture", "media"), [("blip-2", (PICTURE, OTHER)), ("instructblip", (CLIP,))])
def test_model_of_one_picture_rejects_more(
    architecture: str, media: tuple[Media, ...], checkpoint_of: Checkpoints
) -> None:
    engine = engine_of(checkpoint_of(architecture))
    (reply,) = engine.generate(calls_about(media)[:1], MEDIA)
    assert isinstance(reply.outcome, Failure)
    assert "takes one picture per prompt" in reply.outcome.message


def test_chat_formats_of_blip_models() -> None:
    turns = (
        Turn("system", (Text("Be brief. "),)),
        user(PICTURE, "Who? "),
        Turn("assistant", (Text("A cat."),)),
        user("Where?"),
    )
    assert CHAT_FORMATS["blip-2"].render(turns) == "Be brief.\nQuestion: Who? Answer: A cat. Question: Where? Answer:"
    assert CHAT_FORMATS["instructblip"].render(turns) == "Be brief.\nWho?\nA cat.\nWhere?"


def test_space_that_a_processor_inserts_after_a_picture(
    checkpoint_of: Checkpoints, reference_answers: ReferenceAnswers
) -> None:
    generation = Generation(max_new_tokens=4)
    calls = [
        Call(call_id=str(number), turns=(user(PICTURE, text),), generation=generation)
        for number, text in enumerate((" Chi?", "Chi?", "<Chi?", "\nChi?", "Dove?"))
    ]
    engine = engine_of(checkpoint_of("idefics2"))
    assert not near_ties(texts(list(engine.generate(calls, MEDIA))), reference_answers("idefics2", calls))
    kinds = {opening for _, _, opening in engine._maker._heads}
    assert {" ", "x", "<"} <= kinds


def test_rotary_scaling_that_depends_on_length_does_not_share(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint_of("phi4_multimodal"), tmp_path / "long")
    config = json.loads((folder / "config.json").read_text())
    pairs = config["hidden_size"] // config["num_attention_heads"] // 2
    config["original_max_position_embeddings"] = 60
    config["rope_parameters"] = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 1.0,
        "short_factor": [1.0] * pairs,
        "long_factor": [1.0 + pair / 4 for pair in range(pairs)],
        "original_max_position_embeddings": 60,
    }
    (folder / "config.json").write_text(json.dumps(config))
    questions = ("Chi?", "perché " * 20, "perché " * 40, "perché " * 45, "Dove?")
    calls = [
        Call(call_id=str(number), turns=(user(text),), generation=Generation(max_new_tokens=16))
        for number, text in enumerate(questions)
    ]
    reference = ReferenceModel(folder)
    engine = engine_of(folder)
    shared = engine._shared
    assert isinstance(shared, SharedModel)
    assert shared.max_tokens == 60
    replies = list(engine.generate(calls, MEDIA))
    assert not near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
    lengths = [reply.outcome.input_tokens for reply in replies if isinstance(reply.outcome, Answer)]
    assert min(lengths) + 16 <= 60 < max(lengths)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_phi4_adapter_answers_equal_the_reference(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    reference = ReferenceModel(checkpoint_of("phi4_multimodal"))
    calls = calls_about((PICTURE,), limits=(1, 6))
    without_adapter = {call.call_id: reference.answer(call)[0] for call in calls}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        targets = r"model\.layers\.\d+\.(self_attn\.(qkv|o)_proj|mlp\.(gate_up|down)_proj)"
        config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
        get_peft_model(reference.model, config).save_pretrained(tmp_path)
    reference = ReferenceModel(checkpoint_of("phi4_multimodal"))
    reference.model = PeftModel.from_pretrained(reference.model, tmp_path).eval()
    engine = engine_of(checkpoint_of("phi4_multimodal"), adapter=str(tmp_path))
    answers = texts(list(engine.generate(calls, MEDIA)))
    assert not near_ties(answers, {call.call_id: reference.answer(call) for call in calls})
    assert engine.no_sharing_reason is None
    assert answers != without_adapter


def test_prompts_of_several_attention_chunks_do_not_share(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint_of("llama4"), tmp_path / "chunks")
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= {"attention_chunk_size": 64, "floor_scale": 60, "attn_temperature_tuning": True}
    (folder / "config.json").write_text(json.dumps(config))
    questions = ("Chi?", "perché " * 20, "Perché?", "perché " * 50, "Dove?")
    calls = [
        Call(call_id=str(number), turns=(user(text),), generation=Generation(max_new_tokens=8))
        for number, text in enumerate(questions)
    ]
    reference = ReferenceModel(folder)
    engine = engine_of(folder)
    shared = engine._shared
    assert isinstance(shared, SharedModel)
    assert (shared.max_tokens, shared._chunk) == (59, 59)
    replies = list(engine.generate(calls, MEDIA))
    assert not near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
    lengths = [reply.outcome.input_tokens for reply in replies if isinstance(reply.outcome, Answer)]
    assert min(lengths) + 8 <= 59 < max(lengths)

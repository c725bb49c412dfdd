"""What single architectures do in their own way: windows, steps about one picture, memory, prompt forms, rotations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.engines.transformers.chat_formats import FORMS
from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.prefix_sharing import SharedModel
from models.engines.transformers.sampling import GeneratedTokens
from models.messages import Answer, Call, Failure, Generation, Media, Text, Turn, user
from models.spec import Limits
from tests.unit.models.engines.conftest import Checkpoints, Judge
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
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

TOWERS = {
    "qwen2_5_vl": "model.visual",
    "idefics2": "model.vision_model",
    "smolvlm": "model.vision_model",
    "gemma3": "model.vision_tower",
    "blip-2": "vision_model",
    "instructblip": "vision_model.embeddings",
    "mllama": "model.vision_model.patch_embedding",
    "phi4_multimodal": "model.embed_tokens_extend.image_embed.img_processor",
}


def encoded(engine: TransformersEngine, architecture: str) -> list[int]:
    """Filled with one number for each time that the vision tower is at work: the rows of pixels it is given."""
    runs: list[int] = []

    def look(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [*args, *kwargs.values()]
        runs.append(next(len(tensor) for tensor in given if isinstance(tensor, torch.Tensor)))

    tower = engine._checkpoint.model.get_submodule(TOWERS[architecture])
    tower.register_forward_pre_hook(look, with_kwargs=True)
    return runs


def in_steps(engine: TransformersEngine, first: str, later: Sequence[str], *, said: bool) -> list[str]:
    """A picture's description, then questions with it in hand: as an earlier turn (`said`) or in the prompt."""
    opening = user(PICTURE, first)
    call = Call(call_id="first", turns=(opening,), generation=Generation(max_new_tokens=12))
    caption = texts(list(engine.generate([call], MEDIA)))["first"]
    calls = []
    for number, question in enumerate(later):
        told = (opening, Turn("assistant", (Text(caption),)), user(question))
        turns = told if said else (user(PICTURE, f"{caption}\n{question}"),)
        calls.append(Call(call_id=str(number), turns=turns, generation=Generation(max_new_tokens=6)))
    answers = texts(list(engine.generate(calls, MEDIA)))
    return [answers[str(number)] for number in range(len(later))]


@pytest.mark.parametrize("said", [True, False], ids=["caption as a turn", "scene graph as words"])
@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "idefics2", "gemma3", "smolvlm", "phi4_multimodal"])
def test_steps_about_one_picture_encode_it_once(architecture: str, said: bool, checkpoint_of: Checkpoints) -> None:
    engine = engine_of(checkpoint_of(architecture))
    runs = encoded(engine, architecture)
    answers = in_steps(engine, "Descrivi la scena.", ("Chi entra?", " E poi?", "Perché?"), said=said)
    assert len(runs) == 1
    assert engine.plain_reason is None
    plain = engine_of(checkpoint_of(architecture), plain=True)
    assert in_steps(plain, "Descrivi la scena.", ("Chi entra?", " E poi?", "Perché?"), said=said) == answers


@pytest.mark.parametrize("architecture", ["blip-2", "instructblip", "mllama"])
def test_a_batch_that_shares_no_beginning_shares_the_encoders_work(
    architecture: str, checkpoint_of: Checkpoints
) -> None:
    engine = engine_of(checkpoint_of(architecture))
    runs = encoded(engine, architecture)
    replies = list(engine.generate(calls_about((PICTURE,), limits=(2,)), MEDIA))
    assert len(texts(replies)) == 5
    alone = encoded(fresh := engine_of(checkpoint_of(architecture)), architecture)
    assert len(texts(list(fresh.generate(calls_about((PICTURE,), limits=(2,))[:1], MEDIA)))) == 1
    assert runs == alone


@pytest.mark.parametrize("architecture", ["gemma3", "idefics2", "blip-2", "mllama", "instructblip_t5"])
def test_memory_that_runs_out_halves_the_batch(
    architecture: str, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(checkpoint_of(architecture))
    calls = calls_about((PICTURE,), limits=(1, 5))
    want = texts(list(engine.generate(calls, MEDIA)))
    owner: Any = engine._shared or engine._plain
    answer = owner.answer
    sizes: list[int] = []

    def scarce(batch: Sequence[Any]) -> list[GeneratedTokens]:
        sizes.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        written: list[GeneratedTokens] = answer(batch)
        return written

    monkeypatch.setattr(owner, "answer", scarce)
    assert texts(list(engine.generate(calls, MEDIA))) == want
    assert sizes == [5, 2, 3, 1, 2]
    assert texts(list(engine.generate(calls, MEDIA))) == want
    assert max(sizes[5:]) <= 2, "what did not fit once is not tried again"


@pytest.mark.parametrize("architecture", ["gemma3", "blip-2", "mllama", "instructblip_t5"])
def test_batches_are_cut_to_free_memory_and_long_prompts_are_errors(
    architecture: str, checkpoint_of: Checkpoints
) -> None:
    engine = engine_of(checkpoint_of(architecture), limits=Limits(max_model_len=90))
    per_row = 2 * 200 * engine._memory._token
    engine._memory._budget = 3 * per_row
    assert engine._memory.rows(200) == 3
    assert engine._memory.rows(100) > 3
    (call,) = calls_about((PICTURE,), limits=(4,))[:1]
    long = replace(call, turns=(user(PICTURE, "perché " * 90),))
    (reply,) = engine.generate([long], MEDIA)
    assert isinstance(reply.outcome, Failure)
    assert reply.outcome.type == "context_length"
    assert "of prompt and 4 of answer are more than 90" in reply.outcome.message


@pytest.mark.parametrize(("architecture", "media"), [("blip-2", (PICTURE, OTHER)), ("instructblip", (CLIP,))])
def test_a_model_of_one_picture_says_so(
    architecture: str, media: tuple[Media, ...], checkpoint_of: Checkpoints
) -> None:
    engine = engine_of(checkpoint_of(architecture))
    (reply,) = engine.generate(calls_about(media)[:1], MEDIA)
    assert isinstance(reply.outcome, Failure)
    assert "takes one picture a prompt" in reply.outcome.message


def test_forms_of_prompts() -> None:
    turns = (
        Turn("system", (Text("Be brief. "),)),
        user(PICTURE, "Who? "),
        Turn("assistant", (Text("A cat."),)),
        user("Where?"),
    )
    assert FORMS["blip-2"].write(turns) == "Be brief.\nQuestion: Who? Answer: A cat. Question: Where? Answer:"
    assert FORMS["instructblip"].write(turns) == "Be brief.\nWho?\nA cat.\nWhere?"


def test_blanks_that_a_processor_puts_behind_a_picture(checkpoint_of: Checkpoints, answers_alone: Judge) -> None:
    generation = Generation(max_new_tokens=4)
    calls = [
        Call(call_id=str(number), turns=(user(PICTURE, words),), generation=generation)
        for number, words in enumerate((" Chi?", "Chi?", "<Chi?", "\nChi?", "Dove?"))
    ]
    engine = engine_of(checkpoint_of("idefics2"))
    assert not excused(texts(list(engine.generate(calls, MEDIA))), answers_alone("idefics2", calls))
    kinds = {opening for _, _, opening in engine._maker._heads}
    assert {" ", "x", "<"} <= kinds


def test_a_rotation_that_changes_with_length_is_not_shared(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
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
    words = ("Chi?", "perché " * 20, "perché " * 40, "perché " * 45, "Dove?")
    calls = [
        Call(call_id=str(number), turns=(user(said),), generation=Generation(max_new_tokens=16))
        for number, said in enumerate(words)
    ]
    alone = Alone(folder)
    engine = engine_of(folder)
    shared = engine._shared
    assert isinstance(shared, SharedModel)
    assert shared.longest == 60
    replies = list(engine.generate(calls, MEDIA))
    assert not excused(texts(replies), {call.call_id: alone.ask(call) for call in calls})
    lengths = [reply.outcome.input_tokens for reply in replies if isinstance(reply.outcome, Answer)]
    assert min(lengths) + 16 <= 60 < max(lengths)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_phi4_with_its_adapter(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    alone = Alone(checkpoint_of("phi4_multimodal"))
    calls = calls_about((PICTURE,), limits=(1, 6))
    bare = {call.call_id: alone.ask(call)[0] for call in calls}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        targets = r"model\.layers\.\d+\.(self_attn\.(qkv|o)_proj|mlp\.(gate_up|down)_proj)"
        config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
        get_peft_model(alone.model, config).save_pretrained(tmp_path)
    alone = Alone(checkpoint_of("phi4_multimodal"))
    alone.model = PeftModel.from_pretrained(alone.model, tmp_path).eval()
    engine = engine_of(checkpoint_of("phi4_multimodal"), adapter=str(tmp_path))
    got = texts(list(engine.generate(calls, MEDIA)))
    assert not excused(got, {call.call_id: alone.ask(call) for call in calls})
    assert engine.plain_reason is None
    assert got != bare

"""Optimizer steps: loss on answers, equal results in any micro-batches, bit-exact state, an adapter that loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from jobs.finetune.examples import EncodedExample, ExampleEncoder
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.trainer import Trainer
from models.engines import build_engine
from models.errors import TrainingStateError
from models.messages import Answer, Call, Generation, user
from tests.support.calls import MEDIA
from tests.support.turns import in_turns
from tests.unit.jobs.finetune.conftest import EXAMPLES

SETTINGS = TrainingSettings(
    epochs=1, learning_rate=3e-3, projector_learning_rate=3e-3, warmup_ratio=0.0, lora_rank=4, lora_alpha=8,
    dtype="float32",
)  # fmt: skip
pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft's
]


def trainer_of(load, architecture: str = "qwen2_5_vl", micro: int = 4, **memory: bool):
    checkpoint, spec = load(architecture)
    settings = MemorySettings(micro_batch_size=micro, gradient_checkpointing=memory.get("again", False))
    examples = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)
    return Trainer(checkpoint, SETTINGS, settings), examples


def losses(trainer: Trainer, examples: list[EncodedExample], steps: int) -> list[float]:
    return [trainer.train_step(examples, 100) for _ in range(steps)]


def test_first_loss_is_the_mean_over_answer_tokens(load) -> None:
    checkpoint, spec = load("qwen2_5_vl")
    total, tokens = 0.0, 0
    for example in ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA):
        ids = torch.from_numpy(example.prompt.ids)[None]
        inputs = {**example.prompt.head.inputs, **example.prompt.head.by_token(ids.shape[1])}
        with torch.no_grad():
            scores = checkpoint.model(input_ids=ids, **inputs).logits.log_softmax(-1)[0]
        for position in range(ids.shape[1] - example.answer_tokens, ids.shape[1]):
            total -= float(scores[position - 1, ids[0, position]])
            tokens += 1
    trainer, examples = trainer_of(load)
    assert trainer.loss_sum(examples) == (pytest.approx(total, rel=1e-5), tokens)


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "llava")))
def test_loss_falls_and_the_base_stays(load, architecture: str) -> None:
    trainer, examples = trainer_of(load, architecture)
    frozen = {n: p.clone() for n, p in trainer._model.named_parameters() if not p.requires_grad}
    first, *_, last = losses(trainer, examples, 8)
    assert last < 0.8 * first
    assert all(torch.equal(p, frozen[n]) for n, p in trainer._model.named_parameters() if n in frozen)
    assert not [name for name in trainer.parameters if "lora" not in name and "projector" not in name and
                "merger" not in name]  # fmt: skip
    assert any("projector" in name or "merger" in name for name in trainer.parameters)


def test_micro_batches_and_recomputed_activations_give_the_same_step(load) -> None:
    whole, examples = trainer_of(load)
    single, _ = trainer_of(load, micro=1, again=True)
    assert whole.loss_sum(examples)[0] == pytest.approx(single.loss_sum(examples)[0], rel=1e-5)
    for trainer in (whole, single):
        trainer._model.peft_config["default"].lora_dropout = 0.0
        for module in trainer._model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    assert losses(whole, examples, 2) == pytest.approx(losses(single, examples, 2), rel=1e-3)


def test_resumed_steps_are_bit_equal(load) -> None:
    trainer, examples = trainer_of(load)
    before = losses(trainer, examples, 2)
    state = trainer.state({"losses": before})
    after = losses(trainer, examples, 2)
    resumed, _ = trainer_of(load)
    assert resumed.load_state(state, "state") == {"losses": before}
    assert resumed.step == 2
    assert losses(resumed, examples, 2) == after
    assert resumed.weights() == trainer.weights()


def test_share_without_examples_leaves_the_weights_and_another_models_state_is_refused(load) -> None:
    trainer, _ = trainer_of(load)
    before = trainer.weights()
    trainer._summed = lambda value: value or 5  # another worker's tokens
    trainer.train_step([], 10)
    assert trainer.weights() == before
    trainer, _ = trainer_of(load)
    other, _ = trainer_of(load, "llava")
    with pytest.raises(TrainingStateError, match="of another model"):
        trainer.load_state(other.state({}), "step-1")


@pytest.mark.parametrize("content", [b"", b"x" * 40])
def test_damaged_state_is_named(load, content: bytes) -> None:
    trainer, _ = trainer_of(load)
    with pytest.raises(TrainingStateError, match=r"^step-9 is damaged .*delete it"):
        trainer.load_state(content, "step-9")


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "llava")))
def test_engine_answers_with_the_adapter_as_trained(load, folders, tmp_path: Path, architecture: str) -> None:
    trainer, examples = trainer_of(load, architecture)
    losses(trainer, examples, 50)
    for name, content in trainer.adapter("base", None).items():
        (tmp_path / name).write_bytes(content)
    _, spec = load(architecture)
    engine = build_engine("m", spec.model_copy(update={"adapter": str(tmp_path)}))
    calls = [
        Call(
            call_id=example.example_id,
            turns=(user(example.picture, example.instruction),),
            generation=Generation(max_new_tokens=40),
        )
        for example in EXAMPLES
    ]
    answers = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    texts = {name: answer.text for name, answer in answers.items() if isinstance(answer, Answer)}
    assert texts == {example.example_id: example.answer for example in EXAMPLES}

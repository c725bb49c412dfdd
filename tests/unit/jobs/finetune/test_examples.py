"""Training examples as tokens: the prompt of a run, the answer, and a loss on the answer alone."""

import pytest
import torch

from jobs.finetune.examples import IGNORED, ExampleEncoder, TrainingExample, batches
from models.engines.transformers import prompts
from models.engines.transformers.prompts import PromptMaker
from models.errors import TrainingDataError
from models.messages import Call, Generation, user
from tests.support.calls import MEDIA, PICTURE
from tests.unit.jobs.finetune.conftest import EXAMPLES


@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "llava"])
def test_prompt_has_the_tokens_of_a_run_and_answer_follows(load, architecture: str) -> None:
    checkpoint, spec = load(architecture)
    encoded = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)
    for example, result in zip(EXAMPLES, encoded, strict=True):
        call = Call(call_id="x", turns=(user(example.picture, example.instruction),), generation=Generation())
        (prompt,) = PromptMaker(checkpoint, spec).make([call], MEDIA)
        answer = result.prompt.ids[len(prompt.ids) :]
        assert result.prompt.ids[: len(prompt.ids)].tolist() == prompt.ids.tolist()
        assert checkpoint.tokenizer.decode(answer[:-1]) == example.answer
        assert answer[-1] == checkpoint.tokenizer.eos_token_id


def test_workers_of_a_training_do_not_take_the_first_ones_examples(load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of one model share what the first one preprocesses; workers have examples of their own."""
    checkpoint, spec = load("llava")

    class OfTheFirstRank:
        has_pixels = False

        def share(self, _process: object) -> dict[str, torch.Tensor]:
            pytest.fail("waits for the first worker, which encodes other examples")

    monkeypatch.setattr(prompts, "join_pixels", OfTheFirstRank)
    assert len(ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)) == len(EXAMPLES)


def test_labels_mask_the_prompt(load) -> None:
    checkpoint, spec = load("qwen2_5_vl")
    (encoded,) = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES[:1], MEDIA)
    labels = encoded.labels
    assert set(labels[: -encoded.answer_tokens]) == {IGNORED}
    assert labels[-encoded.answer_tokens :].tolist() == encoded.prompt.ids[-encoded.answer_tokens :].tolist()


def test_batch_pads_on_the_left_without_loss(load) -> None:
    checkpoint, spec = load("llava")
    encoded = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES, MEDIA)
    (batch,) = batches(encoded, 3, checkpoint.pad_id)
    assert batch.inputs["input_ids"].shape == batch.labels.shape == batch.inputs["attention_mask"].shape
    assert bool((batch.labels[batch.inputs["attention_mask"] == 0] == IGNORED).all())
    assert int((batch.labels != IGNORED).sum()) == sum(example.answer_tokens for example in encoded)
    assert torch.equal(batch.inputs["input_ids"][batch.labels != IGNORED], batch.labels[batch.labels != IGNORED])


def test_long_answers_are_cut_and_what_cannot_be_encoded_is_named(load) -> None:
    checkpoint, spec = load("llava")
    (whole,) = ExampleEncoder(checkpoint, spec, 2048).encode(EXAMPLES[:1], MEDIA)
    limit = len(whole.prompt.ids) - 2
    (cut,) = ExampleEncoder(checkpoint, spec, limit).encode(EXAMPLES[:1], MEDIA)
    assert cut.prompt.ids.tolist() == whole.prompt.ids[:limit].tolist()
    assert cut.answer_tokens == whole.answer_tokens - 2
    with pytest.raises(TrainingDataError, match=r"^a: its prompt has \d+ tokens.*--max-length 8"):
        ExampleEncoder(checkpoint, spec, 8).encode(EXAMPLES[:1], MEDIA)
    broken = TrainingExample(example_id="row-7", picture=PICTURE, instruction="What is <image>?", answer="x")
    with pytest.raises(TrainingDataError, match=r"^row-7 cannot be encoded: .*placeholder"):
        ExampleEncoder(checkpoint, spec, 2048).encode([broken], MEDIA)

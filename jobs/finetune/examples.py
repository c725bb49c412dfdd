"""Training examples as tokens: the prompt as the engine sends it, the answer, and labels that mask the prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.padded_batch import padded_inputs
from models.engines.transformers.prompt_records import Prompt
from models.engines.transformers.prompts import PromptMaker
from models.errors import TrainingDataError
from models.messages import Call, CallReply, Failure, Frames, Generation, Media, user
from models.spec import ModelSpec

IGNORED: Final = -100  # label of tokens without loss, torch's default


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExample:
    """A picture, an instruction and the answer to learn."""

    example_id: str
    picture: Media
    instruction: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedExample:
    """An example as tokens; the last `answer_tokens` have a loss."""

    prompt: Prompt  # its `ids` are those of prompt and answer
    answer_tokens: int  # with the token that ends the answer

    @property
    def labels(self) -> np.ndarray:
        """Return the target of each token, int64 [tokens]; `IGNORED` for those of the prompt."""
        labels = self.prompt.ids.copy()
        labels[: len(labels) - self.answer_tokens] = IGNORED
        return labels


class ExampleEncoder:
    """Encodes examples with a checkpoint's processor, so that prompts have the tokens that they have in a run."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec, max_length: int) -> None:
        self._tokenizer = checkpoint.tokenizer
        self._max_length = max_length
        self._maker = PromptMaker(checkpoint, spec)

    def encode(self, examples: Sequence[TrainingExample], frames: Mapping[Media, Frames]) -> list[EncodedExample]:
        """Encode examples in their order; `frames` has the pixels of their pictures.

        Raises:
            TrainingDataError: an example cannot be encoded, or its prompt leaves no room for an answer.
        """
        calls = [
            Call(
                call_id=example.example_id, turns=(user(example.picture, example.instruction),), generation=Generation()
            )
            for example in examples
        ]
        prompts = self._maker.make(calls, frames)
        return [self._with_answer(example, prompt) for example, prompt in zip(examples, prompts, strict=True)]

    def _with_answer(self, example: TrainingExample, prompt: Prompt | CallReply) -> EncodedExample:
        if isinstance(prompt, CallReply):
            assert isinstance(prompt.outcome, Failure)
            raise TrainingDataError(f"{example.example_id} cannot be encoded: {prompt.outcome.message}")
        answer = [*self._tokenizer(example.answer, add_special_tokens=False)["input_ids"], self._tokenizer.eos_token_id]
        budget = self._max_length - len(prompt.ids)
        if budget < 1:
            raise TrainingDataError(
                f"{example.example_id}: its prompt has {len(prompt.ids)} tokens, which leaves no room for an answer "
                f"within --max-length {self._max_length}; set a larger one"
            )
        answer = answer[:budget]
        ids = np.concatenate([prompt.ids, np.asarray(answer, dtype=np.int64)])
        return EncodedExample(prompt=replace(prompt, ids=ids), answer_tokens=len(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Examples padded on the left to a common length."""

    inputs: Mapping[str, Tensor]  # arguments of the model's forward pass
    labels: Tensor  # int64 [examples, tokens], `IGNORED` for tokens without loss
    answer_tokens: int  # of the longest answer: the last tokens of a row


def batches(examples: Sequence[EncodedExample], size: int, pad_id: int) -> Iterator[Batch]:
    """Yield batches of up to `size` examples; only those with pixels of equal shape share one."""
    groups: dict[tuple[Any, ...], list[EncodedExample]] = {}
    for example in examples:
        inputs = example.prompt.head.inputs
        groups.setdefault(tuple((name, inputs[name].shape[1:]) for name in sorted(inputs)), []).append(example)
    for group in groups.values():
        for start in range(0, len(group), size):
            yield _batch(group[start : start + size], pad_id)


def _batch(examples: Sequence[EncodedExample], pad_id: int) -> Batch:
    width = max(len(example.prompt.ids) for example in examples)
    labels = torch.full((len(examples), width), IGNORED)
    for row, example in enumerate(examples):
        labels[row, width - len(example.prompt.ids) :] = torch.from_numpy(example.labels)
    return Batch(
        inputs=padded_inputs([example.prompt for example in examples], width, pad_id),
        labels=labels,
        answer_tokens=max(example.answer_tokens for example in examples),
    )

"""Batches by the model's own `generate`, padded on the left: for beam search and models without prefix sharing."""

import copy
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig

from models.engines.transformers.chat_formats import CHAT_FORMATS
from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.prefix_sharing import max_sharable_tokens
from models.engines.transformers.prompt_records import Head, Prompt, joined_inputs
from models.engines.transformers.sampling import (
    NOT_FINITE,
    GeneratedTokens,
    broadcast_from_rank_0,
    choose_tokens,
    truncate,
)
from models.messages import Call

_FEATURES = ("get_image_features", "get_video_features")  # methods of a model that run its vision tower and projector
_TOWER = "vision_model"  # the tower itself, in models without such methods or whose methods take text


def _are_at_limits(limits: Tensor, input_ids: Tensor, _scores: Any, **_: Any) -> Tensor:
    """Return which rows have reached their limits, [rows]; transformers asks after every token."""
    return limits <= input_ids.shape[1]


def _seeded_draws(calls: Sequence[Call], width: int, input_ids: Tensor, scores: Tensor) -> Tensor:
    """Leave one token per row in its scores: the one drawn by the call's seed."""
    tokens = choose_tokens(scores, calls, [input_ids.shape[1] - width] * len(calls))
    masked = torch.full_like(scores, float("-inf"))
    masked[torch.arange(len(tokens)), tokens] = 0.0
    return masked


def _note_not_finite(first: Tensor, width: int, input_ids: Tensor, scores: Tensor) -> Tensor:
    """Note in `first` [calls] the first step at which the logits of a call, or of one of its beams, are not finite."""
    best = scores.max(-1).values.view(len(first), -1)
    is_wrong = best.isnan().any(-1) | best.isposinf().any(-1)
    torch.minimum(first, first.where(~is_wrong, input_ids.shape[1] - width), out=first)
    return scores


def _scores_of_rank_0(_input_ids: Tensor, scores: Tensor) -> Tensor:
    """Broadcast the scores: beams are selected by them, and all ranks must select the same."""
    return broadcast_from_rank_0(scores.contiguous())


class PaddedBatchModel:
    """A model that answers each batch in one call of `generate`."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._model = checkpoint.model
        self._device = checkpoint.device
        self._end_ids = checkpoint.end_ids
        self._pad_id = checkpoint.pad_id
        self._config = checkpoint.model.config
        self._is_encoder_decoder = checkpoint.text_config.is_encoder_decoder
        self._max_sharable = max_sharable_tokens(checkpoint)

    def batch_key(self, prompt: Prompt) -> tuple[object, ...]:
        """Return the batching key: prompts with equal keys have equal pixel shapes and beams."""
        generation = prompt.call.generation
        beams = generation.num_beams
        return (
            beams,
            generation.max_new_tokens if beams > 1 else 0,
            prompt.head.shapes,
            # The longest prompt of a batch selects the rotary scaling of all: one that may cross the limit goes alone.
            id(prompt) if self._max_sharable is not None and len(prompt.ids) <= self._max_sharable else None,
        )

    def generate(self, prompts: Sequence[Prompt]) -> list[GeneratedTokens]:
        """Generate the answers of prompts with equal `batch_key`."""
        calls = [prompt.call for prompt in prompts]
        width = max(len(prompt.ids) for prompt in prompts)
        beams = calls[0].generation.num_beams
        config = GenerationConfig(
            do_sample=False,
            num_beams=beams,
            max_new_tokens=max(call.generation.max_new_tokens for call in calls),
            eos_token_id=sorted(self._end_ids) or None,
            pad_token_id=self._pad_id,
        )
        # An encoder-decoder model returns its answer after one start token.
        skipped = 1 if self._is_encoder_decoder else width
        not_finite = torch.full((len(calls),), config.max_new_tokens, device=self._device)
        processors: list[Any] = [functools.partial(_note_not_finite, not_finite, skipped)]
        options: dict[str, Any] = {"logits_processor": processors}
        if beams == 1:
            limits = torch.tensor([skipped + call.generation.max_new_tokens for call in calls], device=self._device)
            options["stopping_criteria"] = [functools.partial(_are_at_limits, limits)]
            if any(call.generation.temperature > 0 for call in calls):
                processors.append(functools.partial(_seeded_draws, calls, skipped))
        if torch.distributed.is_initialized() and len(processors) == 1:
            processors.append(_scores_of_rank_0)
        with torch.inference_mode(), _encode_pixels_once(self._model, prompts):
            # For text alone, the language model of one that requires a picture.
            needs_picture = self._config.model_type in CHAT_FORMATS and not prompts[0].head.inputs
            model = self._model.language_model if needs_picture else self._model
            inputs = {name: t.to(self._device) for name, t in padded_inputs(prompts, width, self._pad_id).items()}
            out = model.generate(**inputs, generation_config=config, **options)
        ids: list[list[int]] = out[:, skipped:].tolist()
        return [
            truncate(
                [*row[:step], NOT_FINITE] if step < config.max_new_tokens else row,
                call.generation.max_new_tokens,
                self._end_ids,
            )
            for row, call, step in zip(ids, calls, not_finite.tolist(), strict=True)
        ]


def padded_inputs(prompts: Sequence[Prompt], width: int, pad_id: int) -> dict[str, Tensor]:
    """Return the model's inputs for prompts with pixels of equal shape, padded on the left to `width` tokens."""
    ids = torch.full((len(prompts), width), pad_id)
    mask = torch.zeros_like(ids)
    extras = {
        name: tensor.new_zeros(len(prompts), width, *tensor.shape[2:])
        for name, tensor in prompts[0].head.extras.items()
    }
    for row, prompt in enumerate(prompts):
        length = len(prompt.ids)
        ids[row, width - length :] = torch.from_numpy(prompt.ids)
        mask[row, width - length :] = 1
        for name, tensor in prompt.head.by_token(length).items():
            extras[name][row, width - length :] = tensor[0]
    pixels = joined_inputs([prompt.head for prompt in prompts])
    text_inputs = {
        name: pad_sequence([prompt.text_inputs[name][0] for prompt in prompts], batch_first=True)
        for name in prompts[0].text_inputs
    }
    return {"input_ids": ids, "attention_mask": mask, **extras, **pixels, **text_inputs}


@contextmanager
def _encode_pixels_once(model: Any, prompts: Sequence[Prompt]) -> Iterator[None]:
    """Run the vision tower once on pixels that all prompts of the batch share."""
    head = prompts[0].head
    inner = getattr(model, "model", model)
    targets = [(inner, name) for name in _FEATURES if inner is not model and hasattr(inner, name)]
    if not targets and hasattr(inner, _TOWER):
        targets = [(getattr(inner, _TOWER), "forward")]
    same_head = len(prompts) > 1 and all(prompt.head is head for prompt in prompts)
    if not head.inputs or not same_head:
        yield
        return
    for owner, name in targets:
        setattr(owner, name, _repeating(getattr(owner, name), head))
    try:
        yield
    finally:
        for owner, name in targets:
            delattr(owner, name)


def _repeating(encoder: Any, head: Head) -> Any:
    """Wrap an encoder to run on one prompt's pixels and repeat the features for the batch."""

    @functools.wraps(encoder)  # `generate` reads the signature
    def encode(*args: Any, **kwargs: Any) -> Any:
        by_position = dict(zip(inspect.signature(encoder).parameters, args, strict=False))
        copies = max(_take_single(by_position, head.inputs), _take_single(kwargs, head.inputs))
        repeated = copy.copy(encoder(*by_position.values(), **kwargs))
        for name in ("last_hidden_state", "pooler_output"):
            if getattr(repeated, name, None) is not None:
                setattr(repeated, name, _repeat(getattr(repeated, name), copies))
        if getattr(repeated, "deepstack_features", None) is not None:
            repeated.deepstack_features = [_repeat_layer(layer, copies) for layer in repeated.deepstack_features]
        return repeated

    return encode


def _repeat_layer(layer: Any, copies: int) -> Any:
    """Repeat the features that one layer of the language model receives, alone or with the index of that layer."""
    if isinstance(layer, tuple) and isinstance(layer[0], int):
        return layer[0], _repeat(layer[1], copies)
    return _repeat(layer, copies)


def _repeat(features: Any, copies: int) -> Any:
    if isinstance(features, Tensor):
        return features.repeat(copies, *[1] * (features.dim() - 1))
    return [*features] * copies


def _take_single(arguments: dict[str, Any], inputs: Mapping[str, Tensor]) -> int:
    """Replace the batch's tensors by one prompt's; return the number of copies in the batch."""
    copies = 1
    for name, tensor in inputs.items():
        if isinstance(arguments.get(name), Tensor):
            copies = max(copies, len(arguments[name]) // len(tensor))
            arguments[name] = tensor.to(arguments[name].device)
    return copies

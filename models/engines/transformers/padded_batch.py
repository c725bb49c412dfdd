"""Plain batches by the model's own `generate`, padded on the left: for beams and for models that cannot share."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from models.engines.transformers.chat_formats import FORMS
from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.prefix_sharing import short_rotation
from models.engines.transformers.prompts import Head, Prompt
from models.engines.transformers.sampling import GeneratedTokens, broadcast_from_rank_0, choose, written
from models.messages import Call

_FEATURES = ("get_image_features", "get_video_features")
"""Methods of a model that run its vision tower and what follows it."""
_TOWER = "vision_model"
"""The tower by itself, in models that have no such methods or need the words for them."""


class _Limits:
    """Stops each row at its own limit; transformers calls it after every token."""

    def __init__(self, calls: Sequence[Call], width: int, device: torch.device) -> None:
        limits = [width + call.generation.max_new_tokens for call in calls]
        self._limits = torch.tensor(limits, device=device)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        del scores
        return self._limits <= input_ids.shape[1]


class _Dice:
    """Leaves one token a row: the one that the call's own dice drew."""

    def __init__(self, calls: Sequence[Call], width: int) -> None:
        self._calls = calls
        self._width = width

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        tokens = choose(scores, self._calls, input_ids.shape[1] - self._width)
        left = torch.full_like(scores, float("-inf"))
        left[torch.arange(len(tokens)), tokens] = 0.0
        return left


def _scores_of_rank_0(input_ids: Tensor, scores: Tensor) -> Tensor:
    """Beams are cut and kept by scores: all ranks of a group must see the same ones."""
    del input_ids
    return broadcast_from_rank_0(scores.contiguous())


class PaddedBatchModel:
    """Answers a batch in one call of `generate`."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._model = checkpoint.model
        self._device = checkpoint.device
        self._end_ids = checkpoint.end_ids
        self._pad_id = checkpoint.pad_id
        self._config = checkpoint.model.config
        self._apart = checkpoint.text_config.is_encoder_decoder
        self._short = short_rotation(checkpoint)

    def kind(self, prompt: Prompt) -> tuple[object, ...]:
        """Prompts with equal kinds go into one batch: the same shapes of pixels, the same beams."""
        generation = prompt.call.generation
        beams = generation.num_beams
        return (
            beams,
            generation.max_new_tokens if beams > 1 else 0,
            tuple((name, t.shape[1:], t.dtype) for name, t in sorted(prompt.head.inputs.items())),
            tuple((name, t.shape[2:]) for name, t in sorted(prompt.head.extras.items())),
            # The longest prompt of a batch decides how all of it is turned: one that may yet cross the line goes alone.
            id(prompt) if self._short is not None and len(prompt.ids) <= self._short else None,
        )

    def answer(self, prompts: Sequence[Prompt]) -> list[GeneratedTokens]:
        """Write the answers of prompts of one `kind`."""
        from transformers import GenerationConfig

        calls = [prompt.call for prompt in prompts]
        width = max(len(prompt.ids) for prompt in prompts)
        beams = calls[0].generation.num_beams
        limit = max(call.generation.max_new_tokens for call in calls)
        config = GenerationConfig(
            do_sample=False,
            num_beams=beams,
            max_new_tokens=limit,
            eos_token_id=sorted(self._end_ids) or None,
            pad_token_id=self._pad_id,
        )
        # A model with a decoder of its own gives back its answer behind one token that says nothing.
        before = 1 if self._apart else width
        more: dict[str, Any] = {}
        if beams == 1:
            more["stopping_criteria"] = [_Limits(calls, before, self._device)]
            if any(call.generation.temperature > 0 for call in calls):
                more["logits_processor"] = [_Dice(calls, before)]
        if torch.distributed.is_initialized():
            more.setdefault("logits_processor", [_scores_of_rank_0])
        with torch.inference_mode(), _encoded_once(self._model, prompts):
            model = self._speaker(prompts)
            out = model.generate(**self._inputs(prompts, width), generation_config=config, **more)
        ids: list[list[int]] = out[:, before:].tolist()
        return [
            written(row, call.generation.max_new_tokens, self._end_ids) for row, call in zip(ids, calls, strict=True)
        ]

    def _speaker(self, prompts: Sequence[Prompt]) -> Any:
        """The model; or its language half, for words alone to one that insists on a picture."""
        needs = self._config.model_type in FORMS and not prompts[0].head.inputs
        return self._model.language_model if needs else self._model

    def _inputs(self, prompts: Sequence[Prompt], width: int) -> dict[str, Tensor]:
        """Everything for the model; ids [prompts, width], padded on the left."""
        ids = torch.full((len(prompts), width), self._pad_id)
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
        pixels = {name: torch.cat([prompt.head.inputs[name] for prompt in prompts]) for name in prompts[0].head.inputs}
        words = {name: _padded([prompt.words[name] for prompt in prompts]) for name in prompts[0].words}
        every = {"input_ids": ids, "attention_mask": mask, **extras, **pixels, **words}
        return {name: tensor.to(self._device) for name, tensor in every.items()}


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """Tensors [1, tokens] below each other, zeros at their ends."""
    width = max(row.shape[1] for row in rows)
    return torch.cat([torch.nn.functional.pad(row, (0, width - row.shape[1])) for row in rows])


@contextmanager
def _encoded_once(model: Any, prompts: Sequence[Prompt]) -> Iterator[None]:
    """Let the vision tower see pixels once that all prompts of the batch have in common."""
    head = prompts[0].head
    inner = getattr(model, "model", model)
    places = [(inner, name) for name in _FEATURES if inner is not model and hasattr(inner, name)]
    if not places and hasattr(inner, _TOWER):
        places = [(getattr(inner, _TOWER), "forward")]
    alike = len(prompts) > 1 and all(prompt.head is head for prompt in prompts)
    if not head.inputs or not alike:
        yield
        return
    for owner, name in places:
        setattr(owner, name, _repeating(getattr(owner, name), head))
    try:
        yield
    finally:
        for owner, name in places:
            delattr(owner, name)


def _repeating(encoder: Any, head: Head) -> Any:
    """The encoder run on one prompt's pixels, its features repeated as often as the batch repeats the pixels."""

    @functools.wraps(encoder)  # `generate` reads the signature
    def encode(*args: Any, **kwargs: Any) -> Any:
        by_place = dict(zip(inspect.signature(encoder).parameters, args, strict=False))
        copies = max(_single(by_place, head.inputs), _single(kwargs, head.inputs))
        repeated = copy.copy(encoder(*by_place.values(), **kwargs))
        for name in ("last_hidden_state", "pooler_output"):
            if getattr(repeated, name, None) is not None:
                setattr(repeated, name, _again(getattr(repeated, name), copies))
        if getattr(repeated, "deepstack_features", None) is not None:
            repeated.deepstack_features = [_again(layer, copies) for layer in repeated.deepstack_features]
        return repeated

    return encode


def _again(features: Any, copies: int) -> Any:
    """Features of one prompt, as a tensor or a tensor a picture, so many times over."""
    if isinstance(features, Tensor):
        return features.repeat(copies, *[1] * (features.dim() - 1))
    return [*features] * copies


def _single(given: dict[str, Any], inputs: Mapping[str, Tensor]) -> int:
    """Put one prompt's tensors in the place of the batch's; how many copies the batch held."""
    copies = 1
    for name, tensor in inputs.items():
        if isinstance(given.get(name), Tensor):
            copies = max(copies, len(given[name]) // len(tensor))
            given[name] = tensor.to(given[name].device)
    return copies

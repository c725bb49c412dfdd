"""Prompts as tokens and tensors, and the fewest tokens that a set of them can cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.prefix_tree import common_length
from models.messages import Call, Media


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """A prompt's prefix up to its last picture or clip, as the processor returned it."""

    media: tuple[Media, ...]
    ids: np.ndarray  # [tokens], int64; empty without media
    inputs: Mapping[str, Tensor]  # pixel tensors and their companions, for one prompt
    extras: Mapping[str, Tensor]  # per token: [1, tokens], zero for text, or [1, tokens, ...], repeated for text

    @property
    def nbytes(self) -> int:
        """Return the memory held, in bytes."""
        return int(self.ids.nbytes + sum(t.numel() * t.element_size() for t in self.inputs.values()))

    @property
    def marked(self) -> int:
        """Return the number of tokens up to the last one that is not text by the tensors per token."""
        return max((int(t[0].nonzero().max()) + 1 for t in self.extras.values() if t.ndim == 2 and t.any()), default=0)

    @property
    def shapes(self) -> tuple[object, ...]:
        """Return the names, types and shapes that heads in one batch have in common."""
        return (
            tuple((name, t.shape[1:], t.dtype) for name, t in sorted(self.inputs.items())),
            tuple((name, t.shape[2:]) for name, t in sorted(self.extras.items())),
        )

    def by_token(self, length: int, width: int | None = None) -> dict[str, Tensor]:
        """Return the tensors per token, cut or extended to a length, and for a batch then to its width."""
        return {name: _resized(_resized(t, length), width or length) for name, t in self.extras.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A call ready for the model."""

    call: Call
    head: Head
    ids: np.ndarray  # [tokens], int64, the head's included
    text_inputs: Mapping[str, Tensor] = field(default_factory=dict)  # [1, tokens], for a part with its own tokenizer

    def split(self, length: int) -> Head:
        """Return the prompt's first tokens as a head.

        Its tensors per token reach further where they mark the token that ends a picture, as ERNIE's do.
        """
        head = self.head
        extras = head.by_token(max(length, head.marked))
        return Head(media=head.media, ids=self.ids[:length], inputs=head.inputs, extras=extras)


_PATCHES = {"image_token_pooling": "pixel_values", "video_token_pooling": "pixel_values_videos"}
"""Of Molmo 2: indices into the patches, [crops, patches, width], of all pictures of a pass; -1 for none."""


def joined_inputs(heads: Sequence[Head]) -> dict[str, Tensor]:
    """Return the pixel tensors and their companions of heads with equal `shapes`, for one pass."""
    joined = {name: torch.cat([head.inputs[name] for head in heads]) for name in heads[0].inputs}
    for name in _PATCHES.keys() & joined.keys():
        before, parts = 0, []
        for head in heads:
            indices, patches = head.inputs[name], head.inputs[_PATCHES[name]]
            parts.append(torch.where(indices < 0, indices, indices + before))
            before += patches.shape[0] * patches.shape[1]
        joined[name] = torch.cat(parts)
    return joined


NO_HEAD = Head(media=(), ids=np.empty(0, dtype=np.int64), inputs={}, extras={})  # the head of text-only prompts


def count_distinct_tokens(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return call id -> tokens after its pixels that no other prompt has after the same prefix; of equals, one counts.

    Their sum is the number of nodes of the prefix tree: in sorted order a prompt adds what its predecessor lacks.
    """
    trees: dict[bytes, list[tuple[list[int], str]]] = {}
    for prompt in prompts:
        tail: list[int] = prompt.ids[len(prompt.head.ids) :].tolist()
        trees.setdefault(prompt.head.ids.tobytes(), []).append((tail, prompt.call.call_id))
    counts: dict[str, int] = {}
    for tree in trees.values():
        previous: list[int] = []
        for tail, call_id in sorted(tree):
            counts[call_id] = len(tail) - common_length(np.asarray(previous), np.asarray(tail))
            previous = tail
    return counts


def _resized(tensor: Tensor, length: int) -> Tensor:
    missing = length - tensor.shape[1]
    if missing <= 0:
        return tensor[:, :length]
    if tensor.ndim == 2:
        return torch.nn.functional.pad(tensor, (0, missing))
    return torch.cat([tensor, tensor[:, -1:].expand(-1, missing, *tensor.shape[2:])], 1)

"""A prefix in several passes, where one takes more memory than there is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor


@contextmanager
def in_passes(decoder: Any, tokens: int) -> Iterator[None]:
    """Let a decoder compute the embedded tokens of a prompt in passes of so many; whole where it is given more.

    Its vision tower has run then. What is cut is per token, of one prompt: embeddings, positions, the mask of padding,
    and what Qwen3-VL adds to the first layers at pixels. Any other tensor, or a mask that was made for the whole prompt
    as where tokens of a picture see each other, means one pass.
    """
    forward = decoder.forward

    def forward_in_passes(*args: Any, **kwargs: Any) -> Any:
        embeds = kwargs.get("inputs_embeds")
        cut = {name: value for name, value in kwargs.items() if isinstance(value, (Tensor, list, tuple, dict))}
        mask = cut.get("attention_mask")
        is_prepared = mask is not None and getattr(mask, "ndim", 0) != 2
        if embeds is None or embeds.shape[1] <= tokens or not cut.keys() <= _CUTS.keys() or is_prepared:
            return forward(*args, **kwargs)
        for start in range(0, embeds.shape[1], tokens):
            end = min(start + tokens, embeds.shape[1])
            out = forward(*args, **{**kwargs, **{name: _CUTS[name](cut, start, end) for name in cut}})
        return out

    decoder.forward = forward_in_passes
    try:
        yield
    finally:
        del decoder.forward


def _pixels(given: Mapping[str, Any], start: int, end: int) -> list[Tensor]:
    """Return the features of the pixels from one token to another, for each of the first layers."""
    mask = given["visual_pos_masks"]
    first, last = int(mask[:, :start].sum()), int(mask[:, :end].sum())
    return [features[first:last] for features in given["deepstack_visual_embeds"]]


_CUTS: Mapping[str, Any] = {
    "inputs_embeds": lambda given, start, end: given["inputs_embeds"][:, start:end],
    "position_ids": lambda given, start, end: given["position_ids"][..., start:end],
    "attention_mask": lambda given, _, end: given["attention_mask"][:, :end],
    "visual_pos_masks": lambda given, start, end: given["visual_pos_masks"][:, start:end],
    "deepstack_visual_embeds": _pixels,
}

"""Prompts under way: the segments they share, the keys and values of their own, and attention over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.engines.transformers.attention import attend, attend_seen, merge

_GROWTH = 64
"""Tokens by which a row's room grows when an answer needs more."""


@dataclass(slots=True, eq=False)
class SharedSegment:
    """Keys and values, by layer, of tokens that several prompts have in common at the same place."""

    keys: list[Tensor]
    """Each [1, key heads, tokens, width]; a layer with a sliding window may hold the last tokens alone."""
    values: list[Tensor]
    length: int
    """Tokens."""
    shift: int = 0
    """What models with two-dimensional positions add to a later token's index to get its position."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(t.numel() * t.element_size() for t in (*self.keys, *self.values))


@dataclass(slots=True)
class PackedSequences:
    """Prompts under way: which segments each begins with, and room for the keys and values of its own tokens."""

    paths: list[tuple[SharedSegment, ...]]
    lengths: list[int]
    """Own tokens so far, by row; those of the segments are not counted."""
    room: int
    keys: dict[int, Tensor] = field(default_factory=dict)
    """Layer -> [rows, key heads, room, width]."""
    values: dict[int, Tensor] = field(default_factory=dict)
    shifts: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.paths)

    def position(self, row: int) -> int:
        """Position of the row's own token 0."""
        return sum(segment.length for segment in self.paths[row]) + self.shifts[row]

    def write(self, layer: int, at: tuple[Tensor, Tensor], key: Tensor, value: Tensor) -> None:
        """Store keys and values [tokens, key heads, width] at (row, place) of each token."""
        for store, new in ((self.keys, key), (self.values, value)):
            if layer not in store:
                store[layer] = new.new_zeros(len(self), new.shape[1], self.room, new.shape[2])
            store[layer][at[0], :, at[1]] = new

    def reserve(self, room: int) -> None:
        """Make room for so many own tokens in each row."""
        if room <= self.room:
            return
        self.room = room + _GROWTH
        for store in (self.keys, self.values):
            for layer, old in store.items():
                new = old.new_zeros(*old.shape[:2], self.room, old.shape[3])
                new[:, :, : old.shape[2]] = old
                store[layer] = new

    def keep(self, rows: Sequence[int]) -> None:
        """Forget all rows but these."""
        self.paths = [self.paths[row] for row in rows]
        self.lengths = [self.lengths[row] for row in rows]
        self.shifts = [self.shifts[row] for row in rows]
        for store in (self.keys, self.values):
            for layer, old in store.items():
                store[layer] = old[torch.tensor(rows, device=old.device)]


@dataclass(slots=True)
class AttentionPass:
    """What the attention layers need to know of one pass over packed tokens."""

    rows: PackedSequences
    row: Tensor
    """[tokens]: the row of each."""
    place: Tensor
    """[tokens]: its index among the row's own tokens."""
    first: int
    """Smallest row of the pass; rows are consecutive."""
    count: int
    longest: int
    """Own tokens of the longest row, this pass included."""
    fresh: bool
    """The rows had no own tokens before this pass."""
    segments: list[tuple[SharedSegment, int, Tensor | None]]
    """Each with the index of its first token, and the tokens that come after it; None for all."""
    index: Tensor
    """[tokens]: the index of each in its whole prompt."""
    lowest: int
    """The smallest of them, known without asking the device."""
    highest: int
    layers: set[int] = field(default_factory=set)

    def attend(
        self, layer: int, query: Tensor, fresh: tuple[Tensor, Tensor], scale: float, window: int | None = None
    ) -> Tensor:
        """Attention of all tokens of the pass: [1, heads, tokens, width] -> [1, tokens, heads, width].

        Args:
            layer: whose turn it is.
            query: [1, heads, tokens, width].
            fresh: the tokens' own keys and values, each [1, key heads, tokens, width].
            scale: what scores are multiplied by.
            window: tokens that each token sees, itself included; None for all.

        Raises:
            LookupError: a segment lacks tokens that the layer must see.
        """
        self.layers.add(layer)
        key, value = (new[0].transpose(0, 1) for new in fresh)
        self.rows.write(layer, (self.row, self.place), key, value)
        own = self._own_fresh if self.fresh else self._own_later
        out, total = own(layer, query, scale, window)
        for segment, start, tokens in self.segments:
            if window is not None and self.lowest - window >= start + segment.length - 1:
                continue
            asking = query if tokens is None else query[:, :, tokens]
            seen = self._seen(segment, layer, start, tokens, window)
            part = _over_segment(asking, segment.keys[layer], segment.values[layer], scale, seen)
            if tokens is None:
                out, total = merge(part, (out, total))
            else:
                both = merge(part, (out[:, :, tokens], total[:, :, tokens]))
                out = out.float().index_copy(2, tokens, both[0])
                total = total.index_copy(2, tokens, both[1])
        return out.to(query.dtype).transpose(1, 2)

    def _seen(
        self, segment: SharedSegment, layer: int, start: int, tokens: Tensor | None, window: int | None
    ) -> Tensor | None:
        """[tokens, keys held]: which of a segment's keys are within each token's window; None when all are."""
        held = segment.keys[layer].shape[2]
        first = start + segment.length - held
        if held < segment.length and (window is None or held < window - 1):
            raise LookupError(f"layer {layer} holds {held} of {segment.length} tokens, too few for its window")
        if window is None or self.highest - window < first:
            return None
        index = self.index if tokens is None else self.index[tokens]
        keys = torch.arange(first, first + held, device=index.device)
        return keys > index[:, None] - window

    def _own_fresh(self, layer: int, query: Tensor, scale: float, window: int | None) -> tuple[Tensor, Tensor]:
        """Every row from its own beginning: rows side by side, the short ones padded at the end, causal."""
        heads, width = query.shape[1], query.shape[3]
        row = self.row - self.first
        lined = query.new_zeros(self.count, heads, self.longest, width)
        lined[row, :, self.place] = query[0].transpose(0, 1)
        here = slice(self.first, self.first + self.count)
        key, value = (
            store[layer][here, :, : self.longest].repeat_interleave(heads // store[layer].shape[1], dim=1)
            for store in (self.rows.keys, self.rows.values)
        )
        if window is None or self.longest <= window:
            out, total = attend(lined, key, value, scale, causal=True)
        else:
            place = torch.arange(self.longest, device=query.device)
            near = (place <= place[:, None]) & (place > place[:, None] - window)
            out, total = attend_seen(lined, key, value, scale, near)
        return (
            out[row, :, self.place].transpose(0, 1).unsqueeze(0),
            total[row, :, self.place].transpose(0, 1).unsqueeze(0),
        )

    def _own_later(self, layer: int, query: Tensor, scale: float, window: int | None) -> tuple[Tensor, Tensor]:
        """One new token a row, over the row's own tokens so far."""
        key = self.rows.keys[layer][:, :, : self.longest]
        value = self.rows.values[layer][:, :, : self.longest]
        rows, kv_heads = key.shape[:2]
        folded = query[0].transpose(0, 1).reshape(rows, kv_heads, -1, query.shape[3])
        scores = torch.matmul(folded, key.transpose(-1, -2)).float() * scale
        place = torch.arange(self.longest, device=query.device)
        unseen = place > self.place[:, None]
        if window is not None:
            unseen |= place <= self.place[:, None] - window
        scores = scores.masked_fill(unseen[:, None, None], float("-inf"))
        total = scores.logsumexp(-1)
        out = torch.matmul(torch.exp(scores - total.unsqueeze(-1)).to(value.dtype), value)
        shape = (rows, query.shape[1])
        return (
            out.reshape(*shape, -1).transpose(0, 1).unsqueeze(0),
            total.reshape(*shape).transpose(0, 1).unsqueeze(0),
        )


def _over_segment(
    query: Tensor, key: Tensor, value: Tensor, scale: float, seen: Tensor | None
) -> tuple[Tensor, Tensor]:
    """All queries over one shared segment; query heads that share a key head are laid end to end."""
    _, heads, tokens, width = query.shape
    folded = query.reshape(1, key.shape[1], -1, width)
    if seen is None:
        out, total = attend(folded, key, value, scale)
    else:
        out, total = attend_seen(folded, key, value, scale, seen.repeat(heads // key.shape[1], 1))
    return out.reshape(1, heads, tokens, width), total.reshape(1, heads, tokens)

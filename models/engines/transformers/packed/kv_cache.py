"""Cache of packed prompts: shared segments, each prompt's own keys, values and states, and attention over both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from models.engines.transformers.packed.attention import attend, attend_biased, merge, plain_attention
from models.errors import PrefixSharingUnsupportedError

_GROWTH = 64  # tokens by which the capacity grows when an answer needs more

State: TypeAlias = tuple[Tensor, ...]
"""What a layer of fixed memory keeps of all tokens, one entry a row: the convolution's last inputs, and for linear
attention the recurrent state; neither grows with the prompt."""


@dataclass(slots=True, eq=False)
class SharedSegment:
    """Keys and values, by layer, of tokens that several prompts share at the same position."""

    keys: dict[int, Tensor]  # each [1, key heads, tokens, width]; of the last tokens only in a sliding-window layer
    values: dict[int, Tensor]
    length: int  # tokens
    shift: int = 0  # added to a later token's index to get its position, in models with two-dimensional positions
    states: dict[int, State] = field(default_factory=dict)  # of other layers, after the last token

    @property
    def nbytes(self) -> int:
        """Return the memory held, in bytes."""
        return sum(int(t.nbytes) for t in (*self.keys.values(), *self.values.values())) + _state_bytes(self.states)


SegmentQueries: TypeAlias = tuple[SharedSegment, int, Tensor | slice | None]
"""A segment, the index of its first token, and the tokens of a pass that attend to it; None for all."""


@dataclass(slots=True)
class PackedSequences:
    """Prompts in progress: the segments each begins with, and the keys and values of its own tokens."""

    paths: list[tuple[SharedSegment, ...]]
    lengths: list[int]  # own tokens so far, by row; those of the segments excluded
    capacity: int  # own tokens that fit in each row
    keys: dict[int, Tensor] = field(default_factory=dict)  # layer -> [rows, key heads, capacity, width]
    values: dict[int, Tensor] = field(default_factory=dict)
    shifts: list[int] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)  # layer -> tensors [rows, ...], after each row's last token
    is_followed: bool = True  # further tokens may follow these, so that states are kept
    prefixes: list[int] = field(init=False)  # tokens of the segments, by row
    step_segments: list[SegmentQueries] | None = None  # those of a step, the same until rows are dropped
    graph: Callable[[Sequence[int]], Tensor] | None = None  # a recorded step; none after changes

    def __post_init__(self) -> None:
        self.prefixes = [sum(segment.length for segment in path) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the states of all rows."""
        return _state_bytes(self.states)

    def position(self, row: int) -> int:
        """Return the position of the row's own token 0."""
        return self.prefixes[row] + self.shifts[row]

    def segments(self, row: Tensor, rows: range, *, is_step: bool) -> list[SegmentQueries]:
        """Return the segments of a pass over tokens of these rows; a step has one token of every row."""
        if is_step and self.step_segments is not None:
            return self.step_segments
        starts: dict[SharedSegment, int] = {}
        users: dict[SharedSegment, list[int]] = {}
        for index in rows:
            start = 0
            for segment in self.paths[index]:
                starts[segment] = start
                users.setdefault(segment, []).append(index)
                start += segment.length
        queries: list[SegmentQueries] = []
        for segment, indices in users.items():
            tokens: Tensor | slice | None = None
            if is_step and indices[-1] - indices[0] + 1 == len(indices) < len(rows):
                tokens = slice(indices[0], indices[-1] + 1)
            elif len(indices) < len(rows):
                tokens = torch.isin(row, torch.tensor(indices, device=row.device)).nonzero().flatten()
            queries.append((segment, starts[segment], tokens))
        self.step_segments = queries if is_step else None
        return queries

    def write(self, layer: int, at: tuple[Tensor, Tensor], key: Tensor, value: Tensor) -> None:
        """Store keys and values [tokens, key heads, width] at the (row, offset) of each token."""
        for store, new in ((self.keys, key), (self.values, value)):
            if layer not in store:
                store[layer] = new.new_zeros(len(self), new.shape[1], self.capacity, new.shape[2])
            store[layer][at[0], :, at[1]] = new

    def initial_state(self, layer: int, rows: slice) -> State | None:
        """Return copies of the states that a layer starts these rows' own tokens with; None where nothing precedes."""
        ends = [path[-1] if path else None for path in self.paths[rows]]
        distinct = list(dict.fromkeys(ends))
        template = next((segment.states[layer] for segment in distinct if segment is not None), None)
        if template is None:
            return None
        index = torch.tensor([distinct.index(end) for end in ends], device=template[0].device)
        sources = [tuple(map(torch.zeros_like, template)) if end is None else end.states[layer] for end in distinct]
        return tuple(torch.cat(parts).index_select(0, index) for parts in zip(*sources, strict=True))

    def write_state(self, layer: int, rows: slice, state: State) -> None:
        """Store the states [rows, ...] of a layer after the last token of these rows."""
        if not self.is_followed:
            return
        if rows == slice(0, len(self)):
            self.states[layer] = state
            return
        if layer not in self.states:
            self.states[layer] = tuple(part.new_zeros(len(self), *part.shape[1:]) for part in state)
        for stored, part in zip(self.states[layer], state, strict=True):
            stored[rows] = part

    def reserve(self, capacity: int, growth: int = _GROWTH) -> None:
        """Grow to fit `capacity` own tokens in each row, and `growth` more where it does not."""
        if capacity <= self.capacity:
            return
        self.capacity, self.graph = capacity + growth, None
        for store in (self.keys, self.values):
            for layer, old in store.items():
                new = old.new_zeros(*old.shape[:2], self.capacity, old.shape[3])
                new[:, :, : old.shape[2]] = old
                store[layer] = new

    def join(self, other: PackedSequences) -> PackedSequences:
        """Return these rows and then those of the other; both are used up."""
        if not len(self) or not len(other):
            return self if len(self) else other
        capacity = max(self.capacity, other.capacity)
        for rows in (self, other):
            rows.graph = None
            rows.reserve(capacity, growth=0)

        def both(a: Mapping[int, Tensor], b: Mapping[int, Tensor]) -> dict[int, Tensor]:
            return {layer: torch.cat([a[layer], b[layer]]) for layer in a}

        return PackedSequences(
            self.paths + other.paths,
            self.lengths + other.lengths,
            capacity,
            keys=both(self.keys, other.keys),
            values=both(self.values, other.values),
            shifts=self.shifts + other.shifts,
            states={n: tuple(map(torch.cat, zip(s, other.states[n], strict=True))) for n, s in self.states.items()},
        )

    def by_path(self, rows: Sequence[int]) -> list[int]:
        """Return these rows with those of each segment in succession, which a step then reads as views."""
        ranks: dict[SharedSegment, int] = {}
        for segment in itertools.chain.from_iterable(self.paths):
            ranks.setdefault(segment, len(ranks))
        return sorted(rows, key=lambda row: [ranks[segment] for segment in self.paths[row]])

    def keep(self, rows: list[int]) -> None:
        """Drop all rows but these, and take their order."""
        if rows == [*range(len(self))]:
            return
        self.paths = [self.paths[row] for row in rows]
        self.lengths = [self.lengths[row] for row in rows]
        self.shifts = [self.shifts[row] for row in rows]
        self.prefixes = [self.prefixes[row] for row in rows]
        self.step_segments = self.graph = None
        index = torch.tensor(rows, dtype=torch.int64)
        for store in (self.keys, self.values):
            for layer, old in store.items():
                store[layer] = old[index.to(old.device)]
        for layer, state in self.states.items():
            self.states[layer] = tuple(part[index.to(part.device)] for part in state)


def _state_bytes(states: Mapping[int, State]) -> int:
    return sum(int(part.nbytes) for state in states.values() for part in state)


@dataclass(slots=True)
class AttentionPass:
    """State of one forward pass over packed tokens, for the attention layers."""

    rows: PackedSequences
    row: Tensor  # [tokens]: the row of each
    offset: Tensor  # [tokens]: its index among the row's own tokens
    first: int  # smallest row of the pass; rows are consecutive
    count: int
    longest: int  # own tokens of the longest row, this pass included
    fresh: bool  # the rows had no own tokens before this pass
    segments: list[SegmentQueries]
    last_segments: list[SegmentQueries]  # in the last layer: without tokens whose logits nobody reads
    last_layer: int
    index: Tensor  # [tokens]: the index of each in its whole prompt
    lowest: int  # minimum of `index`, known without a device synchronization
    highest: int
    sources: Mapping[int, int]  # layer -> the earlier layer whose keys and values it reads, where not its own
    layers: set[int] = field(default_factory=set)
    biases: dict[tuple[int | None, torch.dtype], Tensor] = field(default_factory=dict)

    @property
    def pass_rows(self) -> slice:
        """Return the rows of the pass."""
        return slice(self.first, self.first + self.count)

    def attend(
        self, layer: int, query: Tensor, fresh: tuple[Tensor, Tensor], scale: float, window: int | None = None
    ) -> Tensor:
        """Attend for all tokens of the pass: [1, heads, tokens, width] -> [1, tokens, heads, width].

        `fresh` holds the tokens' own keys and values, each [1, key heads, tokens, width]; each token attends to
        `window` tokens, itself included, or to all; in the last layer only tokens whose logits are read attend to the
        segments, and the results of others are meaningless. A segment that lacks tokens within the window raises
        `PrefixSharingUnsupportedError`.
        """
        self.layers.add(layer)
        segments = self.last_segments if layer == self.last_layer else self.segments
        if layer in self.sources:
            layer = self.sources[layer]
        else:
            key, value = (new[0].transpose(0, 1) for new in fresh)
            self.rows.write(layer, (self.row, self.offset), key, value)
        attend_own = self._attend_prefill if self.fresh else self._attend_step
        out, total = attend_own(layer, query, scale, window)
        for segment, start, tokens in segments:
            if window is not None and self.lowest - window >= start + segment.length - 1:
                continue
            queries = query if tokens is None else query[:, :, tokens]
            mask = self._window_mask(segment, layer, start, tokens, window)
            part = _attend_segment(queries, segment.keys[layer], segment.values[layer], scale, mask)
            if tokens is None:
                out, total = merge(part, (out, total))
            else:
                merged = merge(part, (out[:, :, tokens], total[:, :, tokens]))
                out = out.float()
                out[:, :, tokens], total[:, :, tokens] = merged
        return out.to(query.dtype).transpose(1, 2)

    def _window_mask(
        self, segment: SharedSegment, layer: int, start: int, tokens: Tensor | slice | None, window: int | None
    ) -> Tensor | None:
        """Return [tokens, stored keys]: which of a segment's keys are in each token's window; None when all are."""
        stored = segment.keys[layer].shape[2]
        first = start + segment.length - stored
        if stored < segment.length and (window is None or stored < window - 1):
            raise PrefixSharingUnsupportedError(
                f"layer {layer} holds {stored} of {segment.length} tokens, too few for its window"
            )
        if window is None or self.highest - window < first:
            return None
        index = self.index if tokens is None else self.index[tokens]
        keys = torch.arange(first, first + stored, device=index.device)
        return keys > index[:, None] - window

    def _attend_prefill(self, layer: int, query: Tensor, scale: float, window: int | None) -> tuple[Tensor, Tensor]:
        """Attend to each row's own tokens from its start: a causal batch, short rows padded at the end."""
        heads, width = query.shape[1], query.shape[3]
        row = self.row - self.first
        batch = query.new_zeros(self.count, heads, self.longest, width)
        batch[row, :, self.offset] = query[0].transpose(0, 1)
        key, value = (
            store[layer][self.pass_rows, :, : self.longest].repeat_interleave(heads // store[layer].shape[1], dim=1)
            for store in (self.rows.keys, self.rows.values)
        )
        if window is None or self.longest <= window:
            out, total = attend(batch, key, value, scale, causal=True)
        else:
            offsets = torch.arange(self.longest, device=query.device)
            in_window = (offsets <= offsets[:, None]) & (offsets > offsets[:, None] - window)
            out, total = plain_attention(batch, key, value, scale, mask=in_window)
        return (
            out[row, :, self.offset].transpose(0, 1).unsqueeze(0),
            total[row, :, self.offset].transpose(0, 1).unsqueeze(0),
        )

    def _attend_step(self, layer: int, query: Tensor, scale: float, window: int | None) -> tuple[Tensor, Tensor]:
        key = self.rows.keys[layer][:, :, : self.longest]
        value = self.rows.values[layer][:, :, : self.longest]
        rows, kv_heads = key.shape[:2]
        folded = query[0].transpose(0, 1).reshape(rows, kv_heads, -1, query.shape[3])
        out, total = attend_biased(folded, key, value, scale, self._own_bias(window, query.dtype))
        shape = (rows, query.shape[1])
        return (
            out.reshape(*shape, -1).transpose(0, 1).unsqueeze(0),
            total.reshape(*shape).transpose(0, 1).unsqueeze(0),
        )

    def _own_bias(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return [rows, 1, 1, keys], minus infinity at keys that a row's token must not see; made once a step."""
        if (window, dtype) not in self.biases:
            offsets = torch.arange(self.longest, device=self.offset.device)
            hidden = offsets > self.offset[:, None]
            if window is not None:
                hidden |= offsets <= self.offset[:, None] - window
            bias = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
            self.biases[window, dtype] = bias[:, None, None]
        return self.biases[window, dtype]


def _attend_segment(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attend with all queries to one shared segment; query heads that share a key head are concatenated."""
    _, heads, tokens, width = query.shape
    folded = query.reshape(1, key.shape[1], -1, width)
    if mask is None:
        out, total = attend(folded, key, value, scale)
    else:
        out, total = plain_attention(folded, key, value, scale, mask=mask.repeat(heads // key.shape[1], 1))
    return out.reshape(1, heads, tokens, width), total.reshape(1, heads, tokens)

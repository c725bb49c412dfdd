"""A language model on packed rows: many prompts in one sequence of tokens, no padding, shared prefixes stored once."""

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from models.engines.transformers.memory import chunk_ranges
from models.engines.transformers.model_config import key_sources, layer_kinds
from models.engines.transformers.packed.kv_cache import AttentionPass, PackedSequences, SegmentQueries, SharedSegment
from models.engines.transformers.packed.long_prefix import in_passes
from models.engines.transformers.packed.mixers import Mixers
from models.engines.transformers.packed.step_graph import StepGraphs, may_be_recorded
from models.errors import PrefixSharingUnsupportedError

_NAME = "vlmsweep_packed"
_IGNORED_ARGUMENTS = frozenset(
    {
        *("dropout", "position_ids", "is_causal", "use_cache", "cache_position"),
        *("output_attentions", "output_hidden_states", "output_router_logits", "logits_to_keep"),
    }
)


def _packed_attention(  # noqa: PLR0913  # the signature that transformers calls
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    packed_step: AttentionPass | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend for one layer; active only inside `PackedModel`."""
    if packed_step is None:
        raise PrefixSharingUnsupportedError(f"{type(module).__name__} does not forward keyword arguments")
    unsupported = sorted(name for name, value in more.items() if value is not None and name not in _IGNORED_ARGUMENTS)
    if attention_mask is not None:
        unsupported.append("attention_mask")
    if unsupported:
        raise PrefixSharingUnsupportedError(f"{type(module).__name__} uses {', '.join(unsupported)}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed_step.attend(module.layer_idx, query, (key, value), scale, sliding_window), None


class PackedModel:
    """A causal language model, or the language part of a vision-language model, on packed rows."""

    def __init__(self, model: Any, device: torch.device, *, records_steps: bool = True) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(_NAME, _packed_attention)
        self._model = model
        self._device = device
        self._decoder = model.get_decoder()
        if not hasattr(getattr(self._decoder, "config", None), "num_hidden_layers"):
            raise PrefixSharingUnsupportedError("its language model was not found")
        self._layers = int(self._decoder.config.num_hidden_layers)
        self._mixers = Mixers(self._decoder, on_gpu=device.type == "cuda")
        self.pass_tokens: int | None = None  # the most of a prefix in one pass
        self.state_bytes = 0  # of the states of one row, known after the first pass
        self._sources = key_sources(self._decoder.config)
        self.pads_at_end = {*layer_kinds(self._decoder.config)} <= {"full_attention"} and not getattr(
            self._decoder.config, "sliding_window", None
        )
        """Nothing that a prefix leaves depends on padding after it: windows and states hold the last tokens."""
        # Ranks would have to record together.
        is_alone = device.type == "cuda" and {weight.device for weight in model.parameters()} == {device}
        is_recordable = not torch.distributed.is_initialized() and may_be_recorded(model.config, self._decoder.config)
        self._graphs = StepGraphs(device, is_on=records_steps and is_alone and is_recordable)
        self._last_mlp = getattr(getattr(self._decoder, "layers", [None])[-1], "mlp", None)
        # BLIP-2 requires pixels in every pass; its language model does not.
        self._text_model = model.language_model if model.config.model_type == "blip-2" else model
        self.has_own_positions = hasattr(getattr(model, "model", None), "get_rope_index")
        """Pixels take positions other than their index: the position after them is known from the next token."""

    def text_after_pixels(self, ids: Sequence[int], inputs: Mapping[str, Tensor]) -> tuple[int, int]:
        """Return where a prompt's plain text after all pixels starts, and its positions' difference to its indices."""
        tokens = torch.tensor([ids], device=self._device)
        positions = self._model.model.get_rope_index(input_ids=tokens, **inputs)[0][-3:, 0]
        differences = positions - torch.arange(len(ids), device=positions.device)
        others = (differences != differences[0, -1]).any(0).nonzero()
        return int(others.max()) + 1 if len(others) else 0, int(differences[0, -1])

    def encode(
        self, ids: Sequence[int], inputs: Mapping[str, Tensor], shift: int | None = None
    ) -> tuple[SharedSegment, Tensor]:
        """Prefill a prefix as `encode_batch` does; return what it leaves, and the next token's logits [vocabulary]."""
        (segment,), logits = self.encode_batch(torch.tensor([ids]), [len(ids)], inputs, [shift])
        return segment, logits[0]

    def encode_batch(
        self, ids: Tensor, lengths: Sequence[int], inputs: Mapping[str, Tensor], shifts: Sequence[int | None]
    ) -> tuple[list[SharedSegment], Tensor]:
        """Prefill prefixes; return what each leaves in each layer, and the logits [prompts, vocabulary] at the width.

        A cache that holds anything else than keys, values and known states raises `PrefixSharingUnsupportedError`.

        Args:
            ids: [prompts, width], those of the pixels included, padded at the end.
            lengths: tokens of each prefix; all equal unless `pads_at_end`.
            inputs: the pixels and further tensors per token, [prompts, width, ...].
            shifts: those of the text that follows, where the last token's position does not tell.
        """
        from transformers import DynamicCache

        ids = ids.to(self._device)
        ends = torch.tensor(lengths, device=self._device)
        # Granite returns the cache that it is given, and none by itself; BLIP-2 takes none.
        cache = (
            {} if self._text_model is not self._model else {_cache_name(): DynamicCache(config=self._decoder.config)}
        )
        with self._record_positions() as positions, in_passes(self._decoder, self.pass_tokens or ids.shape[1]):
            out = self._model(
                input_ids=ids,
                attention_mask=(torch.arange(ids.shape[1], device=self._device) < ends[:, None]).long(),
                use_cache=True,
                logits_to_keep=1,
                **cache,
                **inputs,
            )
        out = getattr(out, "language_model_outputs", None) or out
        layers = out[_cache_name()].layers
        segments = [
            self._segment(layers, row, length, _shift(positions, row, length) if shift is None else shift)
            for row, (length, shift) in enumerate(zip(lengths, shifts, strict=True))
        ]
        return segments, out.logits[:, -1]

    def _segment(self, layers: Sequence[Any], row: int, length: int, shift: int) -> SharedSegment:
        """Return what a prefix left in the cache's layers; a kind that is not known here cannot be shared."""
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer

        states = {
            n: self._mixers.state(n, layer, row)
            for n, layer in enumerate(layers)
            if type(layer) is LinearAttentionLayer
        }
        with_keys = {
            n: layer for n, layer in enumerate(layers) if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer)
        }
        if {*states, *with_keys, *self._sources} != {*range(self._layers)} or len(layers) != self._layers:
            names = ", ".join(sorted({type(layer).__name__ for layer in layers}))
            raise PrefixSharingUnsupportedError(f"the cache has {len(layers)} layers of {names}")
        return SharedSegment(
            {n: _row(layer.keys, row, length) for n, layer in with_keys.items()},
            {n: _row(layer.values, row, length) for n, layer in with_keys.items()},
            length=length,
            shift=shift,
            states=states,
        )

    def extend(self, path: tuple[SharedSegment, ...], ids: Sequence[int]) -> SharedSegment:
        """Prefill tokens after the segments of a path; return their segment."""
        rows, _ = self.start([path], [ids], capacity=len(ids), chunk=len(ids))
        shift = path[-1].shift if path else 0
        return SharedSegment(rows.keys, rows.values, length=len(ids), shift=shift, states=rows.states)

    def start(
        self,
        paths: Sequence[tuple[SharedSegment, ...]],
        tails: Sequence[Sequence[int]],
        *,
        capacity: int,
        chunk: int,
        is_followed: bool = True,
    ) -> tuple[PackedSequences, Tensor]:
        """Prefill every prompt's own tokens; return the rows and the logits [rows, vocabulary] of their next tokens.

        Args:
            paths: segments that precede each prompt's tokens.
            tails: the tokens that follow, at least one per prompt.
            capacity: own tokens to allocate, answers included.
            chunk: tokens in one pass; a longer tail is a pass by itself.
            is_followed: whether further tokens follow; else the rows keep no states.
        """
        rows = _empty_rows(paths, capacity, is_followed=is_followed)
        spans = [range(len(tail) - 1, len(tail)) for tail in tails]
        logits = [part for _, part in self._prefill(rows, tails, spans, chunk)]
        self.state_bytes = self.state_bytes or rows.state_bytes // len(rows)
        return rows, torch.cat(logits)

    def score(
        self,
        paths: Sequence[tuple[SharedSegment, ...]],
        tails: Sequence[Sequence[int]],
        counts: Sequence[int],
        *,
        chunk: int,
    ) -> Tensor:
        """Return the summed log-probabilities [rows], nats in float64, of the last `counts` tokens of each tail.

        Each tail has at least one token more than are scored; the rest is as in `start`.
        """
        rows = _empty_rows(paths, max(map(len, tails)), is_followed=False)
        sums: list[Tensor] = []
        spans = [range(len(tail) - count - 1, len(tail) - 1) for tail, count in zip(tails, counts, strict=True)]
        for indices, logits in self._prefill(rows, tails, spans, chunk):
            scored = [token for index in indices for token in tails[index][spans[index].start + 1 :]]
            targets = torch.tensor(scored, device=logits.device)[:, None]
            logprobs = torch.log_softmax(logits.float(), -1).gather(-1, targets)[:, 0]
            sums += [part.double().sum() for part in logprobs.split([counts[index] for index in indices])]
        return torch.stack(sums)

    def _prefill(
        self, rows: PackedSequences, tails: Sequence[Sequence[int]], spans: Sequence[range], chunk: int
    ) -> Iterator[tuple[range, Tensor]]:
        """Prefill the rows' own tokens; yield the rows of each pass with the logits at the `spans` of their tails."""
        for first, last in chunk_ranges([len(tail) for tail in tails], chunk):
            lengths = [len(tail) for tail in tails[first:last]]
            row = torch.repeat_interleave(torch.arange(first, last), torch.tensor(lengths))
            offset = torch.cat([torch.arange(length) for length in lengths])
            ids = torch.tensor([token for tail in tails[first:last] for token in tail])
            starts = [0, *itertools.accumulate(lengths)]
            positions = torch.tensor(
                [start + index for start, span in zip(starts, spans[first:last], strict=False) for index in span]
            )
            ends = positions.to(self._device)
            step = self._step(rows, row, offset, ends=ends)
            logits = self._run(ids, step, ends, self._starts(step))
            rows.lengths[first:last] = lengths
            yield range(first, last), logits

    def adopt(self, segments: Sequence[SharedSegment], *, capacity: int) -> PackedSequences:
        """Return rows whose own tokens are these segments: prompts that share nothing, prefilled one by one."""
        lengths = [segment.length for segment in segments]
        rows = PackedSequences(
            [()] * len(lengths), lengths, max(capacity, *lengths), shifts=[s.shift for s in segments]
        )
        for index, segment in enumerate(segments):
            for layer, key in segment.keys.items():
                offset = torch.arange(segment.length - key.shape[2], segment.length, device=self._device)
                row = torch.full_like(offset, index)
                rows.write(layer, (row, offset), key[0].transpose(0, 1), segment.values[layer][0].transpose(0, 1))
            for layer, state in segment.states.items():
                rows.write_state(layer, slice(index, index + 1), tuple(part.clone() for part in state))
        return rows

    def unshare(self, rows: PackedSequences, *, answer_tokens: int) -> PackedSequences:
        """Return rows, each after a segment of its own, with that segment's keys before their own tokens.

        One product attends to the keys of all rows then, not one for each segment; there is room for answers of so many
        tokens.
        """
        lengths = [prefix + length for prefix, length in zip(rows.prefixes, rows.lengths, strict=True)]
        joined = self.adopt([path[0] for path in rows.paths], capacity=max(lengths) + answer_tokens)
        starts = torch.tensor(rows.prefixes, device=self._device)
        counts = torch.tensor(rows.lengths, device=self._device)
        row, offset = (torch.arange(max(rows.lengths), device=self._device) < counts[:, None]).nonzero(as_tuple=True)
        for layer, key in rows.keys.items():
            joined.write(layer, (row, starts[row] + offset), key[row, :, offset], rows.values[layer][row, :, offset])
        joined.lengths, joined.states = lengths, rows.states
        return joined

    def step(self, rows: PackedSequences, tokens: Sequence[int]) -> Tensor:
        """Append one token to every row; return the logits [rows, vocabulary] of the next."""
        rows.reserve(max(rows.lengths) + 1)
        if rows.graph is None:
            is_first = rows.step_segments is None  # it prepares what a graph must not: segments, states, libraries
            step = self._step(rows, torch.arange(len(rows)), torch.tensor(rows.lengths), ends=None)
            starts = self._starts(step)

            def run(ids: Tensor, offset: Tensor) -> Tensor:
                index = step.index - step.offset + offset
                any_step = replace(
                    step, offset=offset, index=index, longest=rows.capacity, lowest=0, highest=sys.maxsize, biases={}
                )
                return self._run(ids, any_step, None, starts)

            rows.graph = None if is_first else self._graphs.record(rows, tokens, run)
        logits = rows.graph(tokens) if rows.graph else self._run(torch.tensor(tokens), step, None, starts)
        rows.lengths = [length + 1 for length in rows.lengths]
        return logits

    def _step(self, rows: PackedSequences, row: Tensor, offset: Tensor, *, ends: Tensor | None) -> AttentionPass:
        """Describe a pass over tokens; `ends` are those whose logits are read when rows are fresh, None for a step."""
        first, last = int(row[0]), int(row[-1])
        segments = rows.segments(row.to(self._device), range(first, last + 1), is_step=ends is None)
        position = torch.tensor(rows.prefixes)[row] + offset
        return AttentionPass(
            rows=rows,
            row=row.to(self._device),
            offset=offset.to(self._device),
            first=first,
            count=last - first + 1,
            longest=int(offset.max()) + 1,
            fresh=ends is not None,
            segments=segments,
            last_segments=segments if ends is None else [_read_at(ends, segment) for segment in segments],
            last_layer=self._layers - 1,
            index=position.to(self._device),
            lowest=int(position.min()),
            highest=int(position.max()),
            sources=self._sources,
        )

    def _starts(self, step: AttentionPass) -> Tensor:
        """Return the position of the own token 0 of each token's row."""
        starts = torch.tensor([step.rows.position(row) for row in range(len(step.rows))], device=self._device)
        return starts[step.row]

    def _run(self, ids: Tensor, step: AttentionPass, ends: Tensor | None, starts: Tensor) -> Tensor:
        with self._packed_attention(), self._mixers.on_packed_rows(step), self._last_mlp_on(ends):
            out = self._text_model(
                input_ids=ids[None].to(self._device),
                position_ids=(starts + step.offset)[None],
                use_cache=False,
                logits_to_keep=0 if ends is None else ends,
                packed_step=step,
            )
        if len(step.layers) != self._layers:
            raise PrefixSharingUnsupportedError(f"{len(step.layers)} of {self._layers} layers used packed rows")
        logits: Tensor = out.logits[0]
        # MiniCPM-V 4.6 computes the logits of all tokens, whatever is asked for.
        return logits if ends is None or len(logits) == len(ends) else logits[ends]

    @contextmanager
    def _record_positions(self) -> Iterator[list[Tensor]]:
        positions: list[Tensor] = []

        def record(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
            if kwargs.get("position_ids") is not None:
                positions.append(kwargs["position_ids"])

        hook = self._decoder.register_forward_pre_hook(record, with_kwargs=True)
        try:
            yield positions
        finally:
            hook.remove()

    @contextmanager
    def _last_mlp_on(self, ends: Tensor | None) -> Iterator[None]:
        """Run the last layer's feed-forward network on these tokens alone: nobody reads the other results."""
        if ends is None or not isinstance(self._last_mlp, torch.nn.Module):
            yield
            return
        forward = self._last_mlp.forward

        def forward_ends(hidden: Tensor, *by_token: Tensor | None) -> Any:
            selected = (None if tensor is None else tensor[:, ends] for tensor in by_token)
            out = forward(hidden[:, ends], *selected)
            result, more = (out[0], out[1:]) if isinstance(out, tuple) else (out, ())  # ERNIE's adds router logits
            result = torch.zeros_like(hidden).index_copy_(1, ends, result)
            return (result, *more) if more else result

        self._last_mlp.forward = forward_ends
        try:
            yield
        finally:
            del self._last_mlp.forward

    @contextmanager
    def _packed_attention(self) -> Iterator[None]:
        """Replace the language model's attention for one pass; the vision tower keeps its own."""
        config = self._decoder.config
        original = config._attn_implementation  # noqa: SLF001  # the switch itself; its setter walks over all parts
        config._attn_implementation = _NAME  # noqa: SLF001
        try:
            yield
        finally:
            config._attn_implementation = original  # noqa: SLF001


def _empty_rows(paths: Sequence[tuple[SharedSegment, ...]], capacity: int, *, is_followed: bool) -> PackedSequences:
    shifts = [path[-1].shift if path else 0 for path in paths]
    lengths = [0] * len(paths)
    return PackedSequences([tuple(path) for path in paths], lengths, capacity, shifts=shifts, is_followed=is_followed)


def _read_at(ends: Tensor, queries: SegmentQueries) -> SegmentQueries:
    """Return a segment's queries without tokens whose logits nobody reads."""
    segment, start, tokens = queries
    return segment, start, ends[torch.isin(ends, tokens)] if isinstance(tokens, Tensor) else ends


def _row(stored: Tensor, row: int, length: int) -> Tensor:
    """Return a prompt's part of a layer's keys or values, in memory of its own.

    A sliding-window layer returns a view of all tokens: the copy releases those outside of the window.
    """
    if len(stored) == 1:
        return stored.contiguous()
    return stored[row : row + 1, :, :length].clone(memory_format=torch.contiguous_format)


def _shift(positions: Sequence[Tensor], row: int, length: int) -> int:
    """Return the difference between position and index of the token after a prefix of text and pixels.

    Pixels take fewer positions than tokens in models that count rows and columns. `generate` increments positions by
    one from the prompt's last token; `rope_deltas` would jump past a clip's last moment.
    """
    if not positions:
        return 0
    row_positions = positions[-1]
    last = row_positions[..., min(row, row_positions.shape[-2] - 1), length - 1].flatten()[-3:]
    if not bool((last == last[0]).all()):
        raise ValueError("the shared prefix ends inside a picture or clip")
    return int(last[0]) + 1 - length


def _cache_name() -> str:
    """Return how models call their cache: `cache` from transformers 5.24 on, `past_key_values` before."""
    from transformers.modeling_outputs import BaseModelOutputWithPast

    names = {field.name for field in fields(BaseModelOutputWithPast)}
    return "cache" if "cache" in names else "past_key_values"

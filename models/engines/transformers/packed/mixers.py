"""Layers that keep a state of fixed size instead of keys and values, on packed rows: linear attention, convolutions.

Rows are computed as one batch, short ones padded at the end, where nothing that is read depends on the padding. The
states after a row's own last token are exact: gates are closed for padded tokens, and a convolution's inputs are read
at the row's end.
"""

import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from models.engines.transformers.model_config import STATE_LAYERS, layer_kinds
from models.engines.transformers.packed.kv_cache import AttentionPass, State
from models.errors import PrefixSharingUnsupportedError

_GATES = ("in_proj_a", "in_proj_b")  # of the gated delta rule: minus infinity neither decays nor writes the state
_RULES = ("torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule")  # for one token, and for several
_CHUNK = 32  # tokens whose changes of a state are solved at once
_CACHES = ("cache", "cache_params", "past_key_values")  # names that the layers' modules have for their cache


class _RowStates:
    """What the module of such a layer asks of transformers' cache, for rows of different lengths."""

    def __init__(self, state: State | None, lengths: Tensor | None) -> None:
        """Begin with a state; `lengths` are the rows' tokens, None where each has one."""
        self._conv, self._recurrent = ((*(state or ()), None, None))[:2]
        self._lengths = lengths

    @property
    def state(self) -> State:
        """Return the states after each row's last token."""
        return tuple(part for part in (self._conv, self._recurrent) if part is not None)

    # transformers 5.17 asks for its cache's layers, of which this one is all; later versions ask as below.
    record_past = False

    def has_previous_state(self, layer_idx: int, state_idx: int = 0) -> bool:
        del layer_idx, state_idx
        return self._conv is not None

    @property
    def layers(self) -> "defaultdict[int, _RowStates]":
        return defaultdict(lambda: self)

    @property
    def conv_states(self) -> tuple[Tensor | None]:
        return (self._conv,)

    @property
    def recurrent_states(self) -> tuple[Tensor | None]:
        return (self._recurrent,)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        del layer_idx, state_idx
        return self._conv

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        del layer_idx, state_idx
        return self._recurrent

    def is_recording_past(self, layer_idx: int) -> bool:
        del layer_idx
        return False

    def update_conv_state(self, conv_states: Tensor, layer_idx: int, *, conv_kernel_size: int, **_: Any) -> Tensor:
        del layer_idx
        if self._conv is None:
            self._conv = conv_states.new_zeros(*conv_states.shape[:2], conv_kernel_size)
        full = torch.cat([self._conv, conv_states], -1)
        if self._lengths is None:
            self._conv = full[..., -conv_kernel_size:]
            return full
        index = self._lengths[:, None] + torch.arange(conv_kernel_size, device=full.device)
        self._conv = full.gather(-1, index[:, None].expand(-1, full.shape[1], -1))
        return full

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, **_: Any) -> Tensor:
        del layer_idx
        self._recurrent = recurrent_states
        return recurrent_states


class Mixers:
    """The modules of a language model's layers that keep a state."""

    def __init__(self, decoder: Any, *, on_gpu: bool) -> None:
        states = (n for n, kind in enumerate(layer_kinds(decoder.config)) if kind in STATE_LAYERS)
        self._modules = {n: _mixer(decoder.layers[n], n) for n in states}
        self._cache_names = {n: _cache_name(module) for n, module in self._modules.items()}
        files = {type(module).__module__ for module in self._modules.values()}
        namespaces = [vars(sys.modules[file]) for file in sorted(files)]
        rules = () if on_gpu and importlib.util.find_spec("fla") else _RULES  # compiled ones, which are faster
        self._rules = [(names, rule, names[rule]) for names in namespaces for rule in rules if rule in names]

    def state(self, layer: int, cached: Any, row: int) -> State:
        """Return the state that a prefix left in a layer of transformers' cache, in memory of its own."""
        conv, recurrent = cached.conv_states.get(0), cached.recurrent_states.get(0)
        module = self._modules.get(layer)
        has_gates = all(hasattr(module, name) for name in _GATES)
        if module is None or conv is None or cached.number_of_states != 1 or (recurrent is not None and not has_gates):
            raise PrefixSharingUnsupportedError(f"the state of {type(module).__name__} after a prefix is not shared")
        parts = (conv,) if recurrent is None else (conv, recurrent)
        return parts if len(conv) == 1 else tuple(part[row : row + 1].clone() for part in parts)

    @contextmanager
    def on_packed_rows(self, step: AttentionPass) -> Iterator[None]:
        """Let the modules compute one pass over packed tokens, each row from its own state."""
        for layer, module in self._modules.items():
            module.forward = partial(_mix, step, layer, module, self._cache_names[layer])
        for names, rule, _ in self._rules:
            names[rule] = delta_rule
        try:
            yield
        finally:
            for names, rule, original in self._rules:
                names[rule] = original
            for module in self._modules.values():
                del module.forward  # the instance's: its class has the module's own


def delta_rule(  # noqa: PLR0913  arguments of the functions that it stands in for
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Compute the gated delta rule for the tokens of each row, with given states changed in place.

    Query and key are [rows, tokens, key heads, width], the value likewise by value heads, gates [rows, tokens, value
    heads] and states [rows, value heads, width of keys, width of values] in float32. Returns the output, shaped like
    the value, and the states. The result is that of transformers, which pads rows to chunks of 64 and holds seven
    tensors of keys for each value head; a step passes four times over the states, the largest tensors by far.
    """
    repeats, width = value.shape[2] // key.shape[2], key.shape[-1]
    queries, keys = (part.float().transpose(1, 2) for part in (query, key))
    if use_qk_l2norm_in_kernel:
        queries, keys = (p * torch.rsqrt(p.square().sum(-1, keepdim=True) + 1e-6) for p in (queries, keys))
    queries = queries / width**0.5
    values, gates, rates = (part.float().transpose(1, 2) for part in (value, g, beta))
    states = values.new_zeros(*values.shape[:2], width, value.shape[-1]) if initial_state is None else initial_state
    outs = []
    for start in range(0, values.shape[2], _CHUNK):
        at = slice(start, start + _CHUNK)
        q, k, total, rate = queries[:, :, at], keys[:, :, at], gates[:, :, at].cumsum(-1), rates[:, :, at, None]
        later = torch.ones(2 * total.shape[-1:], dtype=torch.bool, device=total.device).triu(1)
        fade = (total[..., None] - total[..., None, :]).masked_fill_(later, float("-inf")).exp_()
        since, until = total.exp()[..., None], (total[..., -1:] - total).exp_()[..., None]
        q, k, by_query, by_key = (p.repeat_interleave(repeats, 1) for p in (q, k, q @ k.mT, k @ k.mT))
        change = (values[:, :, at] - (k @ states) * since) * rate
        if len(later) > 1:
            change = torch.linalg.solve_triangular(by_key * fade * rate, change, upper=False, unitriangular=True)
        outs.append((q @ states) * since + (by_query * fade) @ change)
        states *= since[..., -1:, :]
        states.flatten(0, 1).baddbmm_((k * until).mT.flatten(0, 1), change.flatten(0, 1))
    return torch.cat(outs, 2).transpose(1, 2).to(query.dtype), states


def _mixer(layer: Any, index: int) -> Any:
    modules = [m for m in layer.children() if getattr(m, "layer_idx", None) == index and hasattr(m, "conv_kernel_size")]
    if len(modules) != 1:
        raise PrefixSharingUnsupportedError(f"layer {index} has {len(modules)} modules with a convolution, not one")
    return modules[0]


def _cache_name(module: Any) -> str:
    name = next((name for name in _CACHES if name in inspect.signature(module.forward).parameters), None)
    if name is None:
        raise PrefixSharingUnsupportedError(f"{type(module).__name__} takes no cache")
    return name


def _mix(step: AttentionPass, layer: int, module: Any, cache_name: str, hidden_states: Tensor, **_: Any) -> Tensor:
    """Compute a layer for all tokens of a pass, [1, tokens, width], and store its state after each row's last one."""
    step.layers.add(layer)
    row = step.row - step.first
    if step.fresh:
        batch = hidden_states.new_zeros(step.count, step.longest, hidden_states.shape[-1])
        batch[row, step.offset] = hidden_states[0]
        state = step.rows.initial_state(layer, step.pass_rows)
    else:  # one token of every row, in order
        batch, state = hidden_states[0][:, None], step.rows.states[layer]
    lengths = torch.bincount(row, minlength=step.count) if step.fresh else None
    states = _RowStates(state, lengths)
    with ExitStack() as stack:
        if lengths is not None and len(row) < batch.shape[0] * batch.shape[1]:
            stack.enter_context(
                _closed_gates(module, torch.arange(batch.shape[1], device=row.device) >= lengths[:, None])
            )
        out = type(module).forward(module, hidden_states=batch, **{cache_name: states})
    step.rows.write_state(layer, step.pass_rows, states.state)
    result: Tensor = out[row, step.offset] if step.fresh else out[:, 0]
    return result[None]


@contextmanager
def _closed_gates(module: Any, padding: Tensor) -> Iterator[None]:
    """Keep padded tokens out of a recurrent state: with both gates at minus infinity it passes them unchanged."""

    def close(_: Any, __: Any, out: Tensor) -> Tensor:
        return out.masked_fill(padding[..., None], float("-inf"))

    hooks = [getattr(module, name).register_forward_hook(close) for name in _GATES if hasattr(module, name)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

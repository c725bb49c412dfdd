"""A decoding step as one CUDA graph: thousands of launches are recorded once, then repeated by one call.

A step of a model with 28 layers launches some 3,000 kernels; without a graph the GPU waits for Python between them.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from models.engines.transformers.packed.kv_cache import PackedSequences, State

_log = logging.getLogger(__name__)
_MIN_STEPS = 6  # that must fit in the rows' memory: recording takes as long as two or three
_TOLERANCE = 0.1  # root mean square of a row's differences, in units of the logits' deviation


def may_be_recorded(config: Any, text: Any) -> bool:
    """Return whether a model's steps may be recorded: none that tests a number of the device, or may.

    A capture that fails costs more than it would have saved, above all in torch 2.11, so that none is begun where
    positions are scaled by the longest prompt, experts may be counted on the CPU, or weights are quantized.
    """
    rope = getattr(text, "rope_parameters", None) or {}  # of all layers, or by kind of layer
    kinds = {each.get("rope_type") for each in (rope, *rope.values()) if isinstance(each, dict)}
    experts = any(getattr(text, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
    return not (experts or getattr(config, "quantization_config", None) is not None or kinds & {"longrope", "dynamic"})


def capture(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record a step's kernels without computing them; return what computes them with the step's tensors.

    It holds no tensor that it reads: they must live as long. Where it fails, what torch 2.11 leaves behind is
    undone: the stream of the capture, a generator that refuses to draw, and a pool that takes all that is allocated.
    """
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    generator = torch.cuda.default_generators[device.index]
    drawn = generator.clone_state()
    # The thread that prepares pixels may use the device meanwhile.
    recording = torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local")
    try:
        with torch.cuda.stream(torch.cuda.current_stream(device)), recording:
            step()
    except RuntimeError:
        generator.graphsafe_set_state(drawn)
        with suppress(RuntimeError):  # later versions of torch, and some failures, have ended it
            torch._C._cuda_endAllocateToPool(device.index, pool)  # noqa: SLF001  # its public form is a context
        raise
    replay: Callable[[], None] = graph.replay
    return replay


class StepGraph:
    """Steps of rows whose tensors stay where they are: until rows are dropped, joined or need more memory."""

    def __init__(self, rows: PackedSequences, run: Callable[[Tensor, Tensor], Tensor], device: torch.device) -> None:
        """Record one step; `run` computes the logits [rows, vocabulary] of tokens [rows] at offsets [rows]."""
        self._tokens = torch.zeros(len(rows), dtype=torch.int64, device=device)
        self._offsets = torch.tensor(rows.lengths, device=device)
        states = dict(rows.states)

        def step() -> None:
            try:
                self._logits = run(self._tokens, self._offsets)
                _store(states, rows.states)
            finally:
                rows.states = states
            self._offsets += 1

        self._replay = capture(step, device)
        self._run = run  # it holds what the graph reads; the step refers to this object, which would be a cycle

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Return the logits [rows, vocabulary] after one more token of every row; the next step overwrites them."""
        self._tokens.copy_(torch.tensor(tokens))
        self._replay()
        return self._logits

    def check(self, tokens: Sequence[int], restore: Callable[[], None]) -> None:
        """Raise `RuntimeError` unless a step, which is taken back, gives the logits of one that is not recorded.

        `restore` gives the rows the states before a step.
        """
        expected = self._run(torch.tensor(tokens, device=self._tokens.device), self._offsets.clone()).float()
        restore()
        differences = (self.step(tokens).float() - expected).square().mean(-1).sqrt() / expected.std()
        self._offsets -= 1
        if not differences.max() < _TOLERANCE:
            raise RuntimeError(f"logits with and without differ by {differences.max():.2g} of their deviation")


class StepGraphs:
    """Records the steps of a model, until one shows that they cannot be."""

    def __init__(self, device: torch.device, *, is_on: bool) -> None:
        """Record steps on a device; nothing where it is off."""
        self._device = device
        self._is_on = is_on
        self._is_verified = False

    def record(
        self, rows: PackedSequences, tokens: Sequence[int], run: Callable[[Tensor, Tensor], Tensor]
    ) -> Callable[[Sequence[int]], Tensor] | None:
        """Return a recorded step of the rows; None where there is none, or where it would not pay.

        The first is compared with a step without: what a module does on the CPU is not recorded.
        """
        if not self._is_on or rows.capacity - max(rows.lengths) < _MIN_STEPS:
            return None
        states, before = dict(rows.states), dict[int, State]()
        try:
            if not self._is_verified:
                before = {layer: tuple(part.clone() for part in state) for layer, state in states.items()}
            graph = StepGraph(rows, run, self._device)
            if not self._is_verified:
                graph.check(tokens, lambda: _store(states, before))
        except RuntimeError as error:  # a module reads the device in the middle of a step, or memory is short
            self._is_on = False
            reason = str(error.__context__ or error).partition("\n")[0]
            _log.warning("CUDA graphs are off, so long answers are slower: %s", reason)
            return None
        finally:
            rows.states = states
            if before:
                _store(states, before)
        self._is_verified = True
        return graph.step


def _store(states: dict[int, State], computed: dict[int, State]) -> None:
    """Copy the states after a step to where the next one reads them."""
    for layer, state in states.items():
        for old, new in zip(state, computed[layer], strict=True):
            if new is not old:
                old.copy_(new)

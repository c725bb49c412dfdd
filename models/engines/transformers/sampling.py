"""Decoding of many rows at once: greedy or sampled, each row with its own draws and its own limit."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.engines.transformers.packed.kv_cache import PackedSequences
from models.engines.transformers.packed.model import PackedModel
from models.messages import Call

NOT_FINITE = -1
"""In place of a token whose logits are not finite: weights are damaged, or activations exceed the dtype's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTokens:
    """The tokens of one answer."""

    ids: tuple[int, ...]  # without the end token
    finish_reason: str  # `stop` at an end token, `length` at the limit, `not_finite` where there is no token

    @property
    def count(self) -> int:
        """Return the number of generated tokens, the end token included."""
        return len(self.ids) + (self.finish_reason == "stop")


def truncate(ids: Sequence[int], limit: int, end_ids: frozenset[int]) -> GeneratedTokens:
    """Cut generated tokens at the first end token, at the limit, or where logits were not finite."""
    for index, token in enumerate(ids[:limit]):
        if token in end_ids or token == NOT_FINITE:
            reason = "not_finite" if token == NOT_FINITE else "stop"
            return GeneratedTokens(ids=tuple(ids[:index]), finish_reason=reason)
    return GeneratedTokens(ids=tuple(ids[:limit]), finish_reason="length")


def choose_tokens(logits: Tensor, calls: Sequence[Call], steps: Sequence[int]) -> list[int]:
    """Return the next token of every row from logits [rows, vocabulary], or `NOT_FINITE`; draws depend on the step."""
    best = logits.max(-1)  # NaN where any logit is
    tokens: list[int] = best.indices.where(best.values.isfinite(), NOT_FINITE).tolist()
    for row, (call, step) in enumerate(zip(calls, steps, strict=True)):
        if call.generation.temperature > 0 and tokens[row] != NOT_FINITE:
            tokens[row] = _draw(logits[row], call, step)
    return [int(token) for token in broadcast_from_rank_0(torch.tensor(tokens, device=logits.device)).tolist()]


def broadcast_from_rank_0(values: Tensor) -> Tensor:
    """Return rank 0's values in every rank of a group: a differing last bit must not make ranks diverge."""
    if torch.distributed.is_initialized():
        torch.distributed.broadcast(values, 0)
    return values


def _draw(logits: Tensor, call: Call, step: int) -> int:
    """Draw a token by call, seed and step alone: the same in any batch, on any machine."""
    digest = hashlib.sha256(f"{call.generation.seed}|{call.call_id}|{step}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    total = torch.softmax(logits.double() / call.generation.temperature, -1).cumsum(-1)
    return min(int(torch.searchsorted(total, total[-1:] * point, right=True)), len(logits) - 1)


def decode(
    model: PackedModel,
    start: Callable[[range], tuple[PackedSequences, Tensor]],
    calls: Sequence[Call],
    *,
    max_rows: int,
    end_ids: frozenset[int],
) -> Iterator[dict[int, GeneratedTokens]]:
    """Generate the answers of calls, at most `max_rows` at once: the next begin as answers end.

    `start` prefills a range of the calls; it returns their rows and their first tokens' logits [rows, vocabulary].
    Yields answers by the index of their call before others begin, so that none waits for longer than an answer takes.
    """
    answers: list[list[int]] = [[] for _ in calls]
    finished: set[int] = set()
    yielded: set[int] = set()

    def take() -> dict[int, GeneratedTokens]:
        ended = sorted(finished - yielded)
        yielded.update(ended)
        return {index: truncate(answers[index], calls[index].generation.max_new_tokens, end_ids) for index in ended}

    def append(indices: Sequence[int], logits: Tensor) -> None:
        steps = [len(answers[index]) for index in indices]
        tokens = choose_tokens(logits, [calls[index] for index in indices], steps)
        for index, token, step in zip(indices, tokens, steps, strict=True):
            if index not in finished:
                answers[index].append(token)
                if token in end_ids or token == NOT_FINITE or step + 1 >= calls[index].generation.max_new_tokens:
                    finished.add(index)

    waiting = range(len(calls))
    live: list[int] = []  # the calls of `rows`
    rows = PackedSequences([], [], 0)
    try:
        while len(finished) < len(calls):
            remaining = [at for at, index in enumerate(live) if index not in finished]
            is_filled = bool(waiting) and 4 * len(remaining) <= 3 * max_rows
            if is_filled or 4 * len(remaining) <= 3 * len(live):
                rows.keep(remaining)
                live = [live[at] for at in remaining]
            if is_filled:
                if ended := take():
                    yield ended
                batch, waiting = waiting[: max_rows - len(live)], waiting[max_rows - len(live) :]
                fresh, logits = start(batch)
                append(batch, logits)
                fresh.keep([at for at, index in enumerate(batch) if index not in finished])
                rows = rows.join(fresh)
                live += [index for index in batch if index not in finished]
                order = rows.by_path(range(len(live)))
                rows.keep(order)
                live = [live[at] for at in order]
            else:
                # A row whose logits were not finite stays until the rows are next sorted out; its tokens are not read.
                append(live, model.step(rows, [max(0, answers[index][-1]) for index in live]))
        yield take()
    finally:
        rows.graph = None  # it holds the rows that hold it, and with them the device's memory

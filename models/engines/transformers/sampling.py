"""Decoding of many rows at once: greedy or sampled, each row with its own draws and its own limit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.engines.transformers.packed.kv_cache import PackedSequences
from models.engines.transformers.packed.model import PackedModel
from models.messages import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTokens:
    """The tokens of one answer."""

    ids: tuple[int, ...]  # without the end token
    finish_reason: str  # `stop` at an end token, `length` at the limit

    @property
    def count(self) -> int:
        """Return the number of generated tokens, the end token included."""
        return len(self.ids) + (self.finish_reason == "stop")


def truncate(ids: Sequence[int], limit: int, end_ids: frozenset[int]) -> GeneratedTokens:
    """Cut generated tokens at the first end token or at the limit."""
    for index, token in enumerate(ids[:limit]):
        if token in end_ids:
            return GeneratedTokens(ids=tuple(ids[:index]), finish_reason="stop")
    return GeneratedTokens(ids=tuple(ids[:limit]), finish_reason="length")


def choose_tokens(logits: Tensor, calls: Sequence[Call], step: int) -> list[int]:
    """Return the next token of every row from logits [rows, vocabulary]; a draw depends on the step."""
    tokens: list[int] = logits.argmax(-1).tolist()
    for row, call in enumerate(calls):
        if call.generation.temperature > 0:
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
    model: PackedModel, rows: PackedSequences, logits: Tensor, calls: Sequence[Call], *, end_ids: frozenset[int]
) -> list[GeneratedTokens]:
    """Generate every row's answer from the first tokens' logits [rows, vocabulary]; `rows` are used up."""
    answers: list[list[int]] = [[] for _ in calls]
    live = list(range(len(calls)))
    finished: set[int] = set()
    step = 0
    while True:
        tokens = choose_tokens(logits, [calls[index] for index in live], step)
        step += 1
        for index, token in zip(live, tokens, strict=True):
            if index not in finished:
                answers[index].append(token)
                if token in end_ids or step >= calls[index].generation.max_new_tokens:
                    finished.add(index)
        remaining = [at for at, index in enumerate(live) if index not in finished]
        if not remaining:
            break
        if step == 1:
            remaining = rows.by_path(remaining)
        if remaining != [*range(len(live))] and (step == 1 or 4 * len(remaining) <= 3 * len(live)):
            rows.keep(remaining)
            live, tokens = [live[at] for at in remaining], [tokens[at] for at in remaining]
        logits = model.step(rows, tokens)
    return [truncate(ids, call.generation.max_new_tokens, end_ids) for ids, call in zip(answers, calls, strict=True)]

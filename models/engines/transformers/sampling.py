"""Token after token for many rows at once: greedy or drawn by each call's own dice, each row to its own limit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.engines.transformers.kv_cache import PackedSequences
from models.engines.transformers.packed_model import PackedModel
from models.messages import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTokens:
    """The tokens of one answer."""

    ids: tuple[int, ...]
    """Without the end token."""
    finish_reason: str
    """`stop` at an end token, `length` at the limit."""

    @property
    def computed(self) -> int:
        """Tokens generated, the end token included."""
        return len(self.ids) + (self.finish_reason == "stop")


def written(ids: Sequence[int], limit: int, end_ids: frozenset[int]) -> GeneratedTokens:
    """Cut generated tokens at the first end token or at the limit."""
    for index, token in enumerate(ids[:limit]):
        if token in end_ids:
            return GeneratedTokens(ids=tuple(ids[:index]), finish_reason="stop")
    return GeneratedTokens(ids=tuple(ids[:limit]), finish_reason="length")


def choose(logits: Tensor, calls: Sequence[Call], step: int) -> list[int]:
    """The next token of every row.

    Args:
        logits: [rows, vocabulary].
        calls: the rows' calls.
        step: tokens that the rows have already; part of what a draw depends on.
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    for row, call in enumerate(calls):
        if call.generation.temperature > 0:
            tokens[row] = _draw(logits[row], call, step)
    return [int(token) for token in broadcast_from_rank_0(torch.tensor(tokens, device=logits.device)).tolist()]


def broadcast_from_rank_0(values: Tensor) -> Tensor:
    """What rank 0 has, in every rank of a group: a last bit that differs must not lead them different ways."""
    if torch.distributed.is_initialized():
        torch.distributed.broadcast(values, 0)
    return values


def _draw(logits: Tensor, call: Call, step: int) -> int:
    """A draw that depends on the call, its seed and the step alone: the same in any batch, on any machine."""
    digest = hashlib.sha256(f"{call.generation.seed}|{call.call_id}|{step}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    total = torch.softmax(logits.double() / call.generation.temperature, -1).cumsum(-1)
    return min(int(torch.searchsorted(total, total[-1:] * point, right=True)), len(logits) - 1)


def decode(
    model: PackedModel, rows: PackedSequences, logits: Tensor, calls: Sequence[Call], *, end_ids: frozenset[int]
) -> list[GeneratedTokens]:
    """Write every row's answer; rows that are done leave when they are a quarter of the batch.

    Args:
        model: what reads the tokens.
        rows: as `PackedModel.start` left them; used up.
        logits: [rows, vocabulary] of the first tokens.
        calls: the rows' calls.
        end_ids: tokens that end an answer.
    """
    answers: list[list[int]] = [[] for _ in calls]
    live = list(range(len(calls)))
    done: set[int] = set()
    step = 0
    while True:
        tokens = choose(logits, [calls[index] for index in live], step)
        step += 1
        for index, token in zip(live, tokens, strict=True):
            if index not in done:
                answers[index].append(token)
                if token in end_ids or step >= calls[index].generation.max_new_tokens:
                    done.add(index)
        stay = [at for at, index in enumerate(live) if index not in done]
        if not stay:
            break
        if 4 * len(stay) <= 3 * len(live):
            rows.keep(stay)
            live, tokens = [live[at] for at in stay], [tokens[at] for at in stay]
        logits = model.step(rows, tokens)
    return [written(ids, call.generation.max_new_tokens, end_ids) for ids, call in zip(answers, calls, strict=True)]

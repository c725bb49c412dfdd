"""Log-probabilities of given texts, after a prompt or by themselves; batched, common beginnings read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.kv_cache import SharedSegment
from models.engines.transformers.prefix_sharing import SharedModel
from models.engines.transformers.prompts import NO_HEAD, Head, Prompt, PromptMaker
from models.engines.transformers.sampling import broadcast_from_rank_0
from models.messages import Answer, Call, CallReply, Failure, Frames, Generation, Media, logprobs_to_text

_LOGITS = 1 << 28
"""Logits held at once: 1 GiB in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One text to score: what comes before it, and its own tokens at the end."""

    call: int
    head: Head
    path: tuple[SharedSegment, ...]
    ids: list[int]
    """All tokens behind the path, those to score last."""
    count: int
    """Tokens to score."""


class Scorer:
    """Scores texts with a checkpoint; not made for more than one thread.

    A text by itself is scored after the tokenizer's first token if it has one, else from its second token on. A text
    that follows turns is tokenized by itself and scored whole, after the chat template's words.
    """

    def __init__(self, checkpoint: Checkpoint, maker: PromptMaker) -> None:
        self._model = checkpoint.model
        self._tokenizer = checkpoint.tokenizer
        self._device = checkpoint.device
        self._maker = maker
        vocabulary = int(getattr(checkpoint.text_config, "vocab_size", 1 << 17))
        self._chunk = max(64, _LOGITS // vocabulary)

    def score(
        self,
        calls: Sequence[Call],
        media: Mapping[Media, Frames],
        shared: SharedModel | None,
        max_len: int | None,
    ) -> list[CallReply]:
        """One reply for each call, in their order.

        Args:
            calls: all about the same media.
            media: their pixels.
            shared: what reads common beginnings once; None for one text at a time.
            max_len: tokens that a prompt and one text may have together.

        Raises:
            SharingUnsupportedError: the model cannot share.
        """
        replies: dict[int, CallReply] = {}
        prompts: dict[int, Prompt] = {}
        told = [index for index, call in enumerate(calls) if call.turns]
        for index, made in zip(told, self._maker.make([calls[index] for index in told], media), strict=True):
            if isinstance(made, Prompt):
                prompts[index] = made
            else:
                replies[index] = made
        begun = self._begin(prompts, shared)
        lines: list[_Line] = []
        for index, call in enumerate(calls):
            if index in replies:
                continue
            own = [self._line(index, text, begun.get(index)) for text in call.scored]
            longest = max(len(line.ids) + sum(segment.length for segment in line.path) for line in own)
            if min(line.count for line in own) < 1:
                failure = Failure(type="unscorable", message="a text has no token whose probability could be told")
                replies[index] = CallReply(call_id=call.call_id, outcome=failure)
            elif max_len is not None and longest > max_len:
                failure = Failure(type="context_length", message=f"{longest} tokens are more than {max_len}")
                replies[index] = CallReply(call_id=call.call_id, outcome=failure)
            else:
                lines += own
        sums = broadcast_from_rank_0(self._sums(lines, shared)).tolist() if lines else []
        for index, call in enumerate(calls):
            if index not in replies:
                own_sums = [(line, total) for line, total in zip(lines, sums, strict=True) if line.call == index]
                replies[index] = _reply(call, own_sums)
        return [replies[index] for index in range(len(calls))]

    def _begin(
        self, prompts: Mapping[int, Prompt], shared: SharedModel | None
    ) -> dict[int, tuple[Head, tuple[SharedSegment, ...], list[int]]]:
        """What each prompt begins with, read already, and what of it is still to be read: one token at least."""
        if shared is None:
            return {index: (prompt.head, (), prompt.ids.tolist()) for index, prompt in prompts.items()}
        by_head: dict[bytes, list[int]] = {}
        for index, prompt in prompts.items():
            by_head.setdefault(prompt.head.ids.tobytes(), []).append(index)
        begun = {}
        for alike in by_head.values():
            for index, job in zip(alike, shared.read([prompts[index] for index in alike]), strict=True):
                begun[index] = (prompts[index].head, job.path, job.tail)
        return begun

    def _line(self, index: int, text: str, begun: tuple[Head, tuple[SharedSegment, ...], list[int]] | None) -> _Line:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if begun is not None:
            head, path, tail = begun
            return _Line(call=index, head=head, path=path, ids=[*tail, *ids], count=len(ids))
        first = self._tokenizer.bos_token_id
        whole = ids if first is None else [first, *ids]
        return _Line(call=index, head=NO_HEAD, path=(), ids=whole, count=len(whole) - 1)

    def _sums(self, lines: Sequence[_Line], shared: SharedModel | None) -> Tensor:
        """Summed log-probability of each line's text, [lines]."""
        if shared is None:
            return torch.stack([self._alone(line) for line in lines])
        bare = max(lines, key=lambda line: len(line.ids) if not line.path else 0)
        if not bare.path and len(bare.ids) > 1:
            call = Call(call_id="", turns=(), generation=Generation(max_new_tokens=1))
            shared.prove(Prompt(call=call, head=NO_HEAD, ids=np.asarray(bare.ids, dtype=np.int64)))
        return shared.score(
            [line.path for line in lines],
            [line.ids for line in lines],
            [line.count for line in lines],
            chunk=self._chunk,
        )

    def _alone(self, line: _Line) -> Tensor:
        """One text in one pass of the model as it is."""
        ids = torch.tensor([line.ids], device=self._device)
        given: dict[str, Any] = {**line.head.inputs, **line.head.by_token(len(line.ids))}
        with torch.inference_mode():
            logits = self._model(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                logits_to_keep=line.count + 1,
                **{name: tensor.to(self._device) for name, tensor in given.items()},
            ).logits[0, :-1]
        said = torch.log_softmax(logits.float(), -1).gather(-1, ids[0, -line.count :, None].to(logits.device))
        return said.double().sum()


def _reply(call: Call, scored: Sequence[tuple[_Line, float]]) -> CallReply:
    means = [total / line.count for line, total in scored]
    read = sum(len(line.ids) + sum(segment.length for segment in line.path) for line, _ in scored)
    answer = Answer(
        text=logprobs_to_text(means, [line.count for line, _ in scored]),
        input_tokens=read,
        cached_tokens=sum(segment.length for line, _ in scored[1:] for segment in line.path),
    )
    return CallReply(call_id=call.call_id, outcome=answer)

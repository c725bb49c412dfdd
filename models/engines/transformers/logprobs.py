"""Log-probabilities of given texts, after a prompt or by themselves; batched, with shared prefixes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.packed.kv_cache import SharedSegment
from models.engines.transformers.prefix_sharing import SharedModel
from models.engines.transformers.prompt_records import NO_HEAD, Head, Prompt
from models.engines.transformers.prompts import PromptMaker
from models.engines.transformers.row_errors import not_finite_reply
from models.engines.transformers.sampling import broadcast_from_rank_0
from models.messages import Answer, Call, CallReply, Failure, Frames, Generation, Media, logprobs_to_text

_MAX_LOGITS = 1 << 28  # logits held at once: 1 GiB in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScoredText:
    call: int
    head: Head
    path: tuple[SharedSegment, ...]
    ids: list[int]  # all tokens after the path, the scored ones last
    count: int  # scored tokens

    @property
    def total_tokens(self) -> int:
        return len(self.ids) + sum(segment.length for segment in self.path)


class Scorer:
    """Scores texts with a checkpoint; not thread-safe.

    A text by itself is scored after the tokenizer's first token if it has one, else from its second token on. A text
    that follows turns is tokenized by itself and scored completely, after the chat template's text.
    """

    def __init__(self, checkpoint: Checkpoint, maker: PromptMaker) -> None:
        self._model = checkpoint.model
        self._tokenizer = checkpoint.tokenizer
        self._device = checkpoint.device
        self._maker = maker
        vocabulary = int(getattr(checkpoint.text_config, "vocab_size", 1 << 17))
        self._chunk = max(64, _MAX_LOGITS // vocabulary)

    def score(
        self, calls: Sequence[Call], media: Mapping[Media, Frames], shared: SharedModel | None, max_len: int | None
    ) -> list[CallReply]:
        """Return replies to calls about the same media, in order; without `shared`, score one text at a time."""
        replies: dict[int, CallReply] = {}
        prompts: dict[int, Prompt] = {}
        prompted = [index for index, call in enumerate(calls) if call.turns]
        results = self._maker.make([calls[index] for index in prompted], media)
        for index, result in zip(prompted, results, strict=True):
            if isinstance(result, Prompt):
                prompts[index] = result
            else:
                replies[index] = result
        prefixes = self._prefill(prompts, shared)
        texts: list[_ScoredText] = []
        for index, call in enumerate(calls):
            if index in replies:
                continue
            call_texts = [self._encode(index, text, prefixes.get(index)) for text in call.scored]
            longest = max(text.total_tokens for text in call_texts)
            if min(text.count for text in call_texts) < 1:
                failure = Failure(type="unscorable", message="a text has no token to score")
                replies[index] = CallReply(call_id=call.call_id, outcome=failure)
            elif max_len is not None and longest > max_len:
                failure = Failure(type="context_length", message=f"{longest} tokens are more than {max_len}")
                replies[index] = CallReply(call_id=call.call_id, outcome=failure)
            else:
                texts += call_texts
        sums = broadcast_from_rank_0(self._sums(texts, shared)).tolist() if texts else []
        for index, call in enumerate(calls):
            if index not in replies:
                call_sums = [(text, total) for text, total in zip(texts, sums, strict=True) if text.call == index]
                replies[index] = _reply(call, call_sums, self._model.dtype)
        return [replies[index] for index in range(len(calls))]

    def _prefill(
        self, prompts: Mapping[int, Prompt], shared: SharedModel | None
    ) -> dict[int, tuple[Head, tuple[SharedSegment, ...], list[int]]]:
        """Return each prompt's head, prefilled segments, and remaining tokens: one at least."""
        if shared is None:
            return {index: (prompt.head, (), prompt.ids.tolist()) for index, prompt in prompts.items()}
        by_head: dict[bytes, list[int]] = {}
        for index, prompt in prompts.items():
            by_head.setdefault(prompt.head.ids.tobytes(), []).append(index)
        prefixes = {}
        for group in by_head.values():
            for index, result in zip(group, shared.prefill([prompts[index] for index in group]), strict=True):
                prefixes[index] = (prompts[index].head, result.path, result.tail)
        return prefixes

    def _encode(
        self, index: int, text: str, prefix: tuple[Head, tuple[SharedSegment, ...], list[int]] | None
    ) -> _ScoredText:
        text.encode()  # as in `render_template`
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if prefix is not None:
            head, path, tail = prefix
            return _ScoredText(call=index, head=head, path=path, ids=[*tail, *ids], count=len(ids))
        first = self._tokenizer.bos_token_id
        tokens = ids if first is None else [first, *ids]
        return _ScoredText(call=index, head=NO_HEAD, path=(), ids=tokens, count=len(tokens) - 1)

    def _sums(self, texts: Sequence[_ScoredText], shared: SharedModel | None) -> Tensor:
        """Return the summed log-probability of each text, [texts]."""
        if shared is None:
            return torch.stack([self._score_single(text) for text in texts])
        longest = max(texts, key=lambda text: len(text.ids) if not text.path else 0)
        if not longest.path and len(longest.ids) > 1:
            call = Call(call_id="", turns=(), generation=Generation(max_new_tokens=1))
            shared.verify(Prompt(call=call, head=NO_HEAD, ids=np.asarray(longest.ids, dtype=np.int64)))
        paths, tails = [text.path for text in texts], [text.ids for text in texts]
        return shared.score(paths, tails, [text.count for text in texts], chunk=self._chunk)

    def _score_single(self, text: _ScoredText) -> Tensor:
        ids = torch.tensor([text.ids], device=self._device)
        inputs: dict[str, Any] = {**text.head.inputs, **text.head.by_token(len(text.ids))}
        with torch.inference_mode():
            logits = self._model(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                logits_to_keep=text.count + 1,
                **{name: tensor.to(self._device) for name, tensor in inputs.items()},
            ).logits[0, :-1]
        logprobs = torch.log_softmax(logits.float(), -1).gather(-1, ids[0, -text.count :, None].to(logits.device))
        return logprobs.double().sum()


def _reply(call: Call, scored: Sequence[tuple[_ScoredText, float]], dtype: torch.dtype) -> CallReply:
    if any(math.isnan(total) for _, total in scored):
        return not_finite_reply(call, 0, dtype)
    means = [total / text.count for text, total in scored]
    answer = Answer(
        text=logprobs_to_text(means, [text.count for text, _ in scored]),
        input_tokens=sum(text.total_tokens for text, _ in scored),
        cached_tokens=sum(segment.length for text, _ in scored[1:] for segment in text.path),
    )
    return CallReply(call_id=call.call_id, outcome=answer)

"""The `transformers` engine: prefixes that calls share are prefilled once, other calls run in padded batches."""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

import torch

from models.engines.launch import LaunchedModel
from models.engines.offload import is_spread
from models.engines.transformers.checkpoint import load_checkpoint, warn_of_emulation
from models.engines.transformers.logprobs import Scorer
from models.engines.transformers.memory import Memory
from models.engines.transformers.padded_batch import PaddedBatchModel
from models.engines.transformers.prefix_sharing import SharedModel, SharedPrompt, sharing_unsupported_reason
from models.engines.transformers.prompt_records import Prompt, count_distinct_tokens
from models.engines.transformers.prompts import PromptMaker
from models.engines.transformers.row_errors import (
    attempt,
    failure_reply,
    is_out_of_memory,
    join_ranks,
    not_finite_reply,
)
from models.engines.transformers.sampling import GeneratedTokens
from models.errors import EngineDiedError, PrefixSharingUnsupportedError
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, decoding_name
from models.spec import ModelSpec

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_GPU_PICTURES = 16  # in one pass: alone a picture leaves most of a GPU idle
_POOLED_BATCHES = 4  # batches of prefilled prompts from which one batch is kept full while answers end


class TransformersEngine:
    """Answers calls with a checkpoint of transformers.

    Input tokens include pixels, output tokens the end token; cached tokens are those that another call paid for.
    `latency_s` is the time in which a call was prefilled and answered, with the calls of its batch; not what it waits
    for a place in one.
    """

    has_own_timeout = False

    def __init__(self, spec: ModelSpec, *, launched: LaunchedModel | None = None) -> None:
        """Load the model, or raise `EngineUnreachableError`; `launched` has its files fetched already."""
        self._checkpoint = load_checkpoint(spec, launched)
        self._maker = PromptMaker(self._checkpoint, spec)
        self._memory = Memory(self._checkpoint, spec)
        self._padded = PaddedBatchModel(self._checkpoint)
        self._scorer = Scorer(self._checkpoint, self._maker)
        self.no_sharing_reason: str | None = None  # why all calls run in padded batches; None while prefixes are shared
        self._shared = self._build_shared_model(records_steps=spec.cuda_graphs)
        if not spec.share_prefix:
            self._stop_sharing("share_prefix is false")
        if is_spread(self._checkpoint.model):
            self._stop_sharing("its layers are on several devices")
        self.max_model_len = spec.limits.max_model_len or self._checkpoint.max_len  # tokens of prompt and answer
        self._model_name = spec.model
        self._ranks = join_ranks()
        # An error of one rank would end the group.
        self._pictures = 1 if self._ranks else pictures_per_pass(spec, self._checkpoint.device)
        self._distinct_tokens: dict[str, int] = {}
        self.warnings = warn_of_emulation(self._checkpoint)

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, batch by batch; `DeviceFailedError` when the device is gone."""
        self._distinct_tokens.clear()
        unshared: list[Prompt] = []
        ready: list[SharedPrompt] = []
        waiting: list[list[Prompt]] = []
        for group in _grouped((call for call in calls if call.scored), lambda call: call.media):
            yield from self._score(group, media)
        for group in _grouped((call for call in calls if not call.scored), lambda call: call.media):
            prompts: list[Prompt] = []
            for result in self._maker.make(group, media):
                checked = self._check_length(result) if isinstance(result, Prompt) else result
                if isinstance(checked, Prompt):
                    prompts.append(checked)
                else:
                    yield checked
            self._distinct_tokens |= count_distinct_tokens(prompts)
            waiting += _grouped(prompts, lambda prompt: prompt.head.ids.tobytes())
            if len(waiting) >= self._pictures:
                yield from self._prefill_heads(waiting, ready, unshared)
                waiting = []
        yield from self._prefill_heads(waiting, ready, unshared)
        yield from self._answer_ready(ready, flush=True)
        yield from self._answer_padded(unshared)

    def _prefill_heads(
        self, heads: Sequence[Sequence[Prompt]], ready: list[SharedPrompt], unshared: list[Prompt]
    ) -> Iterator[CallReply]:
        """Prefill prompts, those with one head together, and answer `ready` ones where there are enough."""
        ahead = self._encode_ahead([same_head[0] for same_head in heads])
        for same_head in heads:
            prefilled = self._prefill(same_head)
            if prefilled is None and ready:
                yield from self._answer_ready(ready, flush=True)
                prefilled = self._prefill(same_head)
            while prefilled is None and self._shared is not None and self._shared.shorten_passes():
                prefilled = self._prefill(same_head)
            for shared in prefilled or ():
                shared.seconds += ahead if shared.prompt.head.inputs else 0.0
            ready.extend(prefilled or ())
            call_ids = {shared.prompt.call.call_id for shared in prefilled or ()}
            unshared.extend(prompt for prompt in same_head if prompt.call.call_id not in call_ids)
            yield from self._answer_ready(ready, flush=False)

    def _encode_ahead(self, prompts: Sequence[Prompt]) -> float:
        """Prefill the pictures of several prompts in one pass where the entry asks for it; return the seconds."""
        shared, started = self._shared, perf_counter()
        supported = [prompt for prompt in prompts if shared is not None and shared.supports(prompt)]
        if shared is None or self._pictures == 1 or len(supported) < 2:
            return 0.0
        result = self._attempt(lambda: shared.encode_ahead(supported), len(supported))
        if isinstance(result, Exception):
            self._pictures = self._pictures // 2 if is_out_of_memory(result) else 1
            self.warnings = (*self.warnings, f"pictures are prefilled by {self._pictures} in a pass: {result}")
            shared.clear()
            self._memory.release()
        return perf_counter() - started

    @property
    def reads_pixels(self) -> bool:
        """Whether this process needs the pixels of media; of the ranks of a group the first alone may."""
        return self._maker.reads_pixels

    def prepare(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> None:
        """Preprocess the pixels of calls that come next; from another thread than the one that answers."""
        self._maker.prepare(calls, media)

    def close(self) -> None:
        """Release the model and its memory; the engine cannot answer after it."""
        for part in ("_shared", "_padded", "_scorer", "_maker", "_memory", "_checkpoint"):
            self.__dict__.pop(part, None)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def parameters(self) -> list[torch.Tensor]:
        """Return the weights, as this process holds them."""
        return list(self._checkpoint.model.parameters())

    def _build_shared_model(self, *, records_steps: bool = True) -> SharedModel | None:
        reason = sharing_unsupported_reason(self._checkpoint.model.config)
        if reason is not None:
            self._stop_sharing(reason)
            return None
        try:
            return SharedModel(self._checkpoint, self._memory, records_steps=records_steps)
        except PrefixSharingUnsupportedError as error:
            self._stop_sharing(str(error))
            return None

    def _fall_back(self, error: PrefixSharingUnsupportedError) -> None:
        """Stop sharing prefixes because a model does otherwise than is expected of its kind."""
        self.warnings = (*self.warnings, f"prefixes are computed again with every question: {error}")
        self._stop_sharing(str(error))

    def _stop_sharing(self, reason: str) -> None:
        self._shared = None
        if self.no_sharing_reason is None:
            self.no_sharing_reason = reason
            _log.warning("%s runs in padded batches: %s", self._checkpoint.model.config.model_type, reason)

    def _check_length(self, prompt: Prompt) -> Prompt | CallReply:
        generation = prompt.call.generation
        tokens, new = len(prompt.ids), generation.max_new_tokens
        if self.max_model_len is not None and tokens + new > self.max_model_len:
            failure = Failure(
                type="context_length",
                message=f"{tokens} tokens of prompt and {new} of answer exceed {self.max_model_len}",
            )
        elif generation.num_beams > 1 and generation.temperature > 0:
            failure = Failure(type="unsupported", message="beam search with a temperature above 0")
        else:
            return prompt
        return CallReply(call_id=prompt.call.call_id, outcome=failure)

    def _prefill(self, prompts: Sequence[Prompt]) -> list[SharedPrompt] | None:
        """Prefill what prompts with one head share, without those that cannot share; None when out of memory."""
        shared = self._shared
        supported = [prompt for prompt in prompts if shared is not None and shared.supports(prompt)]
        if shared is None or not supported:
            return []
        started = perf_counter()
        result: list[SharedPrompt] | Exception = self._attempt(lambda: shared.prefill(supported))
        if not isinstance(result, Exception):
            for prefilled in result:
                prefilled.seconds = perf_counter() - started
            return result
        if isinstance(result, PrefixSharingUnsupportedError):
            self._fall_back(result)
            return []
        _log.warning("%d calls cannot share a prefill: %s", len(supported), result)
        shared.clear()
        self._memory.release()
        return None if is_out_of_memory(result) else []

    def _score(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Score the texts of calls about the same media; where that fails in halves, down to single calls."""
        started = perf_counter()
        result = self._attempt(lambda: self._scorer.score(calls, media, self._shared, self.max_model_len))
        if isinstance(result, list):
            seconds = perf_counter() - started
            yield from (replace(reply, latency_s=seconds) for reply in result)
        elif isinstance(result, PrefixSharingUnsupportedError):
            self._fall_back(result)
            yield from self._score(calls, media)
        elif len(calls) == 1 and is_out_of_memory(result) and self._shared and self._shared.shorten_passes():
            yield from self._score(calls, media)
        elif len(calls) > 1:
            yield from self._in_halves(calls, lambda half: self._score(half, media), result)
        else:
            yield failure_reply(calls[0], result)

    def _answer_ready(self, ready: list[SharedPrompt], *, flush: bool) -> Iterator[CallReply]:
        """Answer prefilled prompts where they fill batches or memory, or with `flush`."""
        for kind in ((False, False), (True, False), (True, True)):
            waiting = [shared for shared in ready if (shared.is_single, shared.logits is not None) == kind]
            waiting.sort(key=lambda shared: (shared.prompt.call.generation.max_new_tokens, len(shared.tail)))
            cached_bytes = sum({id(s): s.nbytes for shared in waiting for s in shared.path}.values())
            is_full = cached_bytes >= self._memory.prefix_cache_bytes
            if waiting and (flush or is_full or len(waiting) >= _POOLED_BATCHES * self._rows(waiting)):
                taken = {id(shared) for shared in waiting}
                ready[:] = [shared for shared in ready if id(shared) not in taken]
                yield from self._answer(waiting)

    def _rows(self, prompts: Sequence[SharedPrompt]) -> int:
        """Return how many prompts like these may be answered at once."""
        is_followed = max(shared.prompt.call.generation.max_new_tokens for shared in prompts) > 1
        states = self._shared.state_bytes if self._shared is not None and is_followed else 0
        return self._memory.rows(max(map(_own_tokens, prompts)), states)

    def _answer(self, prompts: Sequence[SharedPrompt]) -> Iterator[CallReply]:
        """Answer prompts in a batch that is kept full; in halves where memory runs out, padded after other errors."""
        model, rows = self._shared, min(len(prompts), self._rows(prompts))
        left, error = dict(enumerate(prompts)), None
        answers = model.generate(prompts, max_rows=rows) if model is not None else iter(())
        while left:
            ended = self._attempt(lambda: next(answers, None), rows)
            if not isinstance(ended, dict):
                error = ended
                break
            now = perf_counter()
            for index, tokens in ended.items():
                shared = left.pop(index)
                yield self._reply(shared.prompt, tokens, now - shared.begun + shared.seconds, shared.cached)
        if not left:
            return
        if error is not None and is_out_of_memory(error) and len(left) > 1:
            yield from self._in_halves([*left.values()], self._answer, error, rows)
            return
        if isinstance(error, PrefixSharingUnsupportedError):
            self._fall_back(error)
        elif error is not None:
            _log.warning("%d calls run in padded batches: %s", len(left), error)
        yield from self._answer_padded([shared.prompt for shared in left.values()])

    def _answer_padded(self, prompts: Sequence[Prompt]) -> Iterator[CallReply]:
        """Answer in padded batches of similar prompts, those with the same pixels together."""
        uses = Counter(id(prompt.head) for prompt in prompts)
        groups: dict[tuple[object, ...], list[Prompt]] = {}
        for prompt in prompts:
            shared_head = id(prompt.head) if uses[id(prompt.head)] > 1 else None
            groups.setdefault((*self._padded.batch_key(prompt), shared_head), []).append(prompt)
        for group in groups.values():
            waiting = sorted(group, key=lambda prompt: len(prompt.ids))
            while waiting:
                new = max(prompt.call.generation.max_new_tokens for prompt in waiting)
                beams = waiting[0].call.generation.num_beams
                rows = self._memory.rows((len(waiting[-1].ids) + new) * beams, is_padded=True)
                batch, waiting = waiting[:rows], waiting[rows:]
                yield from self._padded_batch(batch)

    def _padded_batch(self, prompts: Sequence[Prompt]) -> Iterator[CallReply]:
        started = perf_counter()
        result = self._attempt(lambda: self._padded.generate(prompts), len(prompts))
        if isinstance(result, list):
            seconds = perf_counter() - started
            for prompt, tokens in zip(prompts, result, strict=True):
                yield self._reply(prompt, tokens, seconds)
        elif len(prompts) == 1:
            yield failure_reply(prompts[0].call, result)
        else:
            yield from self._in_halves(prompts, self._padded_batch, result)

    def _in_halves(
        self,
        batch: Sequence[_T],
        run: Callable[[Sequence[_T]], Iterator[CallReply]],
        error: Exception,
        rows: int | None = None,
    ) -> Iterator[CallReply]:
        """Run a batch that an error ended again in halves; where memory ran out, later batches are smaller too.

        `rows` is how many of it were computed at once, where not all.
        """
        _log.warning("retrying a batch of %d in halves: %s: %s", len(batch), type(error).__name__, error)
        if is_out_of_memory(error):
            self._memory.shrink(rows or len(batch))
        else:
            self._memory.release()
        middle = len(batch) // 2
        yield from run(batch[:middle])
        yield from run(batch[middle:])

    def _reply(self, prompt: Prompt, tokens: GeneratedTokens, seconds: float, cached: int = 0) -> CallReply:
        if tokens.finish_reason == "not_finite":
            return not_finite_reply(prompt.call, tokens.count, self._checkpoint.model.dtype)
        text = self._checkpoint.tokenizer.decode(
            tokens.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        answer = Answer(
            text=text,
            finish_reason=tokens.finish_reason,
            decoding=decoding_name(prompt.call.generation, beams=True),
            input_tokens=len(prompt.ids),
            output_tokens=tokens.count,
            cached_tokens=cached,
            head_tokens=len(prompt.head.ids),
            least_tokens=self._distinct_tokens.pop(prompt.call.call_id, None),
        )
        return CallReply(call_id=prompt.call.call_id, outcome=answer, latency_s=seconds)

    def _attempt(self, action: Callable[[], _T], rows: int = 1) -> _T | Exception:
        try:
            return attempt(action, self._model_name, self._ranks)
        except EngineDiedError as error:
            if isinstance(error.__cause__, Exception) and is_out_of_memory(error.__cause__):
                self._memory.shrink(rows)
            error.max_rows = self._memory.learnt_rows
            raise


def pictures_per_pass(spec: ModelSpec, device: torch.device) -> int:
    """Return how many pictures are prefilled in one pass: what the entry sets, else by device."""
    return spec.pictures_per_prefill or (_GPU_PICTURES if device.type == "cuda" else 1)


def _grouped(items: Iterable[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return items with equal keys together, groups and members in the order of the items."""
    groups: dict[Hashable, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _own_tokens(shared: SharedPrompt) -> int:
    """Return the tokens whose keys and values a row stores for itself, its answer included."""
    copied = shared.path[0].length if shared.is_single else 0
    return copied + len(shared.tail) + shared.prompt.call.generation.max_new_tokens
